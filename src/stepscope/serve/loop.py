"""The event loop that accepts connections, and the limits that keep it from being held up."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import socket

    from stepscope.serve.guard import Guard

HEADERS_TIMEOUT_S = 10.0
"""Seconds after which a connection without a whole request head is closed; uvicorn itself waits for ever."""
KEEP_ALIVE_S = 15
"""Idle time of a connection: a page polls at least every five seconds, so its connection stays open."""
GRACE_S = 1
"""Seconds for answers that are under way at the end."""
UNREAD_TIMEOUT_S = 30.0
"""Seconds in which a client takes a part of its answer (``CHUNK_BYTES``), or else is cut off."""
START_TIMEOUT_S = 30.0
MAX_CONNECTIONS = 2_000
"""Most connections in all, if the process may open that many files."""
MOST_SILENT = 64
"""Most connections of one address that have not asked anything yet."""
PATIENCE_S = 1.0
"""How long a connection may be silent, however many others there are: many browsers may come at once, and the
question of one that has just been accepted is read after the next has been accepted.
"""


class Connections:
    """The connections of one server, of each address the one that was heard last at the end.

    A browser that finds its connection closed opens another, so dropping a waiting one does no harm. Behind a
    proxy all clients have one address: those that ask now and then are dropped only if all are taken.

    Args:
        most: How many there may be.
        most_silent: How many of one address that have been open for a while and not asked anything yet.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        *,
        most: int = MAX_CONNECTIONS,
        most_silent: int = MOST_SILENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most, self.most_silent, self.clock = most, most_silent, clock
        self.by_address: dict[str, OrderedDict[Protocol, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_address.values()))

    def opened(self, connection: Protocol) -> None:
        """Take a connection; drop those that have waited longest if there are too many."""
        now = self.clock()
        mine = self.by_address.setdefault(connection.address, OrderedDict())
        mine[connection] = now
        if len(mine) > self.most_silent:
            silent = [other for other, since in mine.items() if other.silent and now - since > PATIENCE_S]
            for oldest in silent[: max(len(silent) - self.most_silent, 0)]:
                self.drop(oldest)
        if len(self) > self.most:
            largest = max(self.by_address.values(), key=len)
            self.drop(next((other for other in largest if other.idle), connection))

    def heard(self, connection: Protocol) -> None:
        """Note that a connection said something."""
        mine = self.by_address.get(connection.address)
        if mine is not None and connection in mine:
            mine.move_to_end(connection)

    def closed(self, connection: Protocol) -> None:
        """Forget a connection."""
        mine = self.by_address.get(connection.address)
        if mine is not None:
            mine.pop(connection, None)
            if not mine:
                del self.by_address[connection.address]

    def drop(self, connection: Protocol) -> None:
        """Close a connection, and forget it at once."""
        self.closed(connection)
        connection.drop()


class Protocol(H11Protocol):
    """HTTP/1.1 with limits on how long a client may take, and on how many it may be."""

    head_timer: asyncio.TimerHandle | None = None
    unread_timer: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.all = connections

    def connection_made(self, transport: Any) -> None:
        """Start the clock for the first request."""
        super().connection_made(transport)
        self.watch_head()
        self.all.opened(self)

    def data_received(self, data: bytes) -> None:
        """Stop the clock when a head is complete; start it when another begins."""
        super().data_received(data)
        self.all.heard(self)
        if self.conn.trailing_data[0] and self.idle:  # part of a head, and no more
            if self.head_timer is None:
                self.watch_head()
        elif self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def pause_writing(self) -> None:
        """Start the clock for a client that does not read."""
        super().pause_writing()
        self.unread_timer = self.loop.call_later(UNREAD_TIMEOUT_S, self.drop)

    def resume_writing(self) -> None:
        """Stop that clock: it has read."""
        super().resume_writing()
        if self.unread_timer is not None:
            self.unread_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clocks."""
        for timer in (self.head_timer, self.unread_timer):
            if timer is not None:
                timer.cancel()
        self.all.closed(self)
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        """The peer's address."""
        return "" if self.client is None else self.client[0]

    @property
    def silent(self) -> bool:
        """True until a whole head has come."""
        return self.cycle is None

    @property
    def idle(self) -> bool:
        """True while no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def drop(self) -> None:
        """Close the connection at once, whatever is still to be sent."""
        self.transport.abort()

    def watch_head(self) -> None:
        """Close the connection if its head is not complete in time."""
        self.head_timer = self.loop.call_later(HEADERS_TIMEOUT_S, self.transport.close)


def affordable() -> int:
    """Return the most connections: half of the files that the process may open."""
    try:
        import resource
    except ImportError:  # not on Windows
        return MAX_CONNECTIONS
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS if most == resource.RLIM_INFINITY else min(2 * MAX_CONNECTIONS, most)
    if resource.RLIM_INFINITY != allowed < wanted:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            allowed = wanted
    return (
        MAX_CONNECTIONS if allowed == resource.RLIM_INFINITY else max(min(MAX_CONNECTIONS, allowed // 2), 1)
    )


class Loop:
    """uvicorn on a socket that is already bound.

    Args:
        app: The application, behind its guard.
        listener: The socket.
        close: Called at the end, however that comes.
    """

    def __init__(self, app: Guard, listener: socket.socket, *, close: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            http=functools.partial(Protocol, connections=Connections(most=affordable())),  # type: ignore[arg-type]
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S + 2,
        )
        self.uvicorn = Uvicorn(config)
        self.socket, self.close = listener, close

    def run(self) -> None:
        """Serve until stopped or interrupted."""
        try:
            asyncio.run(self.uvicorn.serve(sockets=[self.socket]))
        finally:
            self.uvicorn.ready.set()
            self.close()

    def wait_until_started(self) -> bool:
        """Wait until requests are answered; false if that will not happen."""
        return self.uvicorn.ready.wait(START_TIMEOUT_S) and self.uvicorn.started

    def stop(self) -> None:
        """Ask for an orderly end, from any thread."""
        self.uvicorn.should_exit = True


class Uvicorn(uvicorn.Server):
    """Says when it is ready, and ends on a signal without raising it again: the end was asked for."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        """Start and tell whoever waits."""
        await super().startup(sockets=sockets)
        self.ready.set()

    async def shutdown(self, sockets: Any = None) -> None:
        """End in good order; clients that have not taken their answers are cut off, without an error."""
        asyncio.get_running_loop().call_later(GRACE_S, self.cut_off)
        await super().shutdown(sockets=sockets)

    def cut_off(self) -> None:
        """Close all connections at once."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals as uvicorn does, and keep them."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()
