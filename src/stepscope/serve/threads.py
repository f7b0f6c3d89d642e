"""The threads for work that would block the event loop, and answers that many clients wait for together."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stepscope.serve.budget import GUESTS, within_budget
from stepscope.serve.follow import load_store
from stepscope.serve.reply import Body, packed_body

THREADS = 8
GUEST_THREADS = 4
"""Threads of those who may only look: however much they ask, the owner has his own."""
KEPT_BYTES = 16 << 20
"""Bytes of kept answers of the newest state, with their questions."""
Result = TypeVar("Result")


class ThreadPool:
    """A pool of threads for one server."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="stepscope-serve")
        self._guests = ThreadPoolExecutor(GUEST_THREADS, thread_name_prefix="stepscope-guests")

    async def with_store(self, work: Callable[[], Result]) -> Result:
        """Run blocking work that needs the store, once that is imported."""

        def done() -> Result:
            load_store()
            return work()

        return await self.run(within_budget(done))

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run blocking work off the event loop."""
        pool = self._pool if GUESTS.get() is None else self._guests
        return await asyncio.get_running_loop().run_in_executor(pool, functools.partial(work, *arguments))

    async def run_for_all(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run blocking work for which the owner may wait, whoever asked for it first."""
        GUESTS.set(None)  # of this task, which is nobody else's
        return await self.run(work, *arguments)

    async def stream(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Pass on chunks, each made in a thread when the one before has been taken."""
        while (chunk := await self.run(next, chunks, None)) is not None:
            yield chunk

    def close(self) -> None:
        """Let the threads go without waiting for them."""
        for pool in (self._pool, self._guests):
            pool.shutdown(wait=False, cancel_futures=True)


class Looks:
    """Looks at the log directory, each shared by all clients that ask while it is under way.

    A look waits for the thread that reads. Were each client to wait in a thread of its own, eight of them
    would hold all threads, and the rest would queue.

    Args:
        look: Looks and waits a moment for changes.
        threads: The threads in which it waits.
    """

    def __init__(self, look: Callable[[], None], threads: ThreadPool) -> None:
        self._look, self._threads = look, threads
        self._under_way: asyncio.Task[None] | None = None

    async def fresh(self) -> None:
        """Return once a look has been done that was not over when this was called."""
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._threads.run_for_all(self._look))
            self._under_way.add_done_callback(self._over)
        # A client that goes away ends its own waiting, not that of the others.
        await asyncio.shield(self._under_way)

    def _over(self, look: asyncio.Task[None]) -> None:
        self._under_way = None


class SharedAnswers:
    """Answers by question; those of an older state are forgotten at once.

    Only the event loop's thread may ask.

    Args:
        threads: The threads that make answers.
        kept_bytes: Bound for answers and questions; beyond it, they are made again each time.
    """

    def __init__(self, threads: ThreadPool, *, kept_bytes: int = KEPT_BYTES) -> None:
        self._threads, self.kept_bytes = threads, kept_bytes
        self.size_bytes = 0
        self._state: Hashable = None
        self._kept: dict[tuple[bytes, bool], Body] = {}
        self._under_way: dict[tuple[Hashable, bytes, bool, bool], asyncio.Task[Body]] = {}

    async def answer(
        self, question: bytes, make: Callable[[], bytes], *, state: Hashable, pack: bool = False
    ) -> Body:
        """Return the answer to a question; raises the errors of ``make``.

        Args:
            question: The question.
            make: Makes the answer, in a thread.
            state: The state that the answer is made from; an answer of another state is never given.
            pack: Whether it is compressed if it is large.
        """
        if state != self._state:
            self._state, self.size_bytes = state, 0
            self._kept.clear()
        known = self._kept.get((question, pack))
        if known is not None:
            return known
        # Those who may only look wait for threads of their own; the owner does not wait with them.
        key = (state, question, pack, GUESTS.get() is None)
        task = self._under_way.get(key)
        if task is None:
            making = self._threads.with_store(lambda: packed_body(make(), pack=pack))
            task = self._under_way[key] = asyncio.create_task(making)
            task.add_done_callback(lambda done: self._over(key, done))
        # A client that goes away ends its own waiting, not that of the others.
        return await asyncio.shield(task)

    def _over(self, key: tuple[Hashable, bytes, bool, bool], done: asyncio.Task[Body]) -> None:
        del self._under_way[key]
        if done.cancelled() or done.exception() is not None:  # who waits is told; nobody else needs to be
            return
        (state, question, pack, _), made = key, done.result()
        size = len(question) + len(made.data)
        if state == self._state and self.size_bytes + size <= self.kept_bytes:
            self._kept[question, pack] = made
            self.size_bytes += size
