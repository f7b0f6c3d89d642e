"""Which process of a distributed job this is, and whether it writes.

Only the chief, rank 0, writes. Ranks come from the arguments, else from torchrun's RANK and WORLD_SIZE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepscope.errors import UsageError


@dataclass(frozen=True)
class Role:
    """One process of a job."""

    rank: int = 0
    world_size: int = 1
    name: str = "chief"
    source: str = "single process"

    @property
    def writes(self) -> bool:
        """Whether this process records."""
        return self.rank == 0

    def __str__(self) -> str:
        return f"{self.name}, rank {self.rank} of {self.world_size} ({self.source})"


def detect(
    rank: int | None,
    world_size: int | None,
    name: str | None,
    environ: Mapping[str, str],
) -> Role:
    """Find this process's role.

    Args:
        rank: The rank if the user said it; then the environment is not read.
        world_size: Number of ranks; with ``rank``.
        name: "chief" or "worker"; by default rank 0 is the chief.
        environ: The process environment.

    Raises:
        UsageError: A rank outside 0 … world size - 1.
    """
    source = "arguments"
    if rank is None:
        rank, from_environ = _integer(environ.get("RANK")), _integer(environ.get("WORLD_SIZE"))
        source = "RANK and WORLD_SIZE"
        if rank is None or from_environ is None:
            rank, from_environ, source = 0, 1, "single process"
        world_size = from_environ if world_size is None else world_size
    size = max(rank + 1, 1) if world_size is None else world_size
    if not 0 <= rank < size:
        raise UsageError(
            f"rank must be from 0 to world_size - 1, got rank {rank} of {size} (from {source})",
            hint="pass rank= and world_size= as the launcher numbers them",
        )
    return Role(rank, size, name or ("chief" if rank == 0 else "worker"), source)


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
