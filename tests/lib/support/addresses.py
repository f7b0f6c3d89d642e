"""Puts questions to the addresses of the interface without a server."""

import asyncio
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from starlette.datastructures import QueryParams

from stepscope.serve.encode import encoded
from stepscope.serve.routes import Backend, route_of
from stepscope.store import Log


class Addresses:
    """The addresses of one log directory, or of an open log.

    Args:
        directory: The log directory; that of the log by default.
        log: What has been read of it, or what returns that.
    """

    def __init__(self, directory: Path | None = None, *, log: Any = None) -> None:
        if directory is None:
            directory = log.path if isinstance(log, Log) else Path()
        self.backend = Backend(directory, log if callable(log) else lambda: log, cache=False)

    def ask(self, address: str, query: Any = "", body: bytes = b"", **more: str) -> Any:
        """Return what the handler of an address returns; a query is text, pairs or a dictionary."""
        route = route_of(address)
        assert route is not None, f"no address {address}"
        asked = QueryParams({**query, **more} if isinstance(query, Mapping) else query or more)
        result = route.call(asked, self.backend, body)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    def json(self, address: str, query: Any = "", body: bytes = b"", **more: str) -> Any:
        """Return an answer as its JSON has it."""
        result = self.ask(address, query, body, **more)
        return msgspec.json.decode(result if isinstance(result, bytes) else encoded(result))
