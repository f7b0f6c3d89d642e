"""The memory of all answers together: bytes held for clients until they have read them.

A client that does not read makes the server hold its answer. One answer may have 70 MB, and a client may have
hundreds of connections. So there is one budget for all answers in flight. Those who may only look have a
small share of it and threads of their own, so that they take nothing from the owner.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepscope.serve.reply import Refusal

MAX_BYTES = 1 << 30
MACHINE_SHARE = 8
"""The part of the machine's memory that all answers together may have at most: an eighth."""
GUEST_SHARE = 8
"""Likewise of the budget, for all that may only look."""
CHUNK_BYTES = 256 << 10
"""Handed to a connection at once: beyond it, the connection has taken the earlier bytes."""
STREAM_BYTES = 4 << 20
"""Counted for an answer that is made piece by piece, as long as it is under way."""
RETRY_S = 5


def budget_bytes() -> int:
    """Return the budget of this machine."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return max(min(MAX_BYTES, memory // MACHINE_SHARE), 1)
    return MAX_BYTES


class Share:
    """A part of the budget. An answer that is larger than all of it is alone in it.

    Only the event loop's thread takes and returns.

    Args:
        most_bytes: Its size.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.used_bytes = 0
        self._held: dict[int, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether an answer may begin to be made."""
        return self.used_bytes < self.most_bytes

    @contextlib.contextmanager
    def held(self, answer: object, size: int) -> Iterator[bool]:
        """Count an answer while it is sent, once however many clients get it; false if there is no room."""
        key = id(answer)
        there = self._held.get(key, 0)
        if not there and self.used_bytes and self.used_bytes + size > self.most_bytes:
            yield False
            return
        self._held[key] = there + 1
        self.used_bytes += 0 if there else size
        try:
            yield True
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
                self.used_bytes -= size


GUESTS: ContextVar[Share | None] = ContextVar("guests", default=None)
"""The share from which the request that is being answered takes, None for the owner's."""


class AnswerBudget:
    """Middleware: answers within the budget, and refusals beyond it.

    Args:
        app: The application behind it.
        most_bytes: Of all answers in flight; by default a limit that suits the machine.
    """

    def __init__(self, app: ASGIApp, most_bytes: int | None = None) -> None:
        whole = budget_bytes() if most_bytes is None else most_bytes
        self.app = app
        self.guests = Share(whole // GUEST_SHARE)
        self.owners = Share(whole - whole // GUEST_SHARE)

    async def answer(self, scope: Scope, receive: Receive, send: Send, *, guest: bool) -> None:
        """Answer one request.

        Args:
            scope: Of the request.
            receive: Its body.
            send: Takes the answer.
            guest: Whether it may only look.
        """
        share = self.guests if guest else self.owners
        if not share.is_open:
            await busy().response()(scope, receive, send)
            return
        token = GUESTS.set(share if guest else None)
        try:
            with contextlib.ExitStack() as stack:
                await self.app(scope, receive, self._counted(share, scope, receive, send, stack))
        finally:
            GUESTS.reset(token)

    def _counted(
        self, share: Share, scope: Scope, receive: Receive, send: Send, stack: contextlib.ExitStack
    ) -> Send:
        start: Message | None = None
        refused = False

        async def send_counted(message: Message) -> None:
            nonlocal start, refused
            if message["type"] == "http.response.start":
                start = message  # it waits for the answer: there may be no room for that
                return
            if refused or message["type"] != "http.response.body":
                return
            body = message.get("body", b"")
            more = message.get("more_body", False)
            if start is not None:
                size = STREAM_BYTES if more else len(body)
                if not stack.enter_context(share.held(body if not more else object(), size)) and not more:
                    refused, start = True, None
                    await busy().response()(scope, receive, send)
                    return
                await send(start)
                start = None
            for part, last in chunks(body):
                await send({**message, "body": part, "more_body": more or not last})

        return send_counted


def chunks(body: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield an answer in parts, and whether each is the last."""
    if len(body) <= CHUNK_BYTES:
        yield body, True
        return
    for begin in range(0, len(body), CHUNK_BYTES):
        yield body[begin : begin + CHUNK_BYTES], begin + CHUNK_BYTES >= len(body)


Result = TypeVar("Result")


def within_budget(work: Callable[[], Result]) -> Callable[[], Result]:
    """Return work that is refused if there is no room for its answer when its turn comes."""
    share = GUESTS.get()

    def checked() -> Result:
        if share is not None and not share.is_open:
            raise busy()
        return work()

    return checked


def busy() -> Refusal:
    """Return the refusal of a request while there is no memory for its answer."""
    return Refusal(
        503,
        "answers that clients have not read yet take all the memory that there is for answers",
        "try again in a moment; clients that do not read are cut off",
        headers={"Retry-After": str(RETRY_S)},
    )
