"""The health rules over what a run has recorded: the same as ``HealthHook`` applies while it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.analyze.health.judge import AttemptSeries as AttemptSeries
    from stepscope.analyze.health.report import HealthReport as HealthReport

_HOMES = {
    "AttemptSeries": "judge",
    "HealthReport": "report",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
