"""Looks again for who this process is, where a run was made before its runtime was initialised."""

from __future__ import annotations

import sys
from collections.abc import Callable

from stepscope.errors import RoleError, UsageError
from stepscope.record.roles import runtimes
from stepscope.record.roles.role import Role


class Watch:
    """Waits for a runtime to be initialised, which knows better than the environment did.

    Args:
        role: What was found when the run was made.
        again: Finds it out anew.
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
    """Say that a run began to write and then learnt that another rank is the chief."""
    return RoleError(
        f"this run was made before {role.source} was initialised, and wrote {points} points as if it were "
        f"alone; it is rank {role.rank} of {role.world_size}, so from now on rank {role.chief_rank} writes",
        hint="make the Run after initialising, or pass rank= and world_size=",
    )


def new_chief(role: Role) -> RoleError:
    """Say that a run kept silent and then learnt that it is the chief."""
    return RoleError(
        f"this run was made before {role.source} was initialised and took itself for another rank; it is the "
        f"chief, rank {role.rank} of {role.world_size}, and what was logged before is not recorded",
        hint="make the Run after initialising, or pass rank= and world_size=",
    )
