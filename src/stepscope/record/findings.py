"""How findings leave a run: in its event file, to a webhook, and to people's messengers.

People are told by Slack, Discord, Teams, e-mail, ntfy and more, through ``apprise``. Whatever a service does,
the training never waits: everything that uses a network has a thread of its own.
"""

from __future__ import annotations

import io
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import RecordError, UsageError
from stepscope.events.messages import Tensor, Value
from stepscope.health import Finding
from stepscope.health.finding import batch_line
from stepscope.lru import Lru
from stepscope.quiet import quiet
from stepscope.record.hooks.functions import text_value
from stepscope.record.problems import Reporter, pass_on, shown
from stepscope.record.worker import Worker
from stepscope.text import counted, number, scrub_text

if TYPE_CHECKING:
    from stepscope.record.run import Run

LOGGERS = "apprise", "urllib3.connectionpool"
"""They name the services' addresses, which hold secrets."""
MOST_POSTS = 64
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
        self._deliver, self._most = deliver, most
        self._worker: Worker[T] = Worker(name, self._do)
        self.ended = threading.Event()
        """Set once no time is left; ``deliver`` gives up then."""

    def start(self) -> None:
        """Begin to deliver."""
        self.ended.clear()

    def put(self, item: T) -> bool:
        """Deliver something soon; return False if too much is waiting already."""
        if self._worker.waiting >= self._most:
            return False
        self._worker.put(item)
        return True

    def end(self, timeout: float) -> None:
        """Deliver the waiting messages, as far as the time in seconds allows."""
        self._worker.end()
        self._worker.join(timeout)
        self.ended.set()

    def _do(self, item: T) -> None:
        if not self.ended.is_set():
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
            got = scrub_text(url) if isinstance(url, str) else shown(url)
            raise UsageError(f"a webhook needs an http or https address, got {got!r:.100}", hint="https://…")
        if not isinstance(timeout, int | float) or not 0 < timeout <= 60:
            raise UsageError(f"timeout must be 0 to 60 seconds, got {shown(timeout)}", hint="timeout=5")
        self.url, self.timeout = url, float(timeout)
        self.host = parts.hostname
        self._headers = {"Content-Type": "application/json", "User-Agent": "stepscope", **(headers or {})}
        self._outbox = Outbox("stepscope-webhook", self._post, MOST_POSTS)
        self._reporter: Reporter | None = None

    def __repr__(self) -> str:
        return f"Webhook({self.host!r})"  # an address often holds a secret

    def start(self, reporter: Reporter) -> None:
        """Begin to post.

        Args:
            reporter: Receives the failures to post.
        """
        self._reporter = reporter
        self._outbox.start()

    def put(self, facts: Mapping[str, Any]) -> None:
        """Post something soon; if too much is waiting already, it is dropped and counted."""
        if not self._outbox.put(json.dumps(facts, allow_nan=False).encode()):
            self._lost(f"{MOST_POSTS} findings wait already")

    def end(self, timeout: float) -> None:
        """Post the waiting findings, as far as the time allows."""
        self._outbox.end(timeout)

    def _post(self, body: bytes) -> None:
        failure = ""
        for attempt in range(TRIES):
            if attempt and self._outbox.ended.wait(PAUSE_S * attempt):
                break
            try:
                self._send(body)
            except urllib.error.HTTPError as error:
                failure = f"{self.host} answered {error.code}"
                error.close()
                if 300 <= error.code < 500 and error.code not in (408, 429):
                    break  # it would answer the same again
            except BaseException as error:  # noqa: BLE001  sockets, TLS, names, proxies: all of it is the network
                pass_on(error)
                failure = f"{self.host}: {type(error).__name__}"
            else:
                return
        self._lost(failure)

    def _send(self, body: bytes) -> None:
        request = urllib.request.Request(self.url, body, self._headers, method="POST")  # noqa: S310  checked above
        with _OPENER.open(request, timeout=self.timeout) as answer:
            answer.read(1024)

    def _lost(self, failure: str) -> None:
        if self._reporter is not None:
            error = RecordError(
                f"a finding was not posted: {failure}",
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


def finding_values(finding: Finding) -> list[Value]:
    """Return the summaries that record a finding."""
    return [
        Value.of(TAG, "stepscope", Tensor.of_texts(finding_json(finding).encode("utf-8", "replace"))),
        text_value(TEXT_TAG + finding.rule, finding_text(finding)),
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
        return f"**{finding.title}**: over by step {finding.closed_step}, since step {finding.since}"
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


# --- chats and mail ---------------------------------------------------------------------------------


MOST_NOTICES = 32
EVERY_S = 300.0
MOST_AN_HOUR = 12
KEPT_POINTS = 600
KEPT_TAGS = 256
SIZE = 640, 240
MARGIN = 70, 14, 12, 26
"""Left, top, right and bottom of the picture, in pixels."""
KINDS = {"high": "failure", "medium": "warning", "low": "info", "info": "info"}
Clock = Callable[[], float]


class Notice(NamedTuple):
    """The message that is sent for one finding."""

    title: str
    body: str
    kind: str
    tag: str
    step: int


class Notifier:
    """Sends findings to services, throttled, with a picture of the series and a link.

    Args:
        services: Addresses in apprise's notation: ``slack://…``, ``discord://…``, ``msteams://…``,
            ``mailto://…``, ``ntfy://…``, ``json://…``. They hold secrets and are never written anywhere.
        every_s: The least number of seconds between two findings of one rule; a finding of severity high does
            not wait for a lesser one.
        most_an_hour: The most messages of all rules in an hour. Findings of severity high have the same
            number for themselves, so that others never use it up. The next message counts the ones not sent.
        link: The address of the page, to be put into each message.
        picture: Whether to attach a chart of the series.
        clock: Steady time in seconds.

    Raises:
        UsageError: apprise is missing or does not know an address, or a limit cannot be right.
    """

    def __init__(
        self,
        services: str | Sequence[str],
        *,
        every_s: float = EVERY_S,
        most_an_hour: int = MOST_AN_HOUR,
        link: str = "",
        picture: bool = True,
        clock: Clock = time.monotonic,
    ) -> None:
        self._services = services_of([services] if isinstance(services, str) else list(services))
        if not every_s >= 0 or not most_an_hour >= 1:
            got = f"every_s={every_s:g}" if not every_s >= 0 else f"most_an_hour={most_an_hour:g}"
            raise UsageError(
                f"{got}: expected every_s of 0 or more, most_an_hour of 1 or more",
                hint="Notifier(services, every_s=300, most_an_hour=12)",
            )
        self._every_s, self._most, self._link = every_s, most_an_hour, link
        self._picture, self._clock = picture, clock
        self._sent: dict[tuple[str, bool], float] = {}
        self._hour: dict[bool, list[float]] = {True: [], False: []}  # of findings that are high, and others
        self._held_back = 0
        self._points: Lru[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = Lru(KEPT_TAGS)
        self._outbox = Outbox("stepscope-notify", self._send, MOST_NOTICES)
        self._run: Run | None = None

    def __repr__(self) -> str:
        return f"Notifier({', '.join(name for name, _ in self._services)})"

    def start(self, run: Run) -> None:
        """Begin to send; report failures to the run."""
        self._run = run
        self._outbox.start()

    def hear(self, tag: str, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Keep the newest points of a series, for the picture."""
        if not self._picture or tag.startswith("stepscope/"):
            return
        known = self._points.get(tag)
        if known is not None:
            steps, values = np.concatenate([known[0], steps]), np.concatenate([known[1], values])
        self._points.put(tag, (steps[-KEPT_POINTS:].copy(), values[-KEPT_POINTS:].copy()))

    def put(self, finding: Finding, log_dir: str) -> None:
        """Send a finding soon, unless there were too many of late."""
        now = self._clock()
        key = finding.rule, finding.severity == "high"
        hour = self._hour[key[1]]
        hour[:] = [at for at in hour if at > now - 3600]
        before = self._sent.get(key)
        if len(hour) >= self._most or (before is not None and now - before < self._every_s):
            self._held_back += 1
            return
        if not self._outbox.put(self._message(finding, log_dir)):
            self._held_back += 1
            return
        self._sent[key] = now
        hour.append(now)
        self._held_back = 0

    def _message(self, finding: Finding, log_dir: str) -> Notice:
        lines = [finding.summary, f"{log_dir}, {finding.tag}, step {finding.step:,}"]
        lines += [*finding.causes, f"Do: {finding.action}", *finding.rewind]
        if self._held_back:
            lines.append(f"{counted(self._held_back, 'more finding was', 'more findings were')} held back")
        if self._link:
            lines.append(self._link)
        title = f"{finding.title} ({finding.severity})"
        return Notice(title, scrub_text("\n".join(lines)), KINDS[finding.severity], finding.tag, finding.step)

    def end(self, timeout: float) -> None:
        """Send the waiting messages, as far as the time allows."""
        self._outbox.end(timeout)

    def _send(self, message: Notice) -> None:
        points = self._points.get(message.tag)
        image = None if points is None else chart(*points, mark=message.step, title=message.tag)
        for name, service in self._services:
            try:
                with quiet(*LOGGERS):
                    done = self._notify(service, message, image)
            except BaseException as raised:  # noqa: BLE001  sockets, services, their libraries
                pass_on(raised)
                done, why = False, type(raised).__name__
            else:
                why = "it was refused, or nothing answered"
            if not done and self._run is not None:
                error = RecordError(
                    f"a finding was not sent to {name}: {why}",
                    hint="the finding is in the run all the same; try the address with: apprise -b test URL",
                )
                self._run.report("notify", error, later=True)

    def _notify(self, service: Any, message: Notice, image: bytes | None) -> bool:
        import apprise
        from apprise.attachment.memory import AttachMemory

        attached = None
        if image is not None and getattr(service, "attachment_support", False):
            attached = apprise.AppriseAttachment()
            attached.add(AttachMemory(content=image, name="chart.png", mimetype="image/png"))  # type: ignore[no-untyped-call]
        several = apprise.Apprise(asset=service.asset)
        several.add(service)
        return bool(
            several.notify(
                body=message.body,
                title=message.title,
                notify_type=message.kind,
                attach=attached,
            )
        )


def services_of(addresses: list[str]) -> list[tuple[str, Any]]:
    """Return the services of some addresses, each with a name that holds no secret.

    Raises:
        UsageError: apprise is missing, or does not know one.
    """
    try:
        import apprise
    except ImportError:
        raise UsageError("notify= needs apprise", hint="pip install 'stepscope[alerts]'") from None
    services = []
    asset = apprise.AppriseAsset(async_mode=False)  # sends in the thread that asks
    for at, address in enumerate(addresses):
        with quiet(*LOGGERS):
            service = apprise.Apprise.instantiate(address, asset=asset, suppress_exceptions=True)
        if service is None:
            scheme = str(address).partition("://")[0] if "://" in str(address) else "no scheme"
            raise UsageError(
                f"notify address {at + 1} ({scheme:.20}://…) is not one that apprise knows",
                hint="as slack://TOKEN_A/TOKEN_B/TOKEN_C, mailto://USER:PASSWORD@HOST, ntfy://TOPIC, json://HOST",
            )
        services.append((str(service.service_name), service))
    if not services:
        raise UsageError("notify= without an address", hint='notify="ntfy://my-topic"')
    return services


def chart(steps: NDArray[np.int64], values: NDArray[np.float64], *, mark: int, title: str) -> bytes | None:
    """Return a PNG of a series with a line at the finding's step; None if there is nothing to draw."""
    from PIL import Image, ImageDraw

    good = np.isfinite(values)
    x, y = steps[good].astype(np.float64), values[good]
    if len(x) < 2:
        return None
    left, top, right, bottom = MARGIN
    width, height = SIZE
    first, last = min(float(x.min()), mark), max(float(x.max()), mark)
    low, high = float(y.min()), float(y.max())
    across = (width - left - right) / max(last - first, 1.0)
    up = (height - top - bottom) / (high - low) if high > low else 0.0
    image = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((left, top, width - right, height - bottom), outline="#c8c8c8")
    at = left + (mark - first) * across
    draw.line((at, top, at, height - bottom), fill="#d62728")
    middle = (height - bottom + top) / 2
    places = [
        (left + (one - first) * across, height - bottom - (value - low) * up if up else middle)
        for one, value in zip(x.tolist(), y.tolist(), strict=True)
    ]
    draw.line(places, fill="#1f77b4", width=2)
    draw.text((6, top - 4), number(high), fill="black")
    draw.text((6, height - bottom - 10), number(low), fill="black")
    draw.text((left, height - bottom + 6), f"step {first:,.0f}", fill="black")
    draw.text((width - right - 90, height - bottom + 6), f"step {last:,.0f}", fill="black")
    # The built-in font has no other letters.
    draw.text((left + 6, top + 2), title.encode("ascii", "replace").decode(), fill="black")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
