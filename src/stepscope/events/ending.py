"""How the process that wrote an event file ended, noted as an attribute of the file and not in it.

An extended attribute is seen by no reader of event files and by no listing of a directory. It does not
outlive copies that leave attributes out, and some systems have none: then nothing is known, as for other
tools' files.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

NAME = "user.stepscope.finished"


class Ending(NamedTuple):
    """A clean end.

    Attributes:
        ended: When, in seconds since the epoch; None if that cannot be read.
    """

    ended: float | None


def note_finished(path: str | os.PathLike[str], ended: float) -> None:
    """Note that everything belonging to a file was written, if the file system keeps attributes."""
    with contextlib.suppress(OSError, AttributeError):  # the system has no such call
        os.setxattr(path, NAME, f"{ended:.6f}".encode())


def noted_ending(path: str | os.PathLike[str]) -> Ending | None:
    """Return the ending noted at a file, or None."""
    try:
        return Ending(float(os.getxattr(path, NAME)))
    except (OSError, AttributeError):
        return None
    except ValueError:
        return Ending(None)
