"""The corrections of what tags mean, changed by people."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from stepscope.names.meanings import Correction, correction_of, folder_of
from stepscope.store.annotations.folder import file_name, locked, read_json, remove, write_json


def correct(log_dir: Path, tag: str, **changes: str | None) -> Correction:
    """Correct the meaning of a tag for all readers of a log directory.

    Args:
        log_dir: The log directory.
        tag: A tag, or a pattern in which ``*`` stands for any characters.
        **changes: ``kind``, ``role``, ``split``; None: as the name says. The others stay as they are.

    Raises:
        UsageError: There is no such kind, role or split.
        LogDirectoryError: It cannot be written.
    """
    folder = folder_of(log_dir)
    path = folder / file_name(tag)
    correction_of(tag, changes)
    with locked(log_dir, folder):
        facts = (read_json(path) or {}) | changes
        correction = correction_of(tag, facts)
        if correction:
            write_json(log_dir, path, {"tag": tag, **asdict(correction), "changed": time.time()})
        else:
            remove(log_dir, path)
    return correction
