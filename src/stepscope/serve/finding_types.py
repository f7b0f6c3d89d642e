"""Types sent about the health of a run; the page's own types are generated from this module too."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.health import Abstention

Severity = Literal["high", "medium", "low", "info"]


class RunFinding(msgspec.Struct, frozen=True):
    """Something wrong with a run, from when it was noticed until it was over."""

    rule: str
    severity: Severity
    title: str
    summary: str
    """One sentence with the number that matters."""
    tag: str
    """The series that shows it."""
    part: str
    """The part of the run that the series belongs to, empty if there is only one."""
    layer: str | None
    rank: int | None
    first_step: int
    """First step of the window that the rule looked at."""
    step: int
    """At which it was noticed."""
    since_step: int
    """Step since which it holds, as far as the rule can tell; otherwise ``step``."""
    wall: float
    closed_step: int | None
    """Step at which it was over; null while it is not."""
    values: dict[str, float | str]
    """The evidence; a number that is not finite is text."""
    threshold: dict[str, float | str]
    action: str
    """The recommended action."""
    stack: list[str]
    """Stack of the training thread, innermost call last, of a stall that was seen live."""
    also: list[str]
    """Further layers in which the same was found while it was open."""
    causes: list[str]
    """Further evidence, as sentences: where it began, what grew first."""
    batches: list[str]
    """Inputs of the steps in question, one sentence each; only for a finding seen live."""
    rewind: list[str]
    """How to go back to before it, as sentences; only for a finding seen live."""


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
