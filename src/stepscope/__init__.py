"""See every step of your training: is it learning, is it healthy, what does each step cost, what to fix.

``import stepscope as ss``. The names below load on first use, so the import itself costs a few milliseconds
and pulls in neither a data-frame library nor a framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.version import __version__

if TYPE_CHECKING:
    from stepscope.errors import StepscopeError as StepscopeError
    from stepscope.record import Run as Run
    from stepscope.store import open as open  # noqa: A004
    from stepscope.trace import load_trace as load_trace

_HOMES = {
    "Run": "stepscope.record",
    "StepscopeError": "stepscope.errors",
    "load_trace": "stepscope.trace",
    "open": "stepscope.store",
}

__all__ = ["Run", "StepscopeError", "__version__", "load_trace", "open"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stepscope' has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
