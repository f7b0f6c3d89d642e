"""A server as an object: listening from the start, serving in the foreground or in a thread of its own."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from stepscope.child import close_in_forks
from stepscope.errors import ServeError, StepscopeError
from stepscope.hosts import is_address
from stepscope.metrics import check_otlp
from stepscope.serve.access import access_for
from stepscope.serve.address import address_of, checked_prefix, listen, url_of
from stepscope.serve.follow import LogFollower, check_log_dir, copy_of
from stepscope.serve.user_token import CHECK_EVERY_S, kept_token, replace_token
from stepscope.urls import is_url

if TYPE_CHECKING:
    from stepscope.serve.loop import Loop

DEFAULT_PORT = 6006


class Server:
    """Serves one log directory.

    The address is bound on construction, so ``url`` is known and a browser may connect at once; it is
    answered as soon as the server runs.

    Args:
        log_dir: The directory that holds the runs; it is waited for if only its parent exists. Or the URL
            of one, of which a copy is served that follows it.
        host: Name or address to listen on.
        port: 0 takes any free port.
        path_prefix: Path under which a proxy shows the server.
        token: The secret that a request must carry; None for the one in ``$STEPSCOPE_TOKEN``, else on
            loopback the one of the user and elsewhere a new one; ``auto`` for a new one.
        no_token: On loopback every user of this machine may see, change and delete the runs.
        allow_host: Further names under which browsers reach the server, as those of a proxy.
        embed: Origins of pages that may show this one in a frame; ``notebook`` for those of this machine.
        read_only: Nobody may change, delete or restore anything through it.
        cache: Whether the store may keep a cache.
        page: Folder with the built page; None for the one of this package.
        report: Takes one line for the user, when the directory cannot be read any more or no metrics can be
            sent.
        otlp: Address of an OpenTelemetry collector to which the metrics of the running runs are sent, as
            ``http://collector:4318/v1/metrics``; empty for the one that its environment variables name, None
            for none.

    Raises:
        LogDirectoryError: The log directory can never be served.
        MissingPackageError: OpenTelemetry's SDK is needed and not installed.
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
        no_token: bool = False,
        allow_host: Iterable[str] = (),
        embed: Iterable[str] = (),
        read_only: bool = False,
        cache: bool = True,
        page: str | os.PathLike[str] | None = None,
        report: Callable[[str], None] | None = None,
        otlp: str | None = None,
    ) -> None:
        if otlp is not None:
            check_otlp(otlp or None)
        url = log_dir if isinstance(log_dir, str) and is_url(log_dir) else None
        path = copy_of(url) if url else Path(log_dir).expanduser()
        check_log_dir(path)
        self.prefix = checked_prefix(path_prefix)
        self.socket = listen(host, port)
        try:
            address, self.port = address_of(self.socket)
            names = [*allow_host] if is_address(host) else [*allow_host, host]
            self.access = access_for(
                address,
                allow_host=names,
                token=token,
                no_token=no_token,
                embed=embed,
                read_only=read_only,
                directory=path,
            )
        except BaseException:
            self.socket.close()
            raise
        close_in_forks(self.socket)
        self._address = functools.partial(url_of, self.socket, host=host, prefix=self.prefix)
        self._url = self.url  # for those who ask when the socket is closed
        self._ended = threading.Event()
        self.page = Path(page) if page is not None else None
        self._otlp, self._report = otlp, report or to_stderr
        self.follower = LogFollower(path, url=url, cache=cache, report=self._report)
        self._loop: Loop | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address to open, with the key that lets a browser in.

        If the token is the user's own, the address contains a key of this start of the server instead: it
        opens no other server.
        """
        if self.socket.fileno() >= 0:
            self._url = self._address(token=self.access.address_token)
        return self._url

    @property
    def frame_url(self) -> str | None:
        """The address for frames of the pages that may embed this one; None if none may.

        It needs no cookie, because browsers withhold those of frames. Like a cookie it opens this start of
        the server alone.
        """
        place = self.access.frame_place
        return f"{self._address()}{place}/" if place is not None else None

    def run(self) -> None:
        """Serve until ``stop`` or a signal; returns after an orderly end."""
        loop = self._new_loop()
        # Only now: it begins by importing numpy, and the page should not wait for that.
        self.follower.start()
        try:
            loop.run()
        finally:
            self._ended.set()
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

    def _follow_token(self) -> None:
        """Take the user's new token when there is one: links and cookies of the one before end."""
        while not self._ended.wait(CHECK_EVERY_S):
            with contextlib.suppress(OSError, StepscopeError, RuntimeError, UnicodeDecodeError):
                self.access.token = kept_token() or replace_token()

    def _new_loop(self) -> Loop:
        if self.access.follows_user:
            threading.Thread(target=self._follow_token, name="stepscope-token", daemon=True).start()
        from stepscope.serve.app import Application
        from stepscope.serve.loop import Loop
        from stepscope.serve.page import FOLDER, Page

        answers = Application(self.follower, Page(self.page or FOLDER))
        if self._otlp is not None:
            answers.push_metrics(self._otlp or None, self._report)
        app = answers.asgi(access=self.access, cookie=f"stepscope_{self.port}", prefix=self.prefix)
        self._loop = Loop(app, self.socket, close=answers.close)
        return self._loop

    def end(self) -> None:
        """Ask a server that ``run`` serves for an orderly end, from any thread."""
        if self._loop is not None:
            self._loop.stop()

    def stop(self, *, timeout_s: float = 5.0) -> None:
        """Stop serving; does nothing on a server that is not running."""
        self._ended.set()
        self.end()
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
