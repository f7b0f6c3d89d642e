"""Calls of functions that may hang: a hook of the user's, a file system that does not answer."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Call(Generic[T]):
    """A function at work on a thread of its own, which nobody waits for when the process ends.

    Args:
        function: It sees the context variables of the caller, and its CUDA device.
        name: Of the thread.

    Attributes:
        result: The returned value; only after ``wait`` has returned True.
    """

    result: T

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._context, self._device = contextvars.copy_context(), _cuda_device()
        self._done = threading.Event()
        self._error: BaseException | None = None
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError:  # no thread can be had, as when the interpreter ends
            self._run()

    def _run(self) -> None:
        try:
            if self._device is not None:
                sys.modules["torch"].cuda.set_device(self._device)
            self.result = self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001  raised in the caller
            self._error = error
        finally:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait for it; return whether it has returned.

        Raises:
            BaseException: The exception that the function raised.
        """
        if not self._done.wait(seconds):
            return False
        error, self._error = self._error, None
        if error is not None:
            raise error
        return True


def _cuda_device() -> Any:
    """Return the CUDA device of this thread: a new thread would begin with the first one."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda.current_device() if cuda is not None and cuda.is_initialized() else None
