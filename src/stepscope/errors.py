"""Every exception Stepscope raises.

::

    StepscopeError
    ├── UsageError              (ValueError)         an argument that cannot be right
    ├── LogDirectoryError       (OSError)            a log directory that cannot be read or written
    │   └── NoEventFilesError   (FileNotFoundError)  a directory without event files
    ├── EventFileError          (ValueError)         a file or record that is no event file or record
    ├── UnknownRunError         (KeyError)           a run that the log directory does not hold
    ├── UnknownTagError         (KeyError)           a tag that the run does not hold
    ├── RecordError             (ValueError)         a value that cannot be recorded (strict mode only)
    ├── ServeError              (OSError)            the server cannot start
    └── TraceError              (ValueError)         a profile that cannot be read
        └── EmptyTraceError                          a profile without the events a question needs

Each message says what failed with the value, what was expected and found, then a ``hint:`` line with the next
action, and the path last.
"""

from __future__ import annotations

import os


class StepscopeError(Exception):
    """Base of every error raised on purpose.

    Args:
        message: What failed, with the value; what was expected and what was found.
        hint: The next action for the user.
        path: The file or directory concerned.
    """

    def __init__(self, message: str, *, hint: str = "", path: str | os.PathLike[str] | None = None) -> None:
        self.message, self.hint, self.path = message, hint, os.fspath(path) if path is not None else None
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [self.message]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        if self.path:
            lines.append(f"file: {self.path}")
        return "\n".join(lines)


class UsageError(StepscopeError, ValueError):
    """An argument that cannot be right."""


class LogDirectoryError(StepscopeError, OSError):
    """A log directory that cannot be read or written."""


class NoEventFilesError(LogDirectoryError, FileNotFoundError):
    """A directory without event files."""


class EventFileError(StepscopeError, ValueError):
    """A file or record that is no event file or record."""


class UnknownRunError(StepscopeError, KeyError):
    """A run that the log directory does not hold."""


class UnknownTagError(StepscopeError, KeyError):
    """A tag that the run does not hold."""


class RecordError(StepscopeError, ValueError):
    """A value that cannot be recorded; raised only in strict mode."""


class ServeError(StepscopeError, OSError):
    """The server cannot start."""


class TraceError(StepscopeError, ValueError):
    """A profile that cannot be read."""


class EmptyTraceError(TraceError):
    """A profile without the events that a question needs."""
