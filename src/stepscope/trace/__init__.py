"""Profiles of every framework as one columnar :class:`~stepscope.trace.model.Trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.trace.load import load_trace as load_trace
    from stepscope.trace.model import FEATURES as FEATURES
    from stepscope.trace.model import Device as Device
    from stepscope.trace.model import Kind as Kind
    from stepscope.trace.model import Lane as Lane
    from stepscope.trace.model import ProcessGroup as ProcessGroup
    from stepscope.trace.model import Source as Source
    from stepscope.trace.model import Trace as Trace
    from stepscope.trace.names import Paths as Paths
    from stepscope.trace.names import Strings as Strings

_HOMES = {
    "Device": "model",
    "FEATURES": "model",
    "Kind": "model",
    "Lane": "model",
    "Paths": "names",
    "ProcessGroup": "model",
    "Source": "model",
    "Strings": "names",
    "Trace": "model",
    "load_trace": "load",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
