"""Every exception Stepscope raises.

::

    StepscopeError
    ├── UsageError              (ValueError)         an argument that cannot be right
    │   └── ExpressionError                          a text that is not an expression over tags
    ├── LogDirectoryError       (OSError)            a log directory that cannot be read or written
    │   └── NoEventFilesError   (FileNotFoundError)  a directory without event files
    ├── EventFileError          (ValueError)         a file or record that is not an event file or record
    ├── UnknownRunError         (KeyError)           a run that the log directory does not hold
    ├── UnknownTagError         (KeyError)           a tag that the run does not hold
    ├── RecordError             (ValueError)         a value that cannot be recorded (strict mode only)
    ├── RoleError               (ValueError)         contradicting variables about ranks (strict mode only)
    ├── HaltError                                    a hook that is meant to end the training ends it
    │   └── DivergedError       (ArithmeticError)    the loss is NaN or infinite
    ├── CaptureError            (RuntimeError)       steps that cannot be profiled
    ├── ServeError              (OSError)            the server cannot start
    ├── MissingPackageError                          a library that is not installed; the hint says how to
    ├── WorkerError             (RuntimeError)       a process that worked for this one died
    └── TraceError              (ValueError)         a profile that cannot be read
        └── EmptyTraceError                          a profile without the events a question needs

Each message names the failure with the value, the expected and the found state, then a ``hint:`` line with
the next action, and the path last.
"""

from __future__ import annotations

import os

DAMAGED_RECORD = "the bytes are damaged or of another format: copy the file again, or record again"
"""The next action if a record of an event file makes no sense."""
UNUSUAL_SUMMARY = (
    "write it with a current TensorBoard writer; if TensorBoard shows it, please report it with the file"
)
"""The next action if a summary does not have the structure of its kind."""


class StepscopeError(Exception):
    """Base of every error raised on purpose.

    Args:
        message: The failure, with the value; the expected and the found state.
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


class ExpressionError(UsageError):
    """A text that is not an expression over tags.

    Args:
        start: Start of the wrong part in the text.
        end: Its end; after ``start``, except at the end of the text.
    """

    def __init__(self, message: str, *, hint: str = "", start: int, end: int) -> None:
        self.start, self.end = start, end
        super().__init__(message, hint=hint)


class LogDirectoryError(StepscopeError, OSError):
    """A log directory that cannot be read or written."""


class NoEventFilesError(LogDirectoryError, FileNotFoundError):
    """A directory without event files."""


class EventFileError(StepscopeError, ValueError):
    """A file or record that is not an event file or record."""


class UnknownRunError(StepscopeError, KeyError):
    """A run that the log directory does not hold."""


class UnknownTagError(StepscopeError, KeyError):
    """A tag that the run does not hold."""


class RecordError(StepscopeError, ValueError):
    """A value that cannot be recorded; raised only in strict mode."""


class RoleError(StepscopeError, ValueError):
    """Variables contradict each other about this process's place in its job; raised only in strict mode."""


class HaltError(StepscopeError):
    """A hook that is meant to end the training ends it; the one thing that recording raises into the loop."""


class DivergedError(HaltError, ArithmeticError):
    """A value that is watched is NaN or infinite."""


class CaptureError(StepscopeError, RuntimeError):
    """Steps that cannot be profiled."""


class ServeError(StepscopeError, OSError):
    """The server cannot start."""


class MissingPackageError(StepscopeError):
    """A library that is not installed, such as that of an extra; the hint says how to install it."""


class WorkerError(StepscopeError, RuntimeError):
    """A process that worked for this one died."""


class TraceError(StepscopeError, ValueError):
    """A profile that cannot be read."""


class EmptyTraceError(TraceError):
    """A profile without the events that a question needs."""
