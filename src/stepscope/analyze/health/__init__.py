"""The health rules over what a run has recorded: the same as ``HealthHook`` applies while it trains."""

from __future__ import annotations

from stepscope.analyze.health.judge import Attempt, Points, judge
from stepscope.analyze.health.report import Report

__all__ = ["Attempt", "Points", "Report", "judge"]
