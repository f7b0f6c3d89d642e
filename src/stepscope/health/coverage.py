"""The verdict on a run with what it covers: five questions, each answered yes or no, or not judged.

That nothing was found says little if nothing could be looked at. A run is called healthy only if the first
four questions are answered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from stepscope.health.finding import Abstention, Finding, Severity

Question = Literal["finite", "learns", "generalises", "steady", "cost"]
Reply = Literal["yes", "no", "not judged"]

DECIDING: dict[Question, tuple[str, ...]] = {
    "finite": ("nonfinite-loss",),
    # A policy learns if its return rises; its losses need not fall.
    "learns": ("return-collapsed", "loss-not-decreasing"),
    "generalises": ("overfitting", "evaluation-collapsed", "overtraining"),
    # Where step-outliers has judged, this lacks nothing but a way to tell whose work made steps longer.
    "steady": ("slower-steps",),
    "cost": ("data-wait", "gpu-underused"),
}
"""For each question the rules of which one has to judge it, and find nothing, so that its answer is yes; the
first one says what is missing."""
_RULES: dict[Question, str] = {
    "finite": "nonfinite-loss nonfinite-gradient nonfinite-activation nonfinite-series",
    "learns": """
        loss-not-decreasing loss-spike plateau loss-part-diverges two-softmaxes loss-summed
        poor-initialization schedule-too-fast rates-differ learning-rate attempt-discontinuous rank-divergence
        gradients-not-zeroed gradient-stopped gradient-spike vanishing-gradient exploding-gradient clipping
        loss-scale update-ratio update-scale unchanged-tensor dead-relu dead-experts saturated-activation
        attention-logits attention-entropy
        discriminator-won posterior-collapse outputs-collapsed entropy-collapsed return-collapsed
        values-diverge loss-runs-away
        """,
    "generalises": """
        overfitting overtraining evaluation-collapsed evaluation-unlike-training repeated-batch
        constant-output worse-than-best worse-than-constant evaluation-unsteady
        return-unlike-training unit-changed class-imbalance series-stopped
        """,
    "steady": """
        slower-steps step-outliers stalled-training memory-creep slow-rank wandering-ranks slower-together
        """,
    "cost": "data-wait recompilation gpu-underused cpu-bottleneck io-bottleneck",
}
SPOILT: dict[Question, tuple[Severity, ...]] = {"learns": ("high",), "generalises": ("high", "medium")}
"""By question that losses answer: how severe a loss of NaN must be, the training's or any, to leave it open.
What the loss was before tells nothing of a model that is broken now."""
QUESTIONS = {question: rules.split() for question, rules in _RULES.items()}
"""The rules whose findings answer a question with no; a rule belongs to one question."""
NEEDED: tuple[Question, ...] = ("learns", "finite", "generalises", "steady")
"""The questions without which a run is not called healthy."""


@dataclass(frozen=True)
class Covered:
    """The answer to one question.

    Attributes:
        why: For "no" the finding, for "not judged" what would let it be judged; else empty.
    """

    question: Question
    answer: Reply
    why: str = ""


def coverage(
    findings: Sequence[Finding], passed: Collection[str], abstained: Sequence[Abstention]
) -> list[Covered]:
    """Return the answers to all questions, those that are needed first.

    Args:
        findings: The severest first; those that are over, or only for information, do not count.
        passed: Ids of the rules that could judge and found nothing.
        abstained: Rules that could not tell.
    """
    lacking = {lack.rule: lack.missing for lack in abstained}
    # A rule whose findings are all over, or are consequences, has judged as well.
    judged = {*passed, *(finding.rule for finding in findings)}
    return [_answer(question, findings, judged, lacking) for question in (*NEEDED, "cost")]


def _answer(
    question: Question, findings: Sequence[Finding], judged: Collection[str], lacking: dict[str, str]
) -> Covered:
    spoilt: Covered | None = None
    for finding in findings:
        if not finding.is_open or finding.severity == "info":
            continue
        why = f"{finding.title.lower()} since step {finding.since:,}"
        if finding.rule in QUESTIONS[question]:
            return Covered(question, "no", why)
        if finding.rule in DECIDING["finite"] and finding.severity in SPOILT.get(question, ()):
            spoilt = spoilt or Covered(question, "not judged", why)
    if spoilt is not None:
        return spoilt
    deciding = DECIDING[question]
    if any(rule in judged for rule in deciding):
        return Covered(question, "yes")
    reasons = [lacking[rule] for rule in deciding if rule in lacking]
    # What could be looked at and did not tell comes before what was not recorded.
    reasons.sort(key=lambda reason: reason.startswith("not recorded"))
    missing = next(iter(reasons), "its rules are switched off")
    return Covered(question, "not judged", missing)


class Outcome(NamedTuple):
    """A verdict, in the few words that a list has room for, and with its reasons."""

    short: str
    text: str


def outcome(answers: Sequence[Covered], findings: Sequence[Finding], *, state: str = "") -> Outcome:
    """Return the verdict, the same wherever it is shown.

    Args:
        answers: Of all questions.
        findings: All that are shown beside it.
        state: Of the run: one that failed, or that stopped moving, is not called healthy.
    """
    wrong = [(_NOT[answer.question], f": {answer.why}") for answer in answers if answer.answer == "no"]
    # A rule of the user's answers none of the questions.
    wrong += [
        (finding.title.lower(), f" since step {finding.since:,}")
        for finding in findings
        if finding.is_open and finding.severity != "info" and finding.rule not in _ASKED
    ]
    if wrong:
        return Outcome(wrong[0][0], "; ".join(what + why for what, why in wrong))
    lacking = [
        answer.question for answer in answers if answer.question in NEEDED and answer.answer == "not judged"
    ]
    if len(lacking) == len(NEEDED):
        return Outcome("not judged", "not judged")
    if lacking:
        nothing = "nothing is wrong now" if findings else "nothing wrong found"
        lacked = ", ".join(_WORDS[question] for question in lacking)
        return Outcome(nothing, f"{nothing}; not judged: {lacked}")
    if state in ("failed", "stalled"):
        text = f"nothing wrong in its numbers {'when' if findings else 'before'} it {state}"
        return Outcome(text, text)
    return Outcome("healthy", "healthy")


_ASKED = frozenset(rule for rules in QUESTIONS.values() for rule in rules)
_WORDS: dict[Question, str] = {
    "learns": "learning",
    "finite": "NaN or infinite values",
    "generalises": "generalisation",
    "steady": "step times",
}
_NOT: dict[Question, str] = {
    "learns": "does not learn as it should",
    "finite": "not finite",
    "generalises": "does not generalise as it should",
    "steady": "not steady",
    "cost": "wastes time",
}
