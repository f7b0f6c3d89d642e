"""Bars of tqdm: values that the program shows beside them become series, too."""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from stepscope.launch import printed

TEXTS = ("set_postfix_str", "set_description", "set_description_str")
"""Methods of a bar whose first argument is a text."""


def install() -> None:
    """Observe the bars of tqdm if the program has loaded it; those for notebooks inherit."""
    bar = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    for name in TEXTS:
        _watch(bar, name, _text)
    _watch(bar, "set_postfix", _postfix)


def _watch(bar: Any, name: str, line: Any) -> None:
    original = getattr(bar, name, None)
    if original is None:
        return

    @wraps(original)
    def told(self: Any, *arguments: Any, **named: Any) -> Any:
        result = original(self, *arguments, **named)
        if printed.wanted():
            printed.take(lambda: line(*arguments, **named))
        return result

    setattr(bar, name, told)


def _text(text: Any = "", *_: Any, s: Any = "", desc: Any = "", **__: Any) -> str:
    return str(text or s or desc or "")


def _postfix(ordered_dict: Any = None, refresh: Any = True, **named: Any) -> str:
    """Return the values in full; the bar shows three digits of each."""
    return ", ".join(f"{name}={value}" for name, value in {**dict(ordered_dict or ()), **named}.items())
