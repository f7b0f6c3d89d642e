"""Whole numbers in the query of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepscope.serve.reply import Refusal

INTEGER = re.compile(r"-?[0-9]{1,19}")
LARGEST = (1 << 63) - 1


def whole(
    query: Mapping[str, str],
    name: str,
    otherwise: int | None = None,
    least: int | None = None,
    most: int | None = None,
) -> int:
    """Return a whole number of the query, or the default if it is left out.

    Raises:
        Refusal: It is not one, or out of bounds; or it is required and left out.
    """
    found = optional(query, name, least, most)
    if found is not None:
        return found
    if otherwise is None:
        raise Refusal(400, f"no {name} given", f"add {name}=, a whole number")
    return otherwise


def optional(
    query: Mapping[str, str], name: str, least: int | None = None, most: int | None = None
) -> int | None:
    """Return a whole number of the query, None if it is left out.

    Raises:
        Refusal: It is not one, or out of bounds.
    """
    text = query.get(name)
    if text is None:
        return None
    found = int(text) if INTEGER.fullmatch(text) else None
    low, high = -LARGEST if least is None else least, LARGEST if most is None else most
    if found is None or not low <= found <= high:
        bounds = "" if most is None else f" from {low} to {high}"
        raise Refusal(
            400, f"{name} is {text!r:.60}: expected a whole number{bounds}", "see docs/reference/http-api.md"
        )
    return found
