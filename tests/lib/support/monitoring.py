"""Readers of metrics that are not ours: prometheus_client's parser, and a receiver of OTLP."""

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from stepscope.metrics import BY_NAME
from support.servers import Handler, serving

Values = dict[tuple[str, ...], float]
"""Values by the name of the metric and the values of its labels."""


def named(samples: Iterable[tuple[str, dict[str, str], float]]) -> Values:
    """Values of metrics that the package declares, with exactly the labels that it declares."""
    found: Values = {}
    for name, labels, value in samples:
        assert set(labels) == set(BY_NAME[name].labels)
        key = (name, *(labels[label] for label in BY_NAME[name].labels))
        assert key not in found
        found[key] = value
    return found


def parsed(text: str, families: Any = text_string_to_metric_families) -> Values:
    """Values of a page in the format of Prometheus."""
    samples = [sample for family in families(text) for sample in family.samples]
    return named((sample.name, sample.labels, sample.value) for sample in samples)


def received(request: ExportMetricsServiceRequest) -> Values:
    """Values of a request in the format of OTLP."""
    return named(
        (metric.name, {each.key: each.value.string_value for each in point.attributes}, point.as_double)
        for metric in request.resource_metrics[0].scope_metrics[0].metrics
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points
    )


class Receiver(Handler):
    """A collector: keeps the metrics of each request."""

    def do_POST(self) -> None:
        body = self.body()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.requests.append(ExportMetricsServiceRequest.FromString(body))
        self.answer(200)


@contextmanager
def collecting(port: int = 0) -> Iterator[Any]:
    """A collector on loopback: ``requests`` so far, and its ``address``."""
    with serving(Receiver, port) as server:
        server.requests = []
        server.address = f"http://127.0.0.1:{server.server_port}/v1/metrics"
        yield server
