"""The health rules over what a run has recorded: the same as ``HealthHook`` applies while it trains."""

from __future__ import annotations

from stepscope.analyze.health.judge import AttemptSeries, JudgedPoints, judge
from stepscope.analyze.health.report import HealthReport

__all__ = ["AttemptSeries", "HealthReport", "JudgedPoints", "judge"]
