"""Words in names that say which part of the data a series describes.

Training reads them for the loss of a rank, the health rules for what is judged, the page for what shares a
chart: one table and one way to find words, so that all three agree.
"""

from __future__ import annotations

import re
from typing import Literal

Part = Literal["train", "eval", "test"]

SPLIT_WORDS: dict[str, Part] = {
    **dict.fromkeys(("train", "training", "tr"), "train"),
    **dict.fromkeys(
        ("eval", "evaluate", "evaluation", "evaluating", "val", "valid", "validate", "validation",
         "validating", "dev", "holdout", "heldout"),
        "eval",
    ),
    **dict.fromkeys(("test", "testing"), "test"),
}  # fmt: skip
"""Words, in small letters, and the part that each names."""

_CAMEL = r"(?<=[a-z0-9])(?=[A-Z])"
_BETWEEN = re.compile(rf"[_\- ]|{_CAMEL}")
_FIRST = re.compile(rf"([A-Za-z]+?)(?:[_\- ]|{_CAMEL})(.+)", re.DOTALL)
_LAST = re.compile(rf"(.+)(?:[_\- ]|{_CAMEL})([A-Za-z]+)", re.DOTALL)


def words_of(name: str) -> list[str]:
    """Return the words of one part of a name, as of ``train_loss``, ``Train Loss`` and ``trainLoss``."""
    return [word for word in _BETWEEN.split(name) if word]


def outer_word(name: str) -> tuple[Part, str] | None:
    """Return the part that the first or the last word of a name says, and the name without that word."""
    for match, word, rest in ((_FIRST.fullmatch(name), 1, 2), (_LAST.fullmatch(name), 2, 1)):
        if match and (part := SPLIT_WORDS.get(match[word].lower())):
            return part, match[rest]
    return None
