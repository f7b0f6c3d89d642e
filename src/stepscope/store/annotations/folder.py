"""A folder of small JSON files that several processes change."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stepscope.errors import LogDirectoryError
from stepscope.files import inside, json_object, replacing

LONGEST = 200
"""Characters of a file's name; longer names end in a digest."""
MOST_BYTES = 16 << 20
"""Largest size of one file."""


def file_name(name: str) -> str:
    """Return the name of a run's or view's file, in a form that cannot hide a path."""
    text = quote(name, safe=" ").replace(".", "%2E")
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 65]}~{hashlib.sha256(name.encode()).hexdigest()}"
    return f"{text}.json"


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the content of a file; None if it is gone or is not a JSON object."""
    return json_object(path, MOST_BYTES)


def write_json(root: Path, path: Path, value: dict[str, Any]) -> None:
    """Replace a file atomically: a concurrent reader sees the old or the new content.

    Args:
        root: The directory that has to contain it.
        path: The file.
        value: Its new content.

    Raises:
        LogDirectoryError: It cannot be written, or a link leads out of the directory.
    """
    inside(root, path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, mode=0o600) as file:
            file.write(json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass"))


def remove(root: Path, path: Path) -> bool:
    """Remove a file below a directory; return whether it existed.

    Raises:
        LogDirectoryError: It cannot be removed, or a link leads out of the directory.
    """
    inside(root, path)
    with writing(path):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        return True


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the file system into one with a hint."""
    try:
        yield
    except OSError as error:
        raise LogDirectoryError(
            f"cannot be changed: {error.strerror or error}",
            hint="write permission for the log directory is needed to name, note, archive or delete runs",
            path=path,
        ) from error


@contextlib.contextmanager
def locked(root: Path, folder: Path) -> Iterator[None]:
    """Lock a folder below a directory against other processes, if the file system supports locks.

    Raises:
        LogDirectoryError: It cannot be written, or a link leads out of the directory.
    """
    inside(root, folder / ".lock")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with contextlib.suppress(ImportError, OSError):  # a file is replaced at once in any case
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
