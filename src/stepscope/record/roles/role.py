"""A process of a distributed job: the claims of sources, its files, and who is the chief."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from stepscope.errors import RoleError, UsageError
from stepscope.urls import is_url, join

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
        name: "chief", "worker", "evaluator", "ps", or the user's name for it.
        source: The source of rank and world size.
        chief_rank: The rank that writes the summaries.
        local_rank: Among the processes of this rank's host, None if nobody says.
        local_size: Number of these.
        node: Number of the host in the job.
        restarts: How often the launcher has started the job again.
        evidence: The source's claim: ``RANK=3``.
        overruled: The other claims, which were not believed, one line each.
        problems: Contradictions and unreadable values.
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
        """True if this rank is the one that writes the summaries of the training."""
        return self.name not in (EVALUATOR, PS) and self.rank == self.chief_rank

    @property
    def writes(self) -> bool:
        """True if this process writes event files: the chief in the run, the evaluator below it."""
        return self.chief or self.name == EVALUATOR

    @property
    def alone(self) -> bool:
        """True if this is the only process of its training."""
        return self.name not in (EVALUATOR, PS) and self.world_size == 1

    @property
    def telemetry(self) -> bool:
        """True if this process writes a telemetry file of its own."""
        return self.name != EVALUATOR

    @property
    def label(self) -> str:
        """The name of the process among the others of its job: "rank 3", "ps 0"."""
        return self.name if self.name == EVALUATOR else f"{PS if self.name == PS else 'rank'} {self.rank}"

    def same_place(self, other: Role) -> bool:
        """Return whether another role is the same process of the same job."""
        mine, theirs = ((role.rank, role.world_size, role.name, role.chief_rank) for role in (self, other))
        return mine == theirs

    def __str__(self) -> str:
        if self.name == EVALUATOR:
            return f"evaluator ({self.source})"
        if self.name == PS:
            return f"ps {self.rank} ({self.source})"
        return f"{self.name}, rank {self.rank} of {self.world_size} ({self.source})"


Environ = Mapping[str, str]


@dataclass(frozen=True)
class Claim:
    """The claim of one source.

    Attributes:
        source: Its name.
        rank: From 0.
        world_size: None if the source does not say how many there are.
        evidence: The variables or calls that it is based on, ``RANK=3``.
        name: A role that the source gives: "chief", "worker", "ps", "evaluator".
        local_rank: Rank among the processes of the host.
        local_size: Number of these.
        node: Number of the host.
        outer: The source starts programs that may start the ranks: its numbers may be those of hosts, and
            need not agree.
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


class EnvironmentReader:
    """Reads integers from the environment and remembers the values that are no numbers.

    Args:
        environ: The process environment.

    Attributes:
        problems: The unreadable values.
    """

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.problems: list[RoleError] = []

    def integer(self, *names: str) -> int | None:
        """Return the first of some variables that is set, None if none is or it is not a number from 0."""
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

    def refuse(self, message: str, *, hint: str) -> None:
        """Note something that cannot be right; each variable is reported once."""
        if all(problem.message != f"{message}; it is not used" for problem in self.problems):
            self.problems.append(RoleError(f"{message}; it is not used", hint=hint))

    def claim(
        self, source: str, rank: int | None, size: int | None, evidence: tuple[str, ...], **facts: Any
    ) -> Claim | None:
        """Return the claim of a source, if rank and world size are both known and fit each other.

        Args:
            source: Its name.
            rank: As for ``Claim``, like those that follow.
            size: Likewise.
            evidence: Likewise.
            facts: Other fields of the claim.
        """
        if rank is None or size is None:
            return None
        if rank < size:
            return Claim(source, rank, size, evidence, **facts)
        self.refuse(
            f"{source}: rank {rank} is not below the world size {size} ({', '.join(evidence)})",
            hint="set both as the launcher numbers them, or pass rank= and world_size= to Run",
        )
        return None


_HINT = 'chief="first", "last", a rank, or a function of the world size that returns one'


def check_chief(chief: Chief) -> Chief:
    """Return the value passed as chief, checked.

    Raises:
        UsageError: It can never be a chief.
    """
    whole = isinstance(chief, int) and not isinstance(chief, bool) and chief >= 0
    if whole or callable(chief) or (isinstance(chief, str) and chief in ("first", "last")):
        return chief
    raise UsageError(f"chief must say which rank writes, got {chief!r:.60}", hint=_HINT)


def chief_rank(chief: Chief, world_size: int) -> tuple[int, RoleError | None]:
    """Return the rank of the chief, and the error in the user's wish, if any.

    Every rank must come to the same answer, so it depends on nothing but the world size. A wish that names no
    rank of this world, as after an elastic job has shrunk, gives the last rank: somebody has to write.
    """
    if isinstance(chief, str):
        return (world_size - 1 if chief == "last" else 0), None
    if isinstance(chief, int):
        return in_world(chief, world_size, f"chief={chief}")
    try:
        rank = chief(world_size)
    except Exception as error:  # noqa: BLE001  the user's own function
        text = f"the function passed as chief raised {type(error).__name__}: {error}; the first rank writes"
        return 0, RoleError(text, hint=_HINT)
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 0:
        text = f"the function passed as chief returned {rank!r:.60} and no rank; the first rank writes"
        return 0, RoleError(text, hint=_HINT)
    return in_world(rank, world_size, f"chief({world_size}) = {rank}")


def in_world(rank: int, world_size: int, wish: str) -> tuple[int, RoleError | None]:
    """Return the rank if it exists, else the last one and an error."""
    if rank < world_size:
        return rank, None
    last = world_size - 1
    ranks = f"is only {world_size} rank" if world_size == 1 else f"are only {world_size} ranks"
    text = f"{wish}, but there {ranks}; the last one, rank {last}, writes"
    return last, RoleError(text, hint=_HINT)


def evaluator_directory(log_dir: str, name: str | None) -> str:
    """Return the directory of an evaluator: ``eval`` or ``eval_<name>`` in the run, unless it was given that.

    Raises:
        UsageError: The name is not a plain word.
    """
    if name is not None and not (isinstance(name, str) and re.fullmatch(r"[\w.-]{1,100}", name)):
        raise UsageError(
            f"eval_name must be a word, got {name!r:.60}", hint="letters, digits, dot, dash and underscore"
        )
    folder = f"eval_{name}" if name else "eval"
    given = PurePath(log_dir)
    if given.name == folder or (name is None and given.name.startswith("eval_")):
        return log_dir
    return join(log_dir, folder) if is_url(log_dir) else str(given / folder)
