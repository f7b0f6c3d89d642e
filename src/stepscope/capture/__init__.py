"""When and how a step is profiled: schedules, an overhead budget, triggers, backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.capture.hook import LambdaProfilerHook as LambdaProfilerHook
    from stepscope.capture.hook import ProfilerHook as ProfilerHook
    from stepscope.capture.lines import LineHook as LineHook

_HOMES = {
    "LambdaProfilerHook": "hook",
    "LineHook": "lines",
    "ProfilerHook": "hook",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
