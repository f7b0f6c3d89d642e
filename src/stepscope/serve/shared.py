"""Answers that many clients ask for: made once for each state of the log, by whoever asks first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from stepscope.serve.budget import GUESTS
from stepscope.serve.reply import Body, packed_body
from stepscope.serve.threads import ThreadPool

KEPT_BYTES = 16 << 20
"""Bytes of kept answers of the newest state, with their questions."""


class SharedAnswers:
    """Answers by what is asked; those of an older state are forgotten at once.

    Only the event loop's thread may ask.

    Args:
        threads: Where answers are made.
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
        """Return the answer to a question; raises what ``make`` raises.

        Args:
            question: What is asked.
            make: Makes the answer, in a thread.
            state: What the answer is made from; an answer of another state is never given.
            pack: Whether it is compressed where it is large.
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
