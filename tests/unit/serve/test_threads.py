"""What many clients wait for together."""

import asyncio
import threading

import msgspec

from stepscope.serve.feed import Feed
from stepscope.serve.threads import THREADS, Looks
from stepscope.serve.types import Changes, LogSummary


def test_clients_that_ask_at_once_share_a_look_and_leave_the_threads_to_others(threads):
    begun, go_on, looks = threading.Event(), threading.Event(), []

    def look():
        looks.append(1)
        begun.set()
        assert go_on.wait(20)

    async def ask():
        shared = Looks(look, threads)
        clients = [asyncio.create_task(shared.fresh()) for _ in range(10 * THREADS)]
        await asyncio.to_thread(begun.wait, 20)
        clients[0].cancel()
        assert await threads.run(lambda: "answered") == "answered", "while all of them wait"
        go_on.set()
        await asyncio.gather(*clients[1:])
        assert len(looks) == 1
        await shared.fresh()
        assert len(looks) == 2, "who asks later gets a look of its own"

    asyncio.run(ask())


def test_an_answer_that_was_made_is_kept_until_something_is_new():
    feed = Feed(LogSummary("runs", "runs", "0", True, []))
    assert feed.kept(None, now=1.0) is None
    made = feed.since(None, now=1.0)
    assert feed.kept(None, now=1.0) == made
    assert msgspec.json.decode(feed.kept(None, now=2.0), type=Changes).time == 2.0
    feed.publish()
    assert feed.kept(None, now=2.0) is None
