"""Answers that many clients ask for together."""

import asyncio
import threading

import pytest

from stepscope.serve.reply import COMPRESS_FROM_BYTES
from stepscope.serve.threads import THREADS, SharedAnswers


class Maker:
    """Makes answers and counts them."""

    def __init__(self, data=b"made"):
        self.data, self.made = data, 0

    def __call__(self):
        self.made += 1
        return self.data


def test_what_clients_ask_alike_is_made_once_for_each_state(threads):
    async def ask():
        shared, make = SharedAnswers(threads), Maker()
        for state in (1, 1, 1, 2, 2):
            assert (await shared.answer(b"question", make, state=state)).data == b"made"
        assert make.made == 2
        await shared.answer(b"another", make, state=2)
        assert make.made == 3

    asyncio.run(ask())


def test_clients_that_ask_while_it_is_made_wait_for_it_and_one_that_leaves_leaves_alone(threads):
    begun, go_on, made = threading.Event(), threading.Event(), []

    def make():
        made.append(1)
        begun.set()
        assert go_on.wait(60)
        return b"made"

    async def ask():
        shared = SharedAnswers(threads)
        clients = [asyncio.create_task(shared.answer(b"question", make, state=1)) for _ in range(5 * THREADS)]
        await asyncio.to_thread(begun.wait, 60)
        clients[0].cancel()
        assert await threads.run(lambda: "answered") == "answered", "while all of them wait"
        go_on.set()
        assert {each.data for each in await asyncio.gather(*clients[1:])} == {b"made"}
        assert clients[0].cancelled()
        assert len(made) == 1

    asyncio.run(ask())


def test_an_answer_that_was_begun_before_something_was_new_is_given_to_nobody_who_knows_of_it(threads):
    begun, go_on = threading.Event(), threading.Event()

    def old():
        begun.set()
        assert go_on.wait(60)
        return b"old"

    async def ask():
        shared = SharedAnswers(threads)
        before = asyncio.create_task(shared.answer(b"question", old, state=1))
        await asyncio.to_thread(begun.wait, 60)
        assert (await shared.answer(b"question", Maker(b"new"), state=2)).data == b"new"
        go_on.set()
        assert (await before).data == b"old"
        assert (await shared.answer(b"question", Maker(b"none"), state=2)).data == b"new"

    asyncio.run(ask())


def test_a_failure_is_told_and_not_kept(threads):
    def fail():
        raise ValueError("no such thing")

    async def ask():
        shared = SharedAnswers(threads)
        with pytest.raises(ValueError, match="no such thing"):
            await shared.answer(b"question", fail, state=1)
        assert (await shared.answer(b"question", Maker(), state=1)).data == b"made"

    asyncio.run(ask())


def test_what_is_kept_stays_within_its_bound_however_much_is_asked(threads):
    async def ask():
        shared, make = SharedAnswers(threads, kept_bytes=1_000), Maker(b"x" * 90)
        for number in range(100):
            await shared.answer(b"%010d" % number, make, state=1)
        assert shared.size_bytes == 1_000
        await shared.answer(b"0000000000", make, state=1)
        assert make.made == 100, "the first are kept"
        await shared.answer(b"0000000099", make, state=1)
        assert make.made == 101, "what found no room is made again"
        await shared.answer(b"x", make, state=2)
        assert shared.size_bytes == 91

    asyncio.run(ask())


def test_a_large_answer_is_compressed_once_for_those_who_take_it_so(threads):
    async def ask():
        shared, make = SharedAnswers(threads), Maker(b"x" * COMPRESS_FROM_BYTES)
        packed = await shared.answer(b"question", make, state=1, pack=True)
        assert packed.packed
        assert len(packed.data) < COMPRESS_FROM_BYTES
        assert await shared.answer(b"question", make, state=1, pack=True) is packed
        plain = await shared.answer(b"question", make, state=1, pack=False)
        assert (plain.data, plain.packed) == (make.data, False)

    asyncio.run(ask())
