"""A claim about GPUs, the figure that decides it, and its limit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Claim:
    """A sentence that the documentation may say once a figure has been measured on a GPU.

    Attributes:
        text: The sentence.
        figure: The name of the figure.
        least: The figure must not be below it; None for no such limit.
        most: The figure must not be above it; None for no such limit.
    """

    text: str
    figure: str
    least: float | None = None
    most: float | None = None

    @property
    def limit(self) -> str:
        """The condition, such as ``0.998 <= ratio``."""
        least = "" if self.least is None else f"{self.least:g} <= "
        most = "" if self.most is None else f" <= {self.most:g}"
        return f"{least}{self.figure}{most}"

    def holds(self, figures: Mapping[str, Any]) -> bool | None:
        """Return whether the figure is within its limits; None if it was not measured."""
        value = figures.get(self.figure)
        if value is None:
            return None
        number = float(value)
        return (
            math.isfinite(number)
            and (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
        )


def judged(claims: Sequence[Claim], figures: Mapping[str, Any], *, on_gpu: bool) -> list[dict[str, Any]]:
    """Return each claim with its figure; ``held`` is None where no GPU ran or the figure was not measured."""
    return [
        {
            "claim": claim.text, "limit": claim.limit, "figure": figures.get(claim.figure),
            "held": claim.holds(figures) if on_gpu else None,
        }
        for claim in claims
    ]  # fmt: skip


class Skipped(Exception):  # noqa: N818  no error: the reason why a check does not apply to a machine
    """Raised by a check that this machine cannot run; the message gives the reason."""
