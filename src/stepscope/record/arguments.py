"""What a run is made with, checked: a mistake here is told before the training begins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from stepscope.errors import UsageError
from stepscope.record.problems import RefusalError, shown
from stepscope.record.values import as_step


def directory(log_dir: object) -> str:
    """Return the absolute path of a run's directory.

    Raises:
        UsageError: No path, or the URL of an object store. As a path, ``s3://bucket`` would name a local
            directory ``s3:``, in which nobody would look for the run.
    """
    if not isinstance(log_dir, str | os.PathLike) or not os.fspath(log_dir):
        raise UsageError(
            f"log_dir must be a path, got {shown(log_dir)}",
            hint="name a directory of its own for each run, as in Run('runs/first')",
        )
    path = os.fsdecode(log_dir)
    scheme, found, rest = path.partition("://")
    if found and scheme == "file":
        path = rest
    elif found and scheme.isalnum():
        raise UsageError(
            f"cannot record to {scheme}://: expected a local or mounted directory, got {shown(log_dir)}",
            hint="record to a local directory and copy it to the store; reading takes such URLs",
        )
    return os.path.abspath(path)  # noqa: PTH100  keeps what the user typed, links unresolved


def labels(tags: object) -> list[str]:
    """Return the labels of a run."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise UsageError(
            f"tags must be a list of texts, got {type(tags).__name__}", hint="tags=['baseline', 'fp16']"
        )
    labels = list(tags)
    for label in labels:
        if not isinstance(label, str):
            raise UsageError(f"tags must be texts, got {shown(label)}", hint="tags=['baseline']")
    return labels


def integer(name: str, value: Any) -> int:
    """Return an argument as an integer, 0 or more."""
    try:
        number = as_step(value)
    except RefusalError:
        number = -1
    if not isinstance(number, int) or number < 0:
        raise UsageError(f"{name} must be an integer, 0 or more, got {shown(value)}", hint=f"{name}=0, say")
    return number


def positive(name: str, value: Any) -> int | None:
    """Return an argument as an integer, 1 or more; None stays None."""
    if value is None:
        return None
    if integer(name, value) == 0:
        raise UsageError(f"{name} must be 1 or more, got 0", hint=f"leave {name} out where it is not known")
    return int(value)


def share(name: str, value: Any) -> float:
    """Return an argument as a number above 0, up to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise UsageError(f"{name} must be above 0 and at most 1, got {shown(value)}", hint=f"{name}=0.5, say")
    return float(value)


def seconds(name: str, value: Any) -> float:
    """Return an argument as seconds, more than 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise UsageError(
            f"{name} must be a number of seconds above 0, got {shown(value)}", hint=f"{name}=1.0"
        )
    return float(value)
