"""The memory of all answers together: shares, refusals, and who waits for whom."""

import asyncio

import pytest
from starlette.responses import Response, StreamingResponse

from stepscope.serve.access import Access
from stepscope.serve.budget import CHUNK_BYTES, GUEST_SHARE, STREAM_BYTES, Share, budget_bytes, chunks
from stepscope.serve.guard import Guard
from stepscope.serve.login import view_token
from stepscope.serve.threads import GUEST_THREADS, Looks, SharedAnswers, ThreadPool

TOKEN = "0123456789abcdef"
MIB = 1 << 20


class Client:
    """A client that reads when it is let."""

    def __init__(self, app, token):
        self.app, self.token, self.reads = app, token, asyncio.Event()
        self.messages = []
        self.task = asyncio.ensure_future(self._ask())

    async def _ask(self):
        scope = {
            "type": "http", "method": "GET", "path": "/api/v1/x", "query_string": b"", "scheme": "http",
            "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {self.token}".encode())],
            "server": ("127.0.0.1", 80),
        }  # fmt: skip

        async def receive():
            await asyncio.Event().wait()

        async def send(message):
            self.messages.append(message)
            if message["type"] == "http.response.body" and message.get("more_body"):
                await self.reads.wait()

        await self.app(scope, receive, send)

    @property
    def status(self):
        return self.messages[0]["status"] if self.messages else None

    @property
    def body(self):
        return b"".join(each.get("body", b"") for each in self.messages)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def guard(make, most_bytes=64 * MIB):
    async def app(scope, receive, send):
        await make()(scope, receive, send)

    return Guard(app, access=Access(host="127.0.0.1", token=TOKEN), cookie="c", most_bytes=most_bytes)


def guest_token():
    from pathlib import Path

    return view_token(TOKEN, Path(), 99_999_999_999)


def test_guests_that_do_not_read_hold_no_more_than_their_share():
    async def play():
        app = guard(lambda: Response(bytes(MIB)))  # each answer is one of its own
        guests = [Client(app, guest_token()) for _ in range(100)]
        await settle()
        inside = [guest for guest in guests if guest.status == 200]
        refused = [guest for guest in guests if guest.status == 503]
        assert len(inside) == 64 // GUEST_SHARE
        assert len(inside) + len(refused) == 100
        assert app.budget.guests.used_bytes == 8 * MIB
        assert all((b"retry-after", b"5") in guest.messages[0]["headers"] for guest in refused)
        held = sum(len(guest.body) for guest in inside)
        assert held == len(inside) * CHUNK_BYTES, "the rest waits until that is read"

        owner = Client(app, TOKEN)
        owner.reads.set()
        await owner.task
        assert (owner.status, len(owner.body)) == (200, MIB), "the owner is answered"

        for guest in inside:
            guest.reads.set()
        await asyncio.gather(*(guest.task for guest in guests))
        assert {len(guest.body) for guest in inside} == {MIB}
        assert app.budget.guests.used_bytes == app.budget.owners.used_bytes == 0
        again = Client(app, guest_token())
        again.reads.set()
        await again.task
        assert again.status == 200

    asyncio.run(play())


def test_the_owner_has_a_bound_too():
    async def play():
        app = guard(lambda: Response(bytes(8 * MIB)))
        clients = [Client(app, TOKEN) for _ in range(20)]
        await settle()
        assert [client.status for client in clients].count(200) == 56 // 8
        for client in clients:
            client.task.cancel()  # they go away
        await asyncio.gather(*(client.task for client in clients), return_exceptions=True)
        assert app.budget.owners.used_bytes == 0

    asyncio.run(play())


def test_an_answer_larger_than_the_share_is_alone_in_it():
    async def play():
        app = guard(lambda: Response(bytes(20 * MIB)))
        first = Client(app, guest_token())
        await settle()
        second = Client(app, guest_token())
        await settle()
        assert (first.status, second.status) == (200, 503)
        first.reads.set()
        await first.task
        assert len(first.body) == 20 * MIB

    asyncio.run(play())


def test_one_answer_for_many_is_held_once():
    async def play():
        shared = bytes(MIB)
        app = guard(lambda: Response(shared))
        clients = [Client(app, guest_token()) for _ in range(50)]
        await settle()
        assert {client.status for client in clients} == {200}
        assert app.budget.guests.used_bytes == MIB
        for client in clients:
            client.reads.set()
        await asyncio.gather(*(client.task for client in clients))
        assert app.budget.guests.used_bytes == 0

    asyncio.run(play())


def test_answers_made_piece_by_piece_count_while_they_are_under_way():
    async def pieces():
        for _ in range(3):
            yield bytes(1000)

    async def play():
        app = guard(lambda: StreamingResponse(pieces()))
        clients = [Client(app, guest_token()) for _ in range(9)]
        await settle()
        assert [client.status for client in clients].count(200) >= 8 * MIB // STREAM_BYTES
        assert app.budget.guests.used_bytes >= 8 * MIB
        late = Client(app, guest_token())
        await late.task
        assert late.status == 503
        for client in clients:
            client.reads.set()
        await asyncio.gather(*(client.task for client in clients))
        assert app.budget.guests.used_bytes == 0
        assert {len(client.body) for client in clients if client.status == 200} == {3000}

    asyncio.run(play())


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_the_parts_are_the_answer(size):
    body = bytes(index % 251 for index in range(size))
    parts = list(chunks(body))
    assert b"".join(part for part, _ in parts) == body
    assert [last for _, last in parts] == [False] * (len(parts) - 1) + [True]
    assert max(len(part) for part, _ in parts) <= CHUNK_BYTES


def test_the_budget_is_a_part_of_the_machine():
    assert 0 < budget_bytes() <= 1 << 30


def test_guests_have_threads_of_their_own_and_the_owner_does_not_wait_for_them():
    from threading import Event

    from stepscope.serve.budget import GUESTS

    async def play():
        threads, ended = ThreadPool(), Event()
        try:

            async def as_guest(work):
                GUESTS.set(Share(MIB))
                return await work()

            blocked = [
                asyncio.ensure_future(as_guest(lambda: threads.run(ended.wait)))
                for _ in range(3 * GUEST_THREADS)
            ]
            await settle()
            assert await asyncio.wait_for(threads.run(lambda: "owner"), 30) == "owner"
            # A guest asks first for what the owner asks too.
            looks, shared = Looks(lambda: None, threads), SharedAnswers(threads)
            first = [
                asyncio.ensure_future(as_guest(looks.fresh)),
                asyncio.ensure_future(as_guest(lambda: shared.answer(b"q", lambda: b"a", state=1))),
            ]
            await settle()
            await asyncio.wait_for(looks.fresh(), 30)
            assert (await asyncio.wait_for(shared.answer(b"q", lambda: b"a", state=1), 30)).data == b"a"
            ended.set()
            await asyncio.gather(*blocked, *first)
        finally:
            ended.set()
            threads.close()

    asyncio.run(play())


def test_a_guest_whose_turn_comes_when_there_is_no_room_costs_nothing():
    from stepscope.serve.budget import GUESTS
    from stepscope.serve.reply import Refusal

    async def play():
        threads, share, made = ThreadPool(), Share(MIB), []
        try:
            GUESTS.set(share)
            with share.held(b"x", MIB), pytest.raises(Refusal) as refusal:
                await threads.with_store(lambda: made.append(1))
            assert refusal.value.status == 503
            await threads.with_store(lambda: made.append(2))
        finally:
            threads.close()
        assert made == [2]

    asyncio.run(play())
