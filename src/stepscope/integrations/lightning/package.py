"""Which of Lightning's two packages the program uses: they are the same code under two names."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

NAMES = ("lightning.pytorch", "pytorch_lightning")


def _used() -> str:
    loaded = [name for name in NAMES if name in sys.modules]
    if loaded:
        return loaded[0]
    try:
        import_module(NAMES[0])
    except ModuleNotFoundError:
        return NAMES[1]
    return NAMES[0]


NAME = _used()
Callback: Any = import_module(f"{NAME}.callbacks").Callback
Logger: Any = import_module(f"{NAME}.loggers").Logger
rank_zero_only: Any = import_module(f"{NAME}.utilities.rank_zero").rank_zero_only
