"""When and how a step is profiled: schedules, an overhead budget, triggers, backends."""

from __future__ import annotations

from stepscope.capture.hook import LambdaProfilerHook as LambdaProfilerHook
from stepscope.capture.hook import ProfilerHook as ProfilerHook

__all__ = ["LambdaProfilerHook", "ProfilerHook"]
