"""Names of layers tell vectors, dense matrices and experts apart."""

from __future__ import annotations

import re
from functools import lru_cache

from stepscope.names.roles import EXPERT_SHARE

_VECTOR = re.compile(r"bias|beta|gamma|norm|(?:^|[./_])(?:b|ln|bn)_?\d*(?:$|[./_])", re.IGNORECASE)
_EXPERT = re.compile(r"(?:^|[./_])experts?[./_](\d+)(?=$|[./_])", re.IGNORECASE)
_LOAD = re.compile(
    rf"(.*?)[/_]?(?:(?:experts?|{EXPERT_SHARE})[/_])*(\w+?)(?:[/_]{EXPERT_SHARE})?", re.IGNORECASE
)


@lru_cache(maxsize=1 << 14)
def expert_of(layer: str | None) -> str | None:
    """Return the name of the expert that a layer is a part of, None if it belongs to no expert.

    An expert that no token reaches is dead and does not change: that is the router's fault, not the layer's.
    """
    match = _EXPERT.search(layer or "")
    return None if match is None or layer is None else layer[: match.end()]


def load_of(name: str) -> tuple[str, str]:
    """Return the layer and the expert of a share of tokens: of ``a/load/3`` they are ``a`` and ``3``."""
    match = _LOAD.fullmatch(name)
    return ("", name) if match is None else (match[1], match[2])


def is_no_expert(layer: str | None) -> bool:
    """Return whether a layer is of no expert: ``dead-experts`` judges those that no token reaches."""
    return expert_of(layer) is None


@lru_cache(maxsize=1 << 14)
def is_vector(layer: str | None) -> bool:
    """Return whether a name is that of a bias or of a norm's parameters.

    These begin at 0 or 1, so that their norm does not show how far a step should go, and the gradient of a
    bias before a normalization is always 0.
    """
    return _VECTOR.search(layer or "") is not None


def is_dense_matrix(layer: str | None) -> bool:
    """Return whether a name is that of a matrix that every example uses: of no bias, norm or expert."""
    return not is_vector(layer) and expert_of(layer) is None
