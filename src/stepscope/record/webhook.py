"""A webhook: tells findings to an address that the user gave, from a thread of its own."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from queue import Empty, Full, Queue
from typing import Any
from urllib.parse import urlsplit

from stepscope.errors import RecordError, UsageError
from stepscope.record.problems import Reporter, shown
from stepscope.scrub import scrub_text

MOST_WAITING = 64
TRIES = 3
PAUSE_S = 2.0
"""Before the second try; the third waits twice as long."""


class Webhook:
    """Posts JSON, at most three times each, and never waits in the training.

    Args:
        url: ``http://`` or ``https://``.
        headers: Sent too, such as an authorization; they are never written anywhere.
        timeout: Of one try, in seconds.

    Raises:
        UsageError: The address is no such URL, or the timeout no positive number.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 5.0) -> None:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            found = scrub_text(url) if isinstance(url, str) else shown(url)
            raise UsageError(
                f"a webhook needs an http or https address, got {found!r:.100}", hint="https://…"
            )
        if not isinstance(timeout, int | float) or not 0 < timeout <= 60:
            raise UsageError(f"timeout must be 0 to 60 seconds, got {shown(timeout)}", hint="timeout=5")
        self.url, self.timeout = url, float(timeout)
        self.host = parts.hostname
        self._headers = {"Content-Type": "application/json", "User-Agent": "stepscope", **(headers or {})}
        self._queue: Queue[bytes | None] = Queue(MOST_WAITING)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._reporter: Reporter | None = None

    def __repr__(self) -> str:
        return f"Webhook({self.host!r})"  # an address often holds a secret

    def start(self, reporter: Reporter) -> None:
        """Begin to post.

        Args:
            reporter: Told of what could not be posted.
        """
        self._reporter = reporter
        self._ended.clear()
        self._thread = threading.Thread(target=self._loop, name="stepscope-webhook", daemon=True)
        self._thread.start()

    def put(self, facts: Mapping[str, Any]) -> None:
        """Post something soon; where too much waits already, it is dropped and counted."""
        try:
            self._queue.put_nowait(json.dumps(facts, allow_nan=False).encode())
        except Full:
            self._lost(f"{MOST_WAITING} findings wait already")

    def end(self, timeout: float) -> None:
        """Post what waits, as far as the time allows."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._queue.put_nowait(None)
        except Full:
            self._ended.set()
        thread.join(timeout)
        self._ended.set()

    def _loop(self) -> None:
        while not self._ended.is_set():
            try:
                body = self._queue.get(timeout=1.0)
            except Empty:
                continue
            if body is None:
                return
            self._post(body)

    def _post(self, body: bytes) -> None:
        found = ""
        for attempt in range(TRIES):
            if attempt and self._ended.wait(PAUSE_S * attempt):
                break
            try:
                self._send(body)
            except urllib.error.HTTPError as error:
                found = f"{self.host} answered {error.code}"
                error.close()
                if 300 <= error.code < 500 and error.code not in (408, 429):
                    break  # it would answer the same again
            except Exception as error:  # noqa: BLE001  sockets, TLS, names, proxies: all of it is the network
                found = f"{self.host}: {type(error).__name__}"
            else:
                return
        self._lost(found)

    def _send(self, body: bytes) -> None:
        request = urllib.request.Request(self.url, body, self._headers, method="POST")  # noqa: S310  checked above
        with _OPENER.open(request, timeout=self.timeout) as answer:
            answer.read(1024)

    def _lost(self, found: str) -> None:
        if self._reporter is not None:
            error = RecordError(
                f"a finding was not posted: {found}",
                hint="it is in the run all the same, see stepscope advise",
            )
            self._reporter.report("webhook", error, later=True)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Sends nothing to an address that the user did not name."""

    def redirect_request(self, *arguments: Any) -> None:
        """Refuse."""


_OPENER = urllib.request.build_opener(_NoRedirects)
