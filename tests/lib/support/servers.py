"""Web servers of tests, in a thread of the test's own process."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def serving(handler: Callable[..., Any], port: int = 0, host: str = "127.0.0.1") -> Iterator[Any]:
    """A server that answers while the block lasts; ``server_port`` is its port."""
    with http.server.ThreadingHTTPServer((host, port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
