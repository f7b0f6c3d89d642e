"""Rules that could not tell, folded into a few lines: what was missing, and what to add to be judged more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.health import RULES, Abstention

ADD: dict[str, tuple[str, ...]] = {
    "ss.GradientHook()": ("gradient_norm", "layer_gradient", "update_ratio", "gradient_nonfinite"),
    "ss.ActivationHook()": ("dead", "saturated", "activation_std", "activation_nonfinite"),
    "ss.SystemHook()": ("gpu", "cpu", "io_wait", "memory"),
    "run.steps(loader)": ("step_time", "data_wait"),
    "an evaluation loss, as eval/loss": (),
    "the learning rate": ("learning_rate",),
}
"""What records the roles that rules look at."""
EVALUATED = {"overfitting", "overtraining"}
KINDS = ("not recorded", "too few points", "not judged")


def lines_of_lacking(abstained: Sequence[Abstention]) -> Iterator[str]:
    """Return the lines of what could not be told; nothing where all could."""
    if not abstained:
        return
    yield f"could not tell: {len(abstained)} rules"
    left = list(abstained)
    for kind in KINDS:
        rules = [each for each in left if each.missing.startswith(kind)]
        left = [each for each in left if each not in rules]
        if rules and kind == "not judged":
            yield from (f"       {kind}: {'; '.join(dict.fromkeys(names_by_reason(rules)))}",)
        elif rules:
            yield f"       {kind}: {', '.join(each.rule for each in rules)}"
    yield from (f"       {each.rule}: {each.missing}" for each in left)
    wanted = list(dict.fromkeys(added(abstained)))
    if wanted:
        yield f"       to be judged more, record {', '.join(wanted)}; --json says what each rule needs"


def names_by_reason(rules: Sequence[Abstention]) -> Iterator[str]:
    """Return each reason with the rules that it holds for."""
    for reason in dict.fromkeys(each.missing for each in rules):
        names = ", ".join(each.rule for each in rules if each.missing == reason)
        yield f"{names} ({reason.removeprefix('not judged: ')})"


def added(abstained: Sequence[Abstention]) -> Iterator[str]:
    """Return what would record what is missing, in the order of the table."""
    lacking = {each.rule for each in abstained if each.missing.startswith("not recorded")}
    roles = {role for rule in lacking - EVALUATED if rule in RULES for role in RULES[rule].roles}
    for what, records in ADD.items():
        if roles.intersection(records) or (not records and lacking & EVALUATED):
            yield what
