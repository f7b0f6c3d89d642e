"""Metrics about runs for an operator's monitoring: their names, and their ways out to Prometheus and OTLP.

A running job and the server both describe a run as a ``RunReading``, so the same names mean the same in both.
The libraries of the formats are extras, imported once somebody asks for them.
"""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepscope.errors import UsageError
from stepscope.lazy import needs
from stepscope.quiet import quiet
from stepscope.urls import shown
from stepscope.version import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MAX_SCALARS = 200
"""Series of one run that are exported, the first: a monitoring system keeps each for ever."""
DEFAULT_SECS = 15.0
"""Seconds between two pushes: the interval at which Prometheus scrapes by default is a minute, and 15 s are
common."""
REQUEST_SECS = 5.0
"""Seconds after which a collector that does not answer is given up until the next push."""


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: Its name, with the unit, in the form of Prometheus.
        about: One sentence.
        labels: Names of its labels.
        tag: The series of a run whose newest value it is; empty for none.
        factor: From the unit of the series to that of the name.
        kind: A counter never falls while a process runs.
    """

    name: str
    about: str
    labels: tuple[str, ...] = ("run",)
    tag: str = ""
    factor: float = 1.0
    kind: Literal["gauge", "counter"] = "gauge"


METRICS = (
    Metric("stepscope_run_info", "Always 1; the labels describe the run.",
           ("run", "attempt", "state", "host", "version")),
    Metric("stepscope_step", "Number of the newest step."),
    Metric("stepscope_expected_steps", "How many steps the run is meant to take."),
    Metric("stepscope_steps_per_second", "Steps per second, lately."),
    Metric("stepscope_updated_timestamp_seconds", "When the run last recorded a number, since the epoch."),
    Metric("stepscope_step_seconds", "How long the newest step took.", tag="speed/step_time_ms", factor=1e-3),
    Metric("stepscope_data_wait_seconds", "How long the newest step waited for its data.",
           tag="speed/data_wait_ms", factor=1e-3),
    Metric("stepscope_scalar", "The newest value of a recorded series.", ("run", "tag")),
    Metric("stepscope_nonfinite_scalars",
           "Series whose newest value is NaN or infinite; OTLP's SDK sends no such value."),
    Metric("stepscope_left_out_scalars",
           f"Series of the run that are not exported: of more than {MAX_SCALARS} the first are."),
    Metric("stepscope_open_findings", "Open findings of the health rules; 0 once those of a rule are closed.",
           ("run", "rule", "severity")),
    Metric("stepscope_hung_ranks", "Ranks that wrote their stacks because a step of theirs does not end."),
    Metric("stepscope_problems_total", "Failures to record, by reason.", ("run", "reason"), kind="counter"),
    Metric("stepscope_dropped_points_total", "Logged values that no file holds.",
           tag="stepscope/dropped_points", kind="counter"),
    Metric("stepscope_overhead_ratio", "Share of the training's time that recording took, lately.",
           tag="stepscope/overhead_ratio"),
    Metric("stepscope_overhead_seconds_per_step", "Time that recording took the training for each step.",
           tag="stepscope/overhead_us_per_step", factor=1e-6),
    Metric("stepscope_writer_cpu_ratio", "Processor time of the thread that writes, as a share of the time.",
           tag="stepscope/writer_cpu_ratio"),
    Metric("stepscope_queued_bytes", "Memory of what waits to be written.", tag="stepscope/queued_bytes"),
    Metric("stepscope_runs", "Runs of the served directory, by state.", ("state",)),
    Metric("stepscope_left_out_runs", "Running runs that are not exported: those that began last are.", ()),
)  # fmt: skip
BY_NAME = {metric.name: metric for metric in METRICS}
BY_TAG = {metric.tag: metric for metric in METRICS if metric.tag}


class Sample(NamedTuple):
    """One value.

    Attributes:
        metric: Name of its metric.
        labels: Values of the metric's labels, in their order.
        value: The value, which may be NaN or infinite.
    """

    metric: str
    labels: tuple[str, ...]
    value: float


@dataclass
class RunReading:
    """The state of one run. What is not known is None, or left out.

    Attributes:
        run: Its name.
        updated: Seconds since the epoch.
        newest: The newest value of each series, the series to be exported first at the front.
        unread: Series that ``newest`` lacks.
        findings: Rule and severity of each finding, and whether it is open.
        problems: Failures to record, by reason.
        hung_ranks: Ranks that hang.
    """

    run: str
    attempt: int = 1
    state: str = "running"
    host: str | None = None
    version: str | None = None
    step: int | None = None
    expected_steps: int | None = None
    steps_per_second: float | None = None
    updated: float | None = None
    newest: Mapping[str, float] = field(default_factory=dict)
    unread: int = 0
    findings: Iterable[tuple[str, str, bool]] = ()
    problems: Mapping[str, int] = field(default_factory=dict)
    hung_ranks: int | None = None

    def samples(self) -> Iterator[Sample]:
        """Yield the values of its metrics."""
        facts = self.run, str(self.attempt), self.state, self.host or "", self.version or ""
        yield Sample("stepscope_run_info", facts, 1.0)
        for name, value in (
            ("stepscope_step", self.step),
            ("stepscope_expected_steps", self.expected_steps),
            ("stepscope_steps_per_second", self.steps_per_second),
            ("stepscope_updated_timestamp_seconds", self.updated),
            ("stepscope_hung_ranks", self.hung_ranks),
        ):
            if value is not None:
                yield Sample(name, (self.run,), float(value))
        scalars = 0
        for tag, value in self.newest.items():
            metric = BY_TAG.get(tag)
            if metric is not None:
                yield Sample(metric.name, (self.run,), value * metric.factor)
            elif (scalars := scalars + 1) <= MAX_SCALARS:
                yield Sample("stepscope_scalar", (self.run, tag), value)
        nonfinite = sum(not math.isfinite(value) for value in self.newest.values())
        yield Sample("stepscope_nonfinite_scalars", (self.run,), nonfinite)
        left_out = max(scalars - MAX_SCALARS, 0) + self.unread
        yield Sample("stepscope_left_out_scalars", (self.run,), left_out)
        open_findings: dict[tuple[str, str], int] = {}
        for rule, severity, is_open in self.findings:
            open_findings[rule, severity] = open_findings.get((rule, severity), 0) + is_open
        for labels, count in open_findings.items():
            yield Sample("stepscope_open_findings", (self.run, *labels), count)
        for reason, count in self.problems.items():
            yield Sample("stepscope_problems_total", (self.run, reason), count)


Read = Callable[[], Iterable[Sample]]
"""Returns the present values."""


def by_metric(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Return samples by the names of their metrics."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.metric, []).append(sample)
    return groups


# --- Prometheus -------------------------------------------------------------------------------------


def registry_of(read: Read) -> CollectorRegistry:
    """Return a registry of prometheus_client that reads the values when it is asked.

    Raises:
        MissingPackageError: prometheus_client is not installed.
    """
    with needs("stepscope[prometheus]"):
        from prometheus_client import CollectorRegistry
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
        from prometheus_client.registry import Collector

    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}

    class Readings(Collector):
        def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
            for name, samples in by_metric(read()).items():
                metric = BY_NAME[name]
                family = kinds[metric.kind](name, metric.about, labels=metric.labels)
                for sample in samples:
                    family.add_metric(sample.labels, sample.value)
                yield family

        def describe(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
            return iter(())  # nothing is read before somebody asks

    registry = CollectorRegistry()
    registry.register(Readings())
    return registry


def exposition(read: Read, accept: str) -> tuple[bytes, str]:
    """Return the values in the text format of Prometheus, or of OpenMetrics, and the type of the content.

    Args:
        read: Returns the values.
        accept: The ``Accept`` header of the request.

    Raises:
        MissingPackageError: prometheus_client is not installed.
    """
    registry = registry_of(read)
    from prometheus_client.exposition import choose_encoder

    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


# --- OTLP -------------------------------------------------------------------------------------------


def check_otlp(endpoint: str | None) -> None:
    """Check that metrics can be sent to an address.

    Args:
        endpoint: As of ``OtlpPusher``.

    Raises:
        MissingPackageError: OpenTelemetry's SDK is not installed.
        UsageError: No address of HTTP.
    """
    with needs("stepscope[otlp]"):
        for name in ("exporter.otlp.proto.http.metric_exporter", "sdk.metrics"):
            import_module(f"opentelemetry.{name}")
    if endpoint is not None and not str(endpoint).startswith(("http://", "https://")):
        raise UsageError(
            f"metrics go to an address of HTTP, got {str(endpoint)!r:.80}",
            hint="http://localhost:4318/v1/metrics, say",
        )


def not_sent(endpoint: str | None, cause: str) -> str:
    """Return the line about a collector that is away."""
    place = shown(endpoint) if endpoint else "the OpenTelemetry collector"
    return f"metrics were not sent to {place}: {cause}; they are sent again once it answers"


class OtlpPusher:
    """Sends values to an OpenTelemetry collector, on a thread of its own.

    Args:
        read: Returns the values; called on the thread.
        endpoint: Address of the collector's metrics, as ``http://collector:4318/v1/metrics``; None for what
            the ``OTEL_EXPORTER_OTLP_…`` variables say, which also give headers and certificates.
        every_secs: Seconds between two pushes.
        failed: Called once, with the cause in words, when a push has failed for the first time.

    Raises:
        MissingPackageError: The SDK is not installed.
    """

    def __init__(
        self,
        read: Read,
        endpoint: str | None,
        *,
        every_secs: float = DEFAULT_SECS,
        failed: Callable[[str], object],
    ) -> None:
        with needs("stepscope[otlp]"):
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
            from opentelemetry.sdk.resources import Resource

        self._read, self._every, self._failed = read, every_secs, failed
        self._success = MetricExportResult.SUCCESS
        self._exporter: Any = OTLPMetricExporter(endpoint=endpoint, timeout=REQUEST_SECS)
        self._loggers = OTLPMetricExporter.__module__, "urllib3.connectionpool"
        # Pushed from here, not by the SDK's periodic reader: that one starts again in each forked process.
        self._reader: Any = InMemoryMetricReader()
        resource = Resource.create(
            {
                "service.name": os.environ.get("OTEL_SERVICE_NAME", "stepscope"),
                "service.version": __version__,
                "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
            }
        )
        provider = MeterProvider([self._reader], resource=resource, shutdown_on_exit=False)
        meter = provider.get_meter("stepscope", __version__)
        self._latest: dict[str, list[Sample]] = {}
        for metric in METRICS:
            make = {"gauge": meter.create_observable_gauge, "counter": meter.create_observable_counter}
            make[metric.kind](metric.name, [self._observe(metric)], description=metric.about)
        self._stop = threading.Event()
        self.failures = 0
        """Pushes in a row that have failed."""
        self._told = False
        self._thread = threading.Thread(target=self._push, name="stepscope-otlp", daemon=True)
        self._thread.start()

    def _observe(self, metric: Metric) -> Callable[[Any], Iterator[Any]]:
        from opentelemetry.metrics import Observation

        def observe(options: object) -> Iterator[Any]:
            for sample in self._latest.get(metric.name, ()):
                if not math.isfinite(sample.value):
                    continue  # the SDK would leave it out with a warning at each push
                yield Observation(float(sample.value), dict(zip(metric.labels, sample.labels, strict=True)))

        return observe

    def end(self, timeout: float) -> None:
        """Push a last time, as far as the time allows; a collector that was away is not waited for."""
        self._stop.set()
        if self.failures or timeout <= 0:
            self._exporter.shutdown(timeout_millis=0)
        self._thread.join(max(timeout, 0.0))

    def _push(self) -> None:
        last = False
        while not last:
            last = self._stop.wait(self._every)
            try:
                with quiet(*self._loggers):
                    done = self._export()
                cause = "it refused the metrics, or nothing answered"
            except Exception as error:  # noqa: BLE001  sockets, proxies, and the libraries on the way
                done, cause = False, type(error).__name__
            self.failures = 0 if done else self.failures + 1
            if self.failures and not self._told and not (last and self.failures > 1):
                self._told = True
                with suppress(Exception):
                    self._failed(cause)

    def _export(self) -> bool:
        self._latest = by_metric(self._read())
        data = self._reader.get_metrics_data()
        return data is None or self._exporter.export(data) is self._success
