"""Who writes what: which rank is the chief, where the evaluator writes."""

from __future__ import annotations

import re
from pathlib import PurePath

from stepscope.errors import RoleError, UsageError
from stepscope.record.roles.role import Chief

_HINT = 'chief="first", "last", a rank, or a function of the world size that returns one'


def check_chief(chief: Chief) -> Chief:
    """Return what was passed as chief.

    Raises:
        UsageError: It can never be a chief.
    """
    whole = isinstance(chief, int) and not isinstance(chief, bool) and chief >= 0
    if whole or callable(chief) or (isinstance(chief, str) and chief in ("first", "last")):
        return chief
    raise UsageError(f"chief must say which rank writes, got {chief!r:.60}", hint=_HINT)


def chief_rank(chief: Chief, world_size: int) -> tuple[int, RoleError | None]:
    """Return the rank of the chief, and what is wrong with the user's wish, if anything.

    Every rank must come to the same answer, so it depends on nothing but the world size. A wish that names no
    rank of this world, as after an elastic job has shrunk, gives the last rank: somebody has to write.
    """
    if isinstance(chief, str):
        return (world_size - 1 if chief == "last" else 0), None
    if isinstance(chief, int):
        return in_world(chief, world_size, f"chief={chief}")
    try:
        found = chief(world_size)
    except Exception as error:  # noqa: BLE001  the user's own function
        text = f"the function passed as chief raised {type(error).__name__}: {error}; the first rank writes"
        return 0, RoleError(text, hint=_HINT)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        text = f"the function passed as chief returned {found!r:.60} and no rank; the first rank writes"
        return 0, RoleError(text, hint=_HINT)
    return in_world(found, world_size, f"chief({world_size}) = {found}")


def in_world(rank: int, world_size: int, wish: str) -> tuple[int, RoleError | None]:
    """Return the rank where it exists, else the last one and what is wrong."""
    if rank < world_size:
        return rank, None
    last = world_size - 1
    text = f"{wish}, but there are only {world_size} ranks; the last one, rank {last}, writes"
    return last, RoleError(text, hint=_HINT)


def evaluator_directory(log_dir: str, name: str | None) -> str:
    """Return where an evaluator writes: ``eval`` or ``eval_<name>`` in the run, unless it was given that.

    Raises:
        UsageError: The name is no plain word.
    """
    if name is not None and not (isinstance(name, str) and re.fullmatch(r"[\w.-]{1,100}", name)):
        raise UsageError(
            f"eval_name must be a word, got {name!r:.60}", hint="letters, digits, dot, dash and underscore"
        )
    folder = f"eval_{name}" if name else "eval"
    given = PurePath(log_dir)
    if given.name == folder or (name is None and given.name.startswith("eval_")):
        return log_dir
    return str(given / folder)
