"""See every step of your training: is it learning, is it healthy, what does each step cost, what to fix.

``import stepscope as ss``. The names below load on first use, so the import itself costs a few milliseconds
and pulls in neither a data-frame library nor a framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy
from stepscope.version import __version__

if TYPE_CHECKING:
    from stepscope import integrations as integrations
    from stepscope.capture import LambdaProfilerHook as LambdaProfilerHook
    from stepscope.capture import LineHook as LineHook
    from stepscope.capture import ProfilerHook as ProfilerHook
    from stepscope.errors import StepscopeError as StepscopeError
    from stepscope.health.alert import Alert as Alert
    from stepscope.job import load_ranks as load_ranks
    from stepscope.notebook import load_ipython_extension as load_ipython_extension
    from stepscope.notebook import show as show
    from stepscope.record import Run as Run
    from stepscope.record.findings import Notifier as Notifier
    from stepscope.record.hooks import Hook as Hook
    from stepscope.record.hooks.functions import CheckpointHook as CheckpointHook
    from stepscope.record.hooks.functions import LambdaHook as LambdaHook
    from stepscope.record.hooks.functions import SummarySaverHook as SummarySaverHook
    from stepscope.record.hooks.hang import HangHook as HangHook
    from stepscope.record.hooks.health import HealthHook as HealthHook
    from stepscope.record.hooks.metrics import OtlpHook as OtlpHook
    from stepscope.record.hooks.metrics import PrometheusHook as PrometheusHook
    from stepscope.record.hooks.progress import LoggingHook as LoggingHook
    from stepscope.record.hooks.progress import StepCounterHook as StepCounterHook
    from stepscope.record.hooks.stopping import EarlyStoppingHook as EarlyStoppingHook
    from stepscope.record.hooks.stopping import NanHook as NanHook
    from stepscope.record.hooks.stopping import StopAtStepHook as StopAtStepHook
    from stepscope.record.hooks.stopping import StopTogetherHook as StopTogetherHook
    from stepscope.record.hooks.system import SystemHook as SystemHook
    from stepscope.record.statistics import ActivationHook as ActivationHook
    from stepscope.record.statistics import GradientHook as GradientHook
    from stepscope.serve.questions.asked import ask as ask
    from stepscope.serve.questions.asked import sql as sql
    from stepscope.serve.questions.asked import table as table
    from stepscope.serve.questions.cell_chart import chart as chart
    from stepscope.store import open as open  # noqa: A004
    from stepscope.trace import load_trace as load_trace

_HOMES = {
    "ActivationHook": "record.statistics",
    "Alert": "health.alert",
    "CheckpointHook": "record.hooks.functions",
    "EarlyStoppingHook": "record.hooks.stopping",
    "GradientHook": "record.statistics",
    "HangHook": "record.hooks.hang",
    "HealthHook": "record.hooks.health",
    "Hook": "record.hooks",
    "LambdaHook": "record.hooks.functions",
    "LambdaProfilerHook": "capture",
    "LineHook": "capture",
    "LoggingHook": "record.hooks.progress",
    "Notifier": "record.findings",
    "NanHook": "record.hooks.stopping",
    "OtlpHook": "record.hooks.metrics",
    "ProfilerHook": "capture",
    "PrometheusHook": "record.hooks.metrics",
    "Run": "record",
    "StepCounterHook": "record.hooks.progress",
    "StepscopeError": "errors",
    "StopAtStepHook": "record.hooks.stopping",
    "StopTogetherHook": "record.hooks.stopping",
    "SummarySaverHook": "record.hooks.functions",
    "SystemHook": "record.hooks.system",
    "ask": "serve.questions.asked",
    "chart": "serve.questions.cell_chart",
    "integrations": "",
    "load_ipython_extension": "notebook",
    "load_ranks": "job",
    "load_trace": "trace",
    "open": "store",
    "show": "notebook",
    "sql": "serve.questions.asked",
    "table": "serve.questions.asked",
}

__all__ = [
    "ActivationHook",
    "Alert",
    "CheckpointHook",
    "EarlyStoppingHook",
    "GradientHook",
    "HangHook",
    "HealthHook",
    "Hook",
    "LambdaHook",
    "LambdaProfilerHook",
    "LineHook",
    "LoggingHook",
    "NanHook",
    "Notifier",
    "OtlpHook",
    "ProfilerHook",
    "PrometheusHook",
    "Run",
    "StepCounterHook",
    "StepscopeError",
    "StopAtStepHook",
    "StopTogetherHook",
    "SummarySaverHook",
    "SystemHook",
    "__version__",
    "ask",
    "chart",
    "integrations",
    "load_ipython_extension",
    "load_ranks",
    "load_trace",
    "open",
    "show",
    "sql",
    "table",
]

__getattr__, __dir__ = lazy.names(__name__, _HOMES, __all__)
