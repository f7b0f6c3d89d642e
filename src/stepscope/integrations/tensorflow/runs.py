"""The runs behind the hooks of a process: one for each directory, however many hooks name it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from stepscope.errors import UsageError
from stepscope.record import Run
from stepscope.record.config import directory

_runs: dict[str, Run] = {}
_users: weakref.WeakKeyDictionary[Run, weakref.WeakSet[Any]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def join(run: Run | str | os.PathLike[str] | None, user: object, **options: Any) -> Run:
    """Return a run for a hook to log with, made if its directory has none yet.

    Args:
        run: A run, which stays its maker's to close, or a directory.
        user: The hook.
        options: For ``Run``, if it is made now.

    Raises:
        UsageError: There is neither.
    """
    if run is None:
        raise UsageError("this hook has nowhere to record", hint="pass run=, a directory or an ss.Run")
    if isinstance(run, Run):
        return run
    path = directory(run)
    with _lock:
        known = _runs.get(path)
        if known is None or not alive(known):
            known = _runs[path] = Run(path, **options)
            _users[known] = weakref.WeakSet()
        _users[known].add(user)
        return known


def alive(run: Run) -> bool:
    """Return whether a run can still be logged to."""
    return run.state not in ("finished", "failed", "stopped", "not recording: forked child")


def leave(run: Run, user: object) -> None:
    """Note that a hook is done; the last one closes a run that was made here."""
    with _lock:
        users = _users.get(run)
        if users is None:
            return
        users.discard(user)
        if users:
            return
        _users.pop(run, None)
        for path in [path for path, held in _runs.items() if held is run]:
            del _runs[path]
    run.close()
