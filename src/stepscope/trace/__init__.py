"""Profiles of every framework as one columnar :class:`~stepscope.trace.model.Trace`."""

from __future__ import annotations

from stepscope.trace.load import load_trace
from stepscope.trace.model import FEATURES, Device, Kind, Lane, ProcessGroup, Source, Trace
from stepscope.trace.names import Paths, Strings

__all__ = [
    "FEATURES",
    "Device",
    "Kind",
    "Lane",
    "Paths",
    "ProcessGroup",
    "Source",
    "Strings",
    "Trace",
    "load_trace",
]
