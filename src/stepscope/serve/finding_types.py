"""Types sent about the health of a run; the page's own types are generated from this module too."""

from __future__ import annotations

import msgspec

from stepscope.health import Abstention
from stepscope.health.coverage import Covered
from stepscope.health.finding import Finding, Severity
from stepscope.serve.encode import projected
from stepscope.serve.rank_types import RankFact

__all__ = ["RunFinding", "RunFindings", "RunForecast", "Severity"]


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
