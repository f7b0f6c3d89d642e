"""Answers to ``GET findings``: the verdict of the health rules on a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from stepscope.analyze.health.forecast import rounded
from stepscope.analyze.health.slow_rank import SLOW
from stepscope.analyze.health.slow_rank import TAG as RANKS_STAGES
from stepscope.health import Abstention
from stepscope.health.coverage import Covered
from stepscope.health.finding import Finding, batch_line, plain
from stepscope.lru import Lru
from stepscope.names.roles import RANKS_LOSS
from stepscope.serve.encode import encoded, projected, projection
from stepscope.serve.health import report_of
from stepscope.serve.rank_types import RankFact
from stepscope.serve.reply import run_of
from stepscope.serve.routes import get
from stepscope.store import Log

if TYPE_CHECKING:
    from stepscope.analyze.health import HealthReport
    from stepscope.analyze.health.forecast import Forecast


@projected(Finding, without=("run", "closed_wall", "number"))
class RunFinding:
    """Something wrong with a run, from when it was noticed until it was over."""

    part: str
    """The part of the run that the series belongs to, empty if there is only one."""
    since_step: int
    """Step since which it holds, as far as the rule can tell; otherwise ``step``."""
    fact: RankFact | None
    """The quantity of the ranks that shows it; null if a chart does."""
    in_profile: list[str]
    """Rules of advice on a profile of a step that say the same, and may name the line."""
    values: dict[str, float | str]
    """The evidence; a number that is not finite is text."""
    threshold: dict[str, float | str]
    batches: list[str]
    """Inputs of the steps in question, one sentence each; only for a finding seen live."""


class RunForecast(msgspec.Struct, frozen=True):
    """The value that a loss of a running run will reach, if it continues as before."""

    tag: str
    text: str
    """One sentence: the value with its band, and which runs had reached it at which step."""
    step: int
    """The last step, for which it is forecast."""
    value: float
    half: float
    """Half the width of the band of about 95 %."""
    figure: str
    """``value`` with ``half``, both to two digits of the latter, as ``2.31 ± 0.04``."""
    curve_step: list[float]
    """Steps from the newest recorded one to the last."""
    curve_low: list[float]
    """Lower edge of the band at each of these."""
    curve_high: list[float]
    reached_run: list[str]
    """Earlier finished runs of the directory that came as low as ``value``, the newest first."""
    reached_step: list[int]
    """The step by which each of them had reached it."""


class RunFindings(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/findings?run=``: what the health rules say about a run's newest attempt."""

    run: str
    attempt: int
    verdict: str
    """With its reasons; ``healthy`` only if it learns, is finite, generalises and is steady."""
    short: str
    """The verdict in the few words that a list has room for."""
    coverage: list[Covered]
    """The questions, each answered or not judged."""
    findings: list[RunFinding]
    """The severest first."""
    abstained: list[Abstention]
    passed: list[str]
    """Ids of the rules that could judge and found nothing."""
    more: dict[str, int]
    """Findings beyond the most that are kept, by rule."""
    forecast: list[RunForecast]
    """Empty if nothing can be foretold, and for a run that is over."""
    batch_size: str | None
    """The batch size that the gradient noise scale suggests; null if it is not recorded."""


KEPT = 64
"""Runs whose answers are kept."""
REST = 20.0
"""Multiple of the time that judging took after which a growing run is judged again, and the shortest
interval.
"""
SHORTEST_S = 2.0
MAX_FINDINGS = 200
"""Most findings of one answer; the rest are only counted."""


@dataclass(frozen=True)
class CachedAnswer:
    """One answer: of which state of the log, when it was made, and how long that took."""

    generation: int
    made: float
    took: float
    body: bytes


class FindingAnswers:
    """Judges runs when somebody asks, and keeps the answers for a while. Safe for threads.

    Args:
        clock: Steady time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: Lru[str, CachedAnswer] = Lru(KEPT)
        self._lock = threading.Lock()

    @get("findings", RunFindings)
    def answer(self, run: Annotated[str, Meta(description="name of a run")], log: Log | None) -> bytes:
        """Return the answer about a run.

        Raises:
            Refusal: No such run.
        """
        log, stored = run_of(log, run)
        generation = stored.family_generation
        with self._lock:  # one at a time: a page of many tabs asks for the same
            known, now = self._answers.get(run), self._clock()
            if known is not None:
                rest = max(SHORTEST_S, REST * known.took)
                if known.generation == generation or now - known.made < rest:
                    return known.body
            body = encoded(message_of(run, report_of(log, stored)))
            done = self._clock()
            self._answers.put(run, CachedAnswer(generation, done, done - now, body))
            return body


def message_of(name: str, report: HealthReport) -> RunFindings:
    """Return a report as it travels."""
    verdict = report.verdict
    more = dict(verdict.more)
    for finding in verdict.findings[MAX_FINDINGS:]:
        more[finding.rule] = more.get(finding.rule, 0) + 1
    return RunFindings(
        name,
        report.attempt,
        report.outcome,
        report.short,
        report.coverage,
        [finding_of(finding) for finding in verdict.findings[:MAX_FINDINGS]],
        verdict.abstained,
        verdict.passed,
        more,
        [forecast_of(tag, forecast) for tag, forecast in report.forecast.items()],
        report.batch_size.text if report.batch_size else None,
    )


def forecast_of(tag: str, forecast: Forecast) -> RunForecast:
    """Return a forecast as it travels."""
    return RunForecast(
        tag=tag,
        text=forecast.text(tag),
        step=forecast.step,
        value=forecast.value,
        half=forecast.half,
        figure=rounded(forecast.value, forecast.half),
        curve_step=[step for step, _, _ in forecast.curve],
        curve_low=[value - half for _, value, half in forecast.curve],
        curve_high=[value + half for _, value, half in forecast.curve],
        reached_run=[name for name, _ in forecast.reached],
        reached_step=[step for _, step in forecast.reached],
    )


FACTS: dict[str, RankFact] = {RANKS_LOSS: "loss", RANKS_STAGES: "own_work_s"}
"""The quantity of the ranks that shows a finding, by the tag of the finding; of all others a chart does."""
_OF_HOST = ("host-bound", "host-callback", "launch-bound", "python-overhead", "sync-points")
IN_PROFILE = {
    "data-wait": ("input-bound",),
    "io-bottleneck": ("input-bound", "checkpoint"),
    "cpu-bottleneck": _OF_HOST,
    SLOW: _OF_HOST,
}
"""Rules of advice on a profile that say of a step what a health rule says of a training."""


def in_profile(finding: Finding) -> list[str]:
    """Return the rules of advice that say the same; of a slow rank by the stage in which others wait."""
    is_data = finding.rule == SLOW and finding.stage == "data"
    return list(IN_PROFILE.get("data-wait" if is_data else finding.rule, ()))


def finding_of(finding: Finding) -> RunFinding:
    """Return a finding as it travels."""
    return projection(
        RunFinding,
        finding,
        part=finding.run,
        since_step=finding.since,
        fact=FACTS.get(finding.tag),
        in_profile=in_profile(finding),
        values=plain(finding.values),
        threshold=plain(finding.threshold),
        batches=list(map(batch_line, finding.batches)),
    )
