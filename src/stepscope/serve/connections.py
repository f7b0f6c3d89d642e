"""Open connections, so that no address can take all of them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

MOST = 2_000
"""Connections in all, where the process may have so many files."""
MOST_SILENT = 64
"""Connections of one address that have not asked anything yet."""


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

    A browser that finds its connection closed opens another, so dropping one that waits harms nobody.
    Behind a proxy all clients have one address: what asks now and then is dropped only where all are taken.

    Args:
        most: How many there may be.
        most_silent: How many of one address that have not asked anything yet.
    """

    def __init__(self, *, most: int = MOST, most_silent: int = MOST_SILENT) -> None:
        self.most, self.most_silent = most, most_silent
        self.by_address: dict[str, OrderedDict[Connection, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_address.values()))

    def opened(self, connection: Connection) -> None:
        """Take a connection; drop the one that has waited longest where there are too many."""
        mine = self.by_address.setdefault(connection.address, OrderedDict())
        mine[connection] = None
        silent = [each for each in mine if each.silent]
        if len(silent) > self.most_silent:
            self.drop(silent[0])
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
