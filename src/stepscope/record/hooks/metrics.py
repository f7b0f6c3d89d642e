"""Hooks that give a running job's metrics to an operator's monitoring: Prometheus, and OTLP."""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stepscope.child import close_in_forks
from stepscope.errors import RecordError, UsageError
from stepscope.events.telemetry import FOLDER, hung_at
from stepscope.hosts import is_address, is_loopback
from stepscope.lazy import needs
from stepscope.metrics import DEFAULT_SECS, OtlpPusher, RunReading, Sample, check_otlp, not_sent, registry_of
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.config import integer, seconds
from stepscope.record.problems import shown
from stepscope.record.protocol import Hook
from stepscope.record.steps import STEP_TIME
from stepscope.urls import shown as shown_place
from stepscope.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.record.run import Run

RATE_SECS = 30.0
"""Seconds of steps over which their rate is taken: two scrapes or more, so that none sees a gap."""
LAST_PUSH_SECS = 2.0
"""Longest time that the end of a run waits for the last push."""
POLL_SECS = 0.05
"""How soon the endpoint's thread notices the end of the run."""


class JobMetrics:
    """The newest numbers of a run. The writer's thread puts them in, and any other thread reads them.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = weakref.ref(run)
        self._name = shown_place(run.url or run.log_dir).rstrip("/").rpartition("/")[2]
        self._begun = run.clock.wall()
        self._newest: dict[str, float] = {}
        self._updated: float | None = None
        self._ended = 0
        self._marks: deque[tuple[float, int]] = deque()
        """Times, and how many steps had ended by then."""
        run.listen(self._take)

    def _take(self, tag: str, steps: NDArray[Any], values: NDArray[Any], walls: NDArray[Any]) -> None:
        self._newest[tag] = float(values[-1])
        self._updated = float(walls[-1])
        if tag == STEP_TIME:
            now, marks = self._updated, self._marks
            if not marks:
                marks.append((float(walls[0]) - float(values[0]) / 1e3, 0))
            self._ended += len(walls)
            marks.append((now, self._ended))
            while len(marks) > 2 and marks[1][0] <= now - RATE_SECS:
                marks.popleft()

    def _steps_per_second(self) -> float | None:
        marks = list(self._marks)
        if not marks:
            return None
        (begin, before), (end, after) = marks[0], marks[-1]
        return (after - before) / (end - begin) if end > begin else None

    def samples(self) -> Iterable[Sample]:
        """Return the present values; none once the run has ended, or in a forked process."""
        run = self._run()
        return () if run is None or not run.recording else self._reading(run).samples()

    def _reading(self, run: Run) -> RunReading:
        folder = os.path.join(run.log_dir, FOLDER)  # noqa: PTH118  text
        findings = [finding for hook in run.hooks for finding in getattr(hook, "findings", ())]
        return RunReading(
            self._name,
            attempt=run.attempt,
            host=socket.gethostname(),
            version=__version__,
            step=run.current_step,
            expected_steps=run.total_steps,
            steps_per_second=self._steps_per_second(),
            updated=self._updated,
            newest={**self._newest, **run.cost.readings},
            findings=[(finding.rule, finding.severity, finding.is_open) for finding in findings],
            problems=run.problems,
            hung_ranks=sum(at >= self._begun for at in hung_at(folder)),
        )


class PrometheusHook(Hook):
    """Answers a Prometheus server's scrapes of the running job.

    The values are read when a scrape asks, on a thread of the endpoint: the training does not wait. If the
    port is taken, one warning says so, and the training goes on. The metrics are those of
    ``docs/guides/monitoring.md``. The endpoint asks for no token, so by default it listens on loopback only;
    there, requests under the name of another host are refused. It needs ``stepscope[prometheus]``.

    Args:
        port: Port to listen on; 0 for any free one.
        host: Address to listen on; ``"0.0.0.0"`` for every machine that reaches this one.

    Attributes:
        port: The port, once the run has begun.

    Raises:
        MissingPackageError: prometheus_client is not installed.
        UsageError: An argument is out of range.
    """

    def __init__(self, port: int = 9464, *, host: str = "127.0.0.1") -> None:
        with needs("stepscope[prometheus]"):
            import_module("prometheus_client")
        self.port = integer("port", port)
        if self.port > 65_535:
            raise UsageError(f"port must be at most 65535, got {port}", hint="port=9464, say")
        if not isinstance(host, str):
            raise UsageError(f"host must be an address, got {shown(host)}", hint='host="127.0.0.1"')
        self.host = host
        self._server: Any = None

    def begin(self, run: Run) -> None:
        """Begin to listen."""
        try:
            self._server = listening(self.host, self.port, JobMetrics(run).samples)
        except OSError as error:
            refusal = RecordError(
                f"no metrics for Prometheus: {self.host}:{self.port} cannot be listened on: {error.strerror}",
                hint="give the job a port of its own: PrometheusHook(9465); the run is not affected",
            )
            run.report("metrics", refusal, points=0)
            return
        self.port = self._server.server_port
        threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECS,), name="stepscope-prometheus", daemon=True
        ).start()

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def listening(host: str, port: int, read: Callable[[], Iterable[Sample]]) -> Any:
    """Return a server that listens and answers with the present values.

    Raises:
        OSError: The address cannot be had.
    """
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

    class Handler(WSGIRequestHandler):
        timeout = 10  # seconds for a request; a client that sends nothing would hold its thread for ever

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
            """Print nothing: the standard error is the training's."""

    class HttpServer(ThreadingWSGIServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: object, client_address: object) -> None:
            """Print nothing: a client that goes away is no event of the training."""

    answer: Any = make_wsgi_app(registry_of(read))
    open_to_all = not is_loopback(host)

    def guarded(environ: dict[str, Any], start_response: Any) -> Any:
        # A page that points its own name at this machine could read a server on loopback with a browser.
        if open_to_all or is_honest(environ.get("HTTP_HOST", "")):
            return answer(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"this is not a name of this machine: ask localhost\n"]

    server = make_server(host, port, guarded, HttpServer, handler_class=Handler)
    close_in_forks(server.socket)
    return server


def is_honest(header: str) -> bool:
    """Return whether a ``Host`` header cannot be a name that somebody else has pointed at this machine."""
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or is_address(name)


class OtlpHook(Hook):
    """Sends the running job's metrics to an OpenTelemetry collector, over HTTP, every few seconds.

    A thread of its own sends them: the training does not wait. If the collector is away, one warning says so,
    recording goes on, and the pushes are resumed once it answers. The metrics are those of
    ``docs/guides/monitoring.md``. It needs ``stepscope[otlp]``.

    Args:
        endpoint: Address of the collector's metrics, as ``"http://collector:4318/v1/metrics"``. By default
            what ``OTEL_EXPORTER_OTLP_ENDPOINT`` and its relatives say; headers and certificates, too, come
            from these variables.
        every_secs: Seconds between two pushes.

    Raises:
        MissingPackageError: OpenTelemetry's SDK is not installed.
        UsageError: An argument is out of range.
    """

    def __init__(self, endpoint: str | None = None, *, every_secs: float = DEFAULT_SECS) -> None:
        check_otlp(endpoint)
        self._endpoint, self._every = endpoint, seconds("every_secs", every_secs)
        self._pusher: OtlpPusher | None = None

    def begin(self, run: Run) -> None:
        """Begin to send."""
        reference = weakref.ref(run)

        def failed(cause: str) -> None:
            run = reference()
            if run is not None:
                error = RecordError(not_sent(self._endpoint, cause), hint="the run is recorded all the same")
                run.report("metrics", error, points=0, later=True)

        read = JobMetrics(run).samples
        self._pusher = OtlpPusher(read, self._endpoint, every_secs=self._every, failed=failed)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Send a last time."""
        if self._pusher is not None:
            self._pusher.end(deadline.left(LAST_PUSH_SECS))
