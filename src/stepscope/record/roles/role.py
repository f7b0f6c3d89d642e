"""A process of a distributed job, and what it writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stepscope.errors import RoleError

Chief = Literal["first", "last"] | int | Callable[[int], int]
"""Which rank is the chief; a function is given the world size and returns a rank."""
SINGLE = "single process"
CHIEF, WORKER, EVALUATOR, PS = "chief", "worker", "evaluator", "ps"


@dataclass(frozen=True)
class Role:
    """One process of a job.

    Attributes:
        rank: From 0, among the processes that train; of a parameter server, among these.
        world_size: Number of processes that train, without parameter servers and evaluator.
        name: "chief", "worker", "evaluator", "ps", or what the user calls it.
        source: Where rank and world size are known from.
        chief_rank: The rank that writes the summaries.
        local_rank: Among the processes of this rank's host, None where nobody says.
        local_size: Number of these.
        node: Number of the host in the job.
        restarts: How often the launcher has started the job again.
        evidence: What the source said: ``RANK=3``.
        overruled: What others said that was not believed, one line each.
        problems: What contradicts itself or cannot be read.
        settled: Whether the answer is final; otherwise a runtime that is initialised later may know better.
    """

    rank: int = 0
    world_size: int = 1
    name: str = CHIEF
    source: str = SINGLE
    chief_rank: int = 0
    local_rank: int | None = None
    local_size: int | None = None
    node: int | None = None
    restarts: int = 0
    evidence: tuple[str, ...] = ()
    overruled: tuple[str, ...] = ()
    problems: tuple[RoleError, ...] = ()
    settled: bool = False

    @property
    def chief(self) -> bool:
        """Whether this rank is the one that writes the summaries of the training."""
        return self.name not in (EVALUATOR, PS) and self.rank == self.chief_rank

    @property
    def writes(self) -> bool:
        """Whether this process writes event files: the chief in the run, the evaluator below it."""
        return self.chief or self.name == EVALUATOR

    @property
    def telemetry(self) -> bool:
        """Whether this process writes a telemetry file of its own."""
        return self.name == PS or (self.world_size > 1 and self.name != EVALUATOR)

    @property
    def label(self) -> str:
        """What to call the process among the others of its job: "rank 3", "ps 0"."""
        return self.name if self.name == EVALUATOR else f"{PS if self.name == PS else 'rank'} {self.rank}"

    def same_place(self, other: Role) -> bool:
        """Whether another role is the same process of the same job."""
        mine, theirs = ((each.rank, each.world_size, each.name, each.chief_rank) for each in (self, other))
        return mine == theirs

    def __str__(self) -> str:
        if self.name == EVALUATOR:
            return f"evaluator ({self.source})"
        if self.name == PS:
            return f"ps {self.rank} ({self.source})"
        return f"{self.name}, rank {self.rank} of {self.world_size} ({self.source})"
