"""The threads that do what must not block the event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stepscope.serve.follow import load_store

THREADS = 8
Result = TypeVar("Result")


class ThreadPool:
    """A pool of threads for one server."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="stepscope-serve")

    async def with_store(self, work: Callable[[], Result]) -> Result:
        """Run blocking work that needs the store, once that is imported."""

        def done() -> Result:
            load_store()
            return work()

        return await self.run(done)

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run blocking work off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, functools.partial(work, *arguments)
        )

    async def stream(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Pass on chunks, each made in a thread when the one before has been taken."""
        while (chunk := await self.run(next, chunks, None)) is not None:
            yield chunk

    def close(self) -> None:
        """Let the threads go without waiting for them."""
        self._pool.shutdown(wait=False, cancel_futures=True)
