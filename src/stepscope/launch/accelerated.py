"""Accelerate: its loaders fetch a batch ahead, so the wait is that of its own iterator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import wraps
from time import perf_counter
from types import ModuleType
from typing import Any

from stepscope.launch.loop import Loop
from stepscope.launch.process import process
from stepscope.launch.pytorch import loop_of
from stepscope.record.card import DATA_WAIT

LOADERS = ("DataLoaderShard", "DataLoaderDispatcher")


def install(module: ModuleType) -> None:
    """Time the loaders of ``accelerate.data_loader``."""
    loop = loop_of(sys.modules["torch"])
    for name in LOADERS:
        loader = getattr(module, name, None)
        original = None if loader is None else vars(loader).get("__iter__")
        if loader is None or original is None:
            process.say(f"{DATA_WAIT}: this version of Accelerate has no {name}.__iter__")
            continue
        loader.__iter__ = _timed(original, loop)


def _timed(original: Any, loop: Loop) -> Any:
    @wraps(original)
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807  replaces a method of this name
        batches = iter(original(self))
        while True:
            asked = loop.before_fetch()
            loop.fetching = True
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                loop.fetching = False
            if process.led:
                process.fetched(perf_counter() - asked)
            else:
                loop.fetched(asked)
            yield batch

    return __iter__
