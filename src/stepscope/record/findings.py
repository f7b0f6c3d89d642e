"""How findings leave a run: as JSON and text in its event file, and as a request to a webhook."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from queue import Empty, Full, Queue
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from stepscope.errors import RecordError, UsageError
from stepscope.events.messages import DataClass, Metadata, Shape, Tensor, Value
from stepscope.health import Finding
from stepscope.health.finding import batch_line, number
from stepscope.record.problems import Reporter, shown
from stepscope.scrub import scrub_text

MOST_WAITING = 64
TRIES = 3
PAUSE_S = 2.0
"""Seconds before the second try; the third waits twice as long."""


T = TypeVar("T")


class Outbox(Generic[T]):
    """Hands things over one after the other on a thread of its own, so that nobody waits for a network.

    Args:
        name: Of the thread.
        deliver: Called with each; it must not raise.
        most: Things that may wait.
    """

    def __init__(self, name: str, deliver: Callable[[T], None], most: int) -> None:
        self._name, self._deliver = name, deliver
        self._queue: Queue[T | None] = Queue(most)
        self._thread: threading.Thread | None = None
        self.ended = threading.Event()
        """Set once no time is left; ``deliver`` gives up then."""

    def start(self) -> None:
        """Begin to deliver."""
        self.ended.clear()
        self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> bool:
        """Deliver something soon; return False if too much is waiting already."""
        try:
            self._queue.put_nowait(item)
        except Full:
            return False
        return True

    def end(self, timeout: float) -> None:
        """Deliver what waits, as far as the time in seconds allows."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._queue.put_nowait(None)
        except Full:
            self.ended.set()
        thread.join(timeout)
        self.ended.set()

    def _loop(self) -> None:
        while not self.ended.is_set():
            try:
                item = self._queue.get(timeout=1.0)
            except Empty:
                continue
            if item is None:
                return
            self._deliver(item)


class Webhook:
    """Posts JSON, at most three times each, and never waits in the training.

    Args:
        url: ``http://`` or ``https://``.
        headers: Sent too, such as an authorization; they are never written anywhere.
        timeout: Limit for one try, in seconds.

    Raises:
        UsageError: The address is not such a URL, or the timeout is not a positive number.
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
        self._outbox = Outbox("stepscope-webhook", self._post, MOST_WAITING)
        self._reporter: Reporter | None = None

    def __repr__(self) -> str:
        return f"Webhook({self.host!r})"  # an address often holds a secret

    def start(self, reporter: Reporter) -> None:
        """Begin to post.

        Args:
            reporter: Told of what could not be posted.
        """
        self._reporter = reporter
        self._outbox.start()

    def put(self, facts: Mapping[str, Any]) -> None:
        """Post something soon; if too much is waiting already, it is dropped and counted."""
        if not self._outbox.put(json.dumps(facts, allow_nan=False).encode()):
            self._lost(f"{MOST_WAITING} findings wait already")

    def end(self, timeout: float) -> None:
        """Post what waits, as far as the time allows."""
        self._outbox.end(timeout)

    def _post(self, body: bytes) -> None:
        found = ""
        for attempt in range(TRIES):
            if attempt and self._outbox.ended.wait(PAUSE_S * attempt):
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


TAG = "stepscope/finding"
"""Plugin ``stepscope``, a string tensor: the JSON of one finding, written when it opens and when it "
"closes."""
TEXT_TAG = "health/"
"""Before the rule's id; TensorBoard shows these texts."""
SCHEMA = 1
DT_STRING = 7


def finding_values(finding: Finding) -> list[Value]:
    """Return the summaries that record a finding."""
    return [
        Value(
            tag=TAG,
            tensor=strings(finding_json(finding)),
            metadata=Metadata.of("stepscope", data_class=int(DataClass.TENSOR)),
        ),
        Value(
            tag=TEXT_TAG + finding.rule,
            tensor=strings(finding_text(finding), Shape.of(1)),
            metadata=Metadata.of("text", data_class=int(DataClass.TENSOR)),
        ),
    ]


def finding_facts(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON types, without anything that has the shape of a secret."""
    facts = finding.as_dict()
    facts["stack"] = [scrub_text(line) for line in finding.stack]
    return {"schema": SCHEMA, **facts}


def finding_json(finding: Finding) -> str:
    """Return a finding as JSON."""
    return json.dumps(finding_facts(finding), ensure_ascii=False, allow_nan=False)


def finding_text(finding: Finding) -> str:
    """Return a finding as Markdown."""
    if not finding.is_open:
        return f"**{finding.title}**: over at step {finding.closed_step}, since step {finding.since}"
    values = ", ".join(f"{name} {number(value)}" for name, value in finding.values.items())
    lines = [
        f"**{finding.title}** ({finding.severity}): {finding.summary}",
        f"Steps {finding.first_step} to {finding.step} of `{finding.tag}`: {values}",
        f"Do: {finding.action}",
    ]
    lines += [*finding.causes, *map(batch_line, finding.batches), *finding.rewind]
    if finding.also:
        lines.append(f"Also in {', '.join(finding.also)}")
    if finding.stack:
        lines.append("```\n" + scrub_text("\n".join(finding.stack)) + "\n```")
    return "\n\n".join(lines)


def strings(text: str, shape: Shape | None = None) -> Tensor:
    """Return a text as a string tensor."""
    return Tensor(
        dtype=DT_STRING, tensor_shape=shape or Shape(), string_val=[text.encode("utf-8", "replace")]
    )
