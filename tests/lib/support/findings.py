"""Findings of health rules as approved texts have them."""

from stepscope.health import RULES, Finding


def line_of(finding: Finding, start: float) -> str:
    """Return all that a finding says; times count from ``start``."""
    place = finding.tag if finding.rank is None else f"{finding.tag} of rank {finding.rank}"
    steps = [f"since {finding.since}", f"at {finding.step}"]
    steps += [f"first {finding.first_step}"] * (finding.first_step != finding.since)
    steps += [] if finding.is_open else [f"to {finding.closed_step}"]
    if finding.rule == "stalled-training":
        ends = () if finding.closed_wall is None else (finding.closed_wall,)
        steps += [f"{wall - start:g} s" for wall in (finding.wall, *ends)]
    more = [*finding.causes, *([f"also {', '.join(finding.also)}"] * bool(finding.also))]
    more += [finding.action] * (finding.action != RULES[finding.rule].action)
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in finding.values.items())
    more += [f"limits {finding.threshold}"] * (finding.rule == "dead-relu")
    head = f"{finding.severity} {finding.rule}: {place} {' '.join(steps)}: {finding.summary}"
    return "".join([head, *(f"\n      {each}" for each in more), f" [{numbers}]" * bool(numbers)])
