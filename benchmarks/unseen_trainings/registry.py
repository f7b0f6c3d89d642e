"""The register of the trainings: what each is, and for a planted fault where it shows and when it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Log = Callable[[str, float, int], None]
"""Takes a tag, a value and a step."""


@dataclass(frozen=True)
class Training:
    """One training and what a judge should answer about it."""

    name: str
    subject: str
    field: str
    function: Callable[[Log], None]
    healthy: bool
    fault: str = ""
    series: tuple[str, ...] = ()
    """The tags that show the fault."""
    onset: tuple[int, int] = (0, 0)
    """The first and last step between which the fault begins, in the steps of those series."""
    source: str = ""
    """Where the mistake, or for a healthy training the recipe, is described."""
    note: str = ""
    """What looks strange in a healthy training, and why it is not; of some, what a finding must say."""


TRAININGS: dict[str, Training] = {}


def training(
    *,
    field: str,
    healthy: bool = False,
    fault: str = "",
    series: Sequence[str] = (),
    onset: tuple[int, int] = (0, 0),
    source: str = "",
    note: str = "",
) -> Callable[[Callable[[Log], None]], Callable[[Log], None]]:
    """Register a training: a healthy one, or one with a fault, the series that show it and its onset."""

    def register(function: Callable[[Log], None]) -> Callable[[Log], None]:
        name = function.__name__
        if healthy == bool(fault) or bool(fault) != bool(series):
            raise ValueError(f"{name}: healthy, or a fault with its series")
        if name in TRAININGS:
            raise ValueError(f"two trainings are called {name}")
        subject = function.__module__.rpartition(".")[2]
        TRAININGS[name] = Training(
            name, subject, field, function, healthy, fault, tuple(series), onset, source, note
        )
        return function

    return register
