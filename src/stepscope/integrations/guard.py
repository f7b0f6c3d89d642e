"""Keeps exceptions of our code inside a framework's callbacks away from the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from stepscope.errors import HaltError, RecordError
from stepscope.record.problems import Reporter

if TYPE_CHECKING:
    from stepscope.record.run import Run

MAX_FAILURES = 3
F = TypeVar("F", bound=Callable[..., Any])


class Guarded(Protocol):
    """A callback with a reporter for its problems."""

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""


def guarded(method: F) -> F:
    """Make a method of a ``Guarded`` report its exceptions instead of raising them.

    In strict mode it is raised all the same; ``HaltError`` always is, because it is meant to end the
    training. The method then returns None.
    """

    @wraps(method)
    def call(self: Guarded, *arguments: Any, **options: Any) -> Any:
        try:
            return method(self, *arguments, **options)
        except HaltError:
            raise
        except Exception as error:  # noqa: BLE001  training goes on, whatever is wrong here
            report_raised(self.reporter, f"{type(self).__name__}.{method.__name__}", error)
            return None

    return cast("F", call)


def report_raised(reporter: Reporter, where: str, error: Exception) -> None:
    """Report an exception of a callback, once for the run.

    Args:
        reporter: Receives the report.
        where: The class and method it came from.
        error: The exception.
    """
    message = f"{where} raised {type(error).__name__}: {error}; training goes on"
    refusal = RecordError(message, hint="see where it raises with STEPSCOPE_STRICT=1")
    refusal.__cause__ = error
    reporter.report("callback", refusal)


class SelfEnding:
    """A part that measures for a hook: it reports failures, and removes itself after some of them.

    Attributes:
        what: Names the measurement, in the plural.
        hint: The next action after a failure.
    """

    what: ClassVar[str]
    hint: ClassVar[str] = "see where it raises with STEPSCOPE_STRICT=1"
    _run: Run
    _failures = 0
    _over = False
    _since: int | None = None

    def remove(self) -> None:
        """Measure no more."""
        self._over = True

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  tensors of any kind, and functions of the user's
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if not self._failures:
            self._since = self._run.current_step
        self._failures += 1
        why = f"{type(error).__name__}: {error}"
        refusal = RecordError(f"{self.what}: {why}; the training goes on", hint=self.hint)
        refusal.__cause__ = error
        if self._failures < MAX_FAILURES:
            self._run.report("statistics", refusal)
            return
        self.remove()
        self._run.report("statistics", refusal)
        self._run.unmeasured(self.what, why, self._since)

    def _post(self, reason: str, words: str, hint: str, over: bool) -> None:
        """Report a failure of another thread."""
        problem = f"{self.what}: {words}" + ("; they are switched off" if over else "")
        error = RecordError(problem, hint=hint or "the training is not affected", path=self._run.log_dir)
        self._run.report(reason, error, later=True)
