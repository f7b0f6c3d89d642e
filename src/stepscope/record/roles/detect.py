"""The one place that decides which process of a job this is.

Order: arguments, initialised runtimes, launcher environments, a single process. The first source is believed;
what the others said is kept for ``stepscope whoami`` and for warnings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from stepscope.errors import RoleError, UsageError
from stepscope.record.roles import launchers, runtimes
from stepscope.record.roles.role import (
    CHIEF,
    EVALUATOR,
    PS,
    WORKER,
    Chief,
    Claim,
    Environ,
    EnvironmentReader,
    Role,
    chief_rank,
)

RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")


def detect(
    *,
    environ: Environ,
    modules: Mapping[str, Any] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    name: str | None = None,
    chief: Chief = "first",
) -> Role:
    """Find out which process of its job this is.

    Args:
        environ: The process environment.
        modules: ``sys.modules``, in which initialised runtimes are looked up; None leaves them out.
        rank: The rank, if the user said it; then nobody else is believed.
        world_size: Number of processes that train, if the user said it.
        name: "evaluator", "ps", or what to call this process.
        chief: Which rank writes the summaries.

    Raises:
        UsageError: An argument is out of range.
    """
    for label, given in (("rank", rank), ("world_size", world_size)):
        if given is not None and (not isinstance(given, int) or isinstance(given, bool)):
            raise UsageError(
                f"{label} must be an integer, got {given!r:.60}", hint="leave it out to detect it"
            )
    running = runtimes.claim(modules or {})
    started, reader = launchers.claims(environ)
    others = ([running] if running else []) + started
    if rank is not None:
        size = rank + 1 if world_size is None else world_size
        others.insert(0, Claim("arguments", rank, size, (f"rank={rank}",)))
    if not others:
        size = 1 if world_size is None else world_size
        role = Role(0, size, problems=tuple(reader.problems), restarts=restarts_of(environ))
        return named(checked(role, "world_size="), name, None, chief)
    best = filled(others[0], others[1:])
    guessed = best.world_size if best.world_size is not None else max(best.rank + 1, 2)
    size = guessed if world_size is None else world_size
    unknown = () if best.world_size is not None or world_size is not None else ("the world size is unknown",)
    quarrels = () if rank is not None or running else contradictions(best, others[1:])
    role = Role(
        best.rank,
        size,
        source=best.source,
        local_rank=best.local_rank,
        local_size=best.local_size,
        node=best.node,
        restarts=restarts_of(environ),
        evidence=best.evidence + unknown,
        overruled=tuple(str(each) for each in others[1:] if not agree(best, each)),
        problems=tuple(reader.problems) + quarrels,
        settled=rank is not None or running is not None,
    )
    return named(role if best.name == PS else checked(role, best.source), name, best.name, chief)


def checked(role: Role, source: str) -> Role:
    """Return a role after checking that its rank is within the world size.

    Raises:
        UsageError: It is not; only arguments can cause that.
    """
    if 0 <= role.rank < role.world_size:
        return role
    raise UsageError(
        f"rank must be from 0 to world_size - 1, got rank {role.rank} of {role.world_size} (from {source})",
        hint="pass rank= and world_size= as the launcher numbers them",
    )


def named(role: Role, wish: str | None, found: str | None, chief: Chief) -> Role:
    """Return a role with its name and its chief."""
    who, problem = chief_rank(chief, role.world_size)
    problems = role.problems if problem is None else (*role.problems, problem)
    usual = CHIEF if role.rank == who else WORKER
    name = wish or found or usual
    if name == CHIEF and usual != CHIEF:
        text = f'role="chief", but this is rank {role.rank} and rank {who} is the chief; it is a worker'
        problems = (*problems, RoleError(text, hint=f"choose the chief with chief={role.rank} on every rank"))
        name = WORKER
    return replace(role, name=name, chief_rank=who, problems=problems)


def filled(best: Claim, others: list[Claim]) -> Claim:
    """Return a claim, completed by what others know about the host if they agree on rank and world size."""
    for other in others:
        if (other.rank, other.world_size, other.name) == (best.rank, best.world_size, best.name):
            best = replace(
                best,
                local_rank=other.local_rank if best.local_rank is None else best.local_rank,
                local_size=other.local_size if best.local_size is None else best.local_size,
                node=other.node if best.node is None else best.node,
            )
    return best


def contradictions(best: Claim, others: list[Claim]) -> tuple[RoleError, ...]:
    """Return the contradictions between launchers, as from a variable left behind in a shell."""
    found = [other for other in others if not other.outer and not agree(best, other)]
    found = [other for other in found if not (nested(best, other) or nested(other, best))]
    return tuple(
        RoleError(
            f"{best} contradicts {other}; the first is believed",
            hint="unset the variables of the launcher that is not used, or pass rank= and world_size= to Run",
        )
        for other in found
    )


def agree(one: Claim, other: Claim) -> bool:
    """Return whether two sources name the same process."""
    same_kind = (one.name in (PS, EVALUATOR)) == (other.name in (PS, EVALUATOR))
    sizes = {one.world_size, other.world_size} - {None}
    return same_kind and one.rank == other.rank and len(sizes) < 2


def nested(inner: Claim, outer: Claim) -> bool:
    """Return whether each process of the outer launcher may have started equally many of the inner one's."""
    if not inner.world_size or not outer.world_size or inner.world_size % outer.world_size:
        return False
    return inner.rank // (inner.world_size // outer.world_size) == outer.rank


def restarts_of(environ: Environ) -> int:
    """Return how often the launcher has started the job again."""
    return EnvironmentReader(environ).integer(*RESTARTS) or 0


class RuntimeWatch:
    """Waits for a runtime to be initialised, which knows better than the environment did.

    Args:
        role: What was found when the run was made.
        again: Finds it out again.
    """

    def __init__(self, role: Role, again: Callable[[], Role]) -> None:
        self.role, self._again = role, again
        self._settled = role.settled

    def look(self) -> Role | None:
        """Return the role if it has turned out to be another one, else None. Costs some microseconds."""
        if self._settled or runtimes.claim(sys.modules) is None:
            return None
        self._settled = True
        try:
            found = self._again()
        except UsageError:  # the arguments do not fit what the runtime says; they were believed before
            return None
        before, self.role = self.role, found
        return None if found.same_place(before) else found


def lost_chief(role: Role, points: int) -> RoleError:
    """Return the error of a run that began to write and then learnt that another rank is the chief."""
    return RoleError(
        f"this run was created before {role.source} was initialised, and wrote {points} points as if it were "
        f"alone; it is rank {role.rank} of {role.world_size}, so from now on rank {role.chief_rank} writes",
        hint="create the Run after initialising, or pass rank= and world_size=",
    )


def new_chief(role: Role) -> RoleError:
    """Return the error of a run that wrote nothing and then learnt that it is the chief."""
    return RoleError(
        f"this run was created before {role.source} was initialised and took itself for another rank; it is "
        f"the chief, rank {role.rank} of {role.world_size}, and what was logged before is not recorded",
        hint="create the Run after initialising, or pass rank= and world_size=",
    )
