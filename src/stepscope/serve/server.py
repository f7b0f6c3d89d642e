"""A server as an object: listening from the start, serving in the foreground or in a thread of its own."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from stepscope.errors import ServeError
from stepscope.serve.access import access_for, is_address
from stepscope.serve.address import address_of, checked_prefix, listen, url_of
from stepscope.serve.follow import LogFollower, check_log_dir, copy_of
from stepscope.urls import is_url

if TYPE_CHECKING:
    from stepscope.serve.loop import Loop

DEFAULT_PORT = 6006


class Server:
    """Serves one log directory.

    The address is bound on construction, so ``url`` is known and a browser may connect at once; it is
    answered as soon as the server runs.

    Args:
        log_dir: The directory that holds the runs; it is waited for where only its parent exists. Or the URL
            of one, of which a copy is served that follows it.
        host: Name or address to listen on. Anything but loopback needs a token.
        port: 0 takes any free port.
        path_prefix: Path under which a proxy shows the server.
        token: What a request must carry; None for none on loopback and a new one elsewhere, ``auto`` for a
            new one.
        allow_host: Further names under which browsers reach the server, as those of a proxy.
        embed: Origins of pages that may show this one in a frame; ``notebook`` for those of this machine.
        read_only: Nobody may change, delete or restore anything through it.
        cache: Whether the store may keep a cache.
        page: Folder with the built page; None for the one of this package.
        report: Takes one line for the user when the directory cannot be read any more.

    Attributes:
        url: The address to open, with the token where one is needed.

    Raises:
        LogDirectoryError: The log directory can never be served.
        ServeError: The address cannot be bound.
        UsageError: An invalid prefix, token or host.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        path_prefix: str = "",
        token: str | None = None,
        allow_host: Iterable[str] = (),
        embed: Iterable[str] = (),
        read_only: bool = False,
        cache: bool = True,
        page: str | os.PathLike[str] | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        url = log_dir if isinstance(log_dir, str) and is_url(log_dir) else None
        path = copy_of(url) if url else Path(log_dir).expanduser()
        check_log_dir(path)
        self.prefix = checked_prefix(path_prefix)
        self.socket = listen(host, port)
        try:
            address, self.port = address_of(self.socket)
            names = [*allow_host] if is_address(host) else [*allow_host, host]
            self.access = access_for(
                address, allow_host=names, token=token, embed=embed, read_only=read_only, directory=path
            )
        except BaseException:
            self.socket.close()
            raise
        self.url = url_of(self.socket, host=host, prefix=self.prefix, token=self.access.token)
        self.page = Path(page) if page is not None else None
        self.follower = LogFollower(path, url=url, cache=cache, report=report or to_stderr)
        self._loop: Loop | None = None
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until ``stop`` or a signal; returns after an orderly end."""
        loop = self._new_loop()
        # Only now: it begins by importing numpy, and the page should not wait for that.
        self.follower.start()
        try:
            loop.run()
        finally:
            self.follower.stop()

    def start(self) -> Server:
        """Serve in a thread of its own and return when requests are answered."""
        loop = self._new_loop()
        self.follower.start()
        self._thread = threading.Thread(target=loop.run, name="stepscope-server", daemon=True)
        self._thread.start()
        if not loop.wait_until_started():
            raise ServeError("the server did not start", hint="see what was printed above")
        return self

    def _new_loop(self) -> Loop:
        from stepscope.serve.app import Application
        from stepscope.serve.loop import Loop
        from stepscope.serve.page import FOLDER, Page

        answers = Application(self.follower, Page(self.page or FOLDER))
        app = answers.asgi(access=self.access, cookie=f"stepscope_{self.port}", prefix=self.prefix)
        self._loop = Loop(app, self.socket, close=answers.close)
        return self._loop

    def stop(self, *, timeout_s: float = 5.0) -> None:
        """Stop serving; does nothing on a server that is not running."""
        if self._loop is not None:
            self._loop.stop()
        if self._thread is not None:
            self._thread.join(timeout_s)
        self.follower.stop()
        self.socket.close()

    def wait(self) -> None:
        """Block until the server that ``start`` started stops, or until Ctrl-C."""
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def to_stderr(line: str) -> None:
    """Print one line for the user."""
    print(f"stepscope: {line}", file=sys.stderr, flush=True)


def run(
    log_dir: str | os.PathLike[str], *, host: str = "127.0.0.1", port: int = DEFAULT_PORT, **options: object
) -> None:
    """Serve a log directory until interrupted; prints the address. ``options`` are those of ``Server``."""
    server = Server(log_dir, host=host, port=port, **options)  # type: ignore[arg-type]
    print(f"stepscope: serving {log_dir} on {server.url}", file=sys.stderr, flush=True)
    server.run()
