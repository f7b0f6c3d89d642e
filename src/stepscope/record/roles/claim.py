"""What one source says about this process, and how its variables are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepscope.errors import RoleError

Environ = Mapping[str, str]


@dataclass(frozen=True)
class Claim:
    """What one source says.

    Attributes:
        source: What to call it.
        rank: From 0.
        world_size: None where the source does not say how many there are.
        evidence: The variables or calls that it stands on, ``RANK=3``.
        name: A role that the source gives: "chief", "worker", "ps", "evaluator".
        local_rank: Rank among the processes of the host.
        local_size: Number of these.
        node: Number of the host.
        outer: It starts what may start the ranks: its numbers may be those of hosts, and need not agree.
    """

    source: str
    rank: int
    world_size: int | None
    evidence: tuple[str, ...]
    name: str | None = None
    local_rank: int | None = None
    local_size: int | None = None
    node: int | None = None
    outer: bool = False

    def __str__(self) -> str:
        size = "an unknown number" if self.world_size is None else str(self.world_size)
        place = f"{self.name} {self.rank}" if self.name in ("ps", "evaluator") else f"rank {self.rank}"
        return f"{self.source}: {place} of {size} ({', '.join(self.evidence)})"


class Reader:
    """Reads integers from the environment and remembers what was no number.

    Args:
        environ: The process environment.

    Attributes:
        problems: What could not be read.
    """

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.problems: list[RoleError] = []

    def integer(self, *names: str) -> int | None:
        """Return the first of some variables that is set, None where none is or it is no number from 0."""
        for name in names:
            text = self.environ.get(name, "").strip()
            if not text:
                continue
            if text.isascii() and text.isdigit() and len(text) < 10:
                return int(text)
            self.refuse(
                f"{name} must be a number from 0, got {text!r:.60}",
                hint=f"unset {name}, or pass rank= and world_size= to Run",
            )
        return None

    def said(self, *names: str) -> tuple[str, ...]:
        """Return the variables that are set, as ``NAME=value``."""
        return tuple(f"{name}={self.environ[name]}"[:80] for name in names if name in self.environ)

    def refuse(self, found: str, *, hint: str) -> None:
        """Note something that cannot be right; what was found in one variable is told once."""
        if all(problem.message != f"{found}; it is not used" for problem in self.problems):
            self.problems.append(RoleError(f"{found}; it is not used", hint=hint))

    def pair(self, source: str, rank: int | None, size: int | None, evidence: tuple[str, ...]) -> bool:
        """Whether rank and world size are both there and fit each other."""
        if rank is None or size is None:
            return False
        if rank < size:
            return True
        self.refuse(
            f"{source}: rank {rank} is not below the world size {size} ({', '.join(evidence)})",
            hint="set both as the launcher numbers them, or pass rank= and world_size= to Run",
        )
        return False
