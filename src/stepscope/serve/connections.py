"""Open connections, so that no address can take all of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

MOST = 2_000
"""Most connections in all, if the process may open that many files."""
MOST_SILENT = 64
"""Most connections of one address that have not asked anything yet."""
PATIENCE_S = 1.0
"""How long a connection may be silent, however many others there are: many browsers may come at once, and the
question of one that has just been accepted is read after the next has been accepted.
"""


class Connection(Protocol):
    """A connection as it is seen here."""

    @property
    def address(self) -> str:
        """The peer's address."""

    @property
    def silent(self) -> bool:
        """True until it has asked something."""

    @property
    def idle(self) -> bool:
        """True while nothing that it asked is being answered."""

    def drop(self) -> None:
        """Close it."""


class Connections:
    """The connections of one server, of each address the one that was heard last at the end.

    A browser that finds its connection closed opens another, so dropping a waiting one does no harm. Behind a
    proxy all clients have one address: what asks now and then is dropped only where all are taken.

    Args:
        most: How many there may be.
        most_silent: How many of one address that have been open for a while and not asked anything yet.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        *,
        most: int = MOST,
        most_silent: int = MOST_SILENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most, self.most_silent, self.clock = most, most_silent, clock
        self.by_address: dict[str, OrderedDict[Connection, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_address.values()))

    def opened(self, connection: Connection) -> None:
        """Take a connection; drop those that have waited longest where there are too many."""
        now = self.clock()
        mine = self.by_address.setdefault(connection.address, OrderedDict())
        mine[connection] = now
        if len(mine) > self.most_silent:
            silent = [each for each, since in mine.items() if each.silent and now - since > PATIENCE_S]
            for each in silent[: max(len(silent) - self.most_silent, 0)]:
                self.drop(each)
        if len(self) > self.most:
            largest = max(self.by_address.values(), key=len)
            self.drop(next((each for each in largest if each.idle), connection))

    def heard(self, connection: Connection) -> None:
        """Note that a connection said something."""
        mine = self.by_address.get(connection.address)
        if mine is not None and connection in mine:
            mine.move_to_end(connection)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        mine = self.by_address.get(connection.address)
        if mine is not None:
            mine.pop(connection, None)
            if not mine:
                del self.by_address[connection.address]

    def drop(self, connection: Connection) -> None:
        """Close a connection, and forget it at once."""
        self.closed(connection)
        connection.drop()
