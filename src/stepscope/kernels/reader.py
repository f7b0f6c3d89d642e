"""Reads memory on a thread of its own that holds no lock of the interpreter."""

from __future__ import annotations

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.cpython.pythread import (
        NOWAIT_LOCK,
        WAIT_LOCK,
        PyThread_acquire_lock,
        PyThread_allocate_lock,
        PyThread_free_lock,
        PyThread_release_lock,
        PyThread_type_lock,
    )
    from cython.cimports.stepscope.kernels.moments import number_at, part, table
else:
    import threading

    import numpy as np

    from stepscope.kernels import moments

    WAIT_LOCK, NOWAIT_LOCK = 1, 0
    PyThread_allocate_lock = threading.Lock

    def PyThread_acquire_lock(lock: Any, wait: int) -> bool:  # noqa: N802 - the name it has in C
        return bool(lock.acquire(blocking=bool(wait)))

    def PyThread_release_lock(lock: Any) -> None:  # noqa: N802
        lock.release()

    def PyThread_free_lock(lock: Any) -> None:  # noqa: N802
        pass

    def number_at(out: Any, row: int) -> Any:
        return out

    def table(buckets: Any) -> Any:
        return buckets

    def part(
        address: int, n: int, kind: int, out: Any, counts: Any, buckets: Any, squares_only: bool
    ) -> None:
        one = [np.array([number], np.int64) for number in (address, n, kind, 0)]
        moments.add(*one, out, np.zeros((0, 0), np.int64), buckets, squares_only)


@cython.cclass
class Reader:
    """Sums the squares of parts of memory on a thread that runs ``serve``, while other threads run.

    Compiled, neither that thread nor the one that asks holds the interpreter's lock meanwhile: asking only
    wakes the thread.

    Args:
        buckets: See ``moments.add``.

    Attributes:
        busy: Whether something was asked for that nobody has waited for yet.
    """

    _work: PyThread_type_lock
    _done: PyThread_type_lock
    _addresses: cython.const[cython.longlong][::1]
    _sizes: cython.const[cython.longlong][::1]
    _types: cython.const[cython.longlong][::1]
    _out: cython.double[:, ::1]
    _buckets: cython.const[cython.longlong][::1]
    _over: cython.bint
    busy = cython.declare(cython.bint, visibility="readonly")

    def __init__(self, buckets: cython.const[cython.longlong][::1]) -> None:
        self._buckets = buckets
        self._over = self.busy = False
        self._work = PyThread_allocate_lock()
        self._done = PyThread_allocate_lock()
        PyThread_acquire_lock(self._work, WAIT_LOCK)
        PyThread_acquire_lock(self._done, WAIT_LOCK)

    def __dealloc__(self) -> None:
        PyThread_free_lock(self._work)
        PyThread_free_lock(self._done)

    def serve(self) -> None:
        """Answer requests until ``close`` is called; for a thread of its own."""
        i: cython.Py_ssize_t
        with cython.nogil:
            while True:
                PyThread_acquire_lock(self._work, WAIT_LOCK)
                if self._over:
                    break
                for i in range(self._addresses.shape[0]):
                    part(
                        self._addresses[i],
                        self._sizes[i],
                        cython.cast(cython.int, self._types[i]),
                        number_at(self._out, 0),
                        cython.NULL,
                        table(self._buckets),
                        True,
                    )
                PyThread_release_lock(self._done)

    def ask(
        self,
        addresses: cython.const[cython.longlong][::1],
        sizes: cython.const[cython.longlong][::1],
        types: cython.const[cython.longlong][::1],
        out: cython.double[:, ::1],
    ) -> None:
        """Have parts read into the first row of ``out``; the caller keeps all of it alive until ``wait``.

        Raises:
            RuntimeError: Nobody has waited for the request before.
        """
        if self.busy:
            raise RuntimeError("asked twice without waiting")
        self._addresses, self._sizes, self._types, self._out = addresses, sizes, types, out
        self.busy = True
        PyThread_release_lock(self._work)

    def wait(self) -> None:
        """Wait for what was asked for."""
        if self.busy:
            if not PyThread_acquire_lock(self._done, NOWAIT_LOCK):
                with cython.nogil:
                    PyThread_acquire_lock(self._done, WAIT_LOCK)
            self.busy = False

    def close(self) -> None:
        """End ``serve`` once it has done what was asked for."""
        self.wait()
        self._over = True
        PyThread_release_lock(self._work)
