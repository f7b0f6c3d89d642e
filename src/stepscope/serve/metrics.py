"""Metrics of the running runs of a log directory, for Prometheus and OTLP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from stepscope import metrics
from stepscope.metrics import BY_TAG, MAX_SCALARS, RunReading, Sample
from stepscope.serve.findings import FindingAnswers
from stepscope.serve.reply import body_response
from stepscope.serve.routes import Backend, get
from stepscope.serve.summary import CHANGING
from stepscope.store import charts

if TYPE_CHECKING:
    from stepscope.store import Log, StoredRun

MAX_RUNS = 50
"""Running runs that are exported, those that began last; fewer than ``findings.KEPT``, so that the verdict on
each stays in memory from one scrape to the next."""
TEXT, OPEN_METRICS = "text/plain", "application/openmetrics-text"


@get("metrics", media=(TEXT, OPEN_METRICS))
def answer(backend: Backend, request: Request) -> Response:
    """Answer the metrics of the running runs, in the text format of Prometheus."""
    body, media_type = metrics.exposition(lambda: samples(backend), request.headers.get("accept", ""))
    return body_response(request, body, media_type=media_type)


def samples(backend: Backend) -> Iterator[Sample]:
    """Yield the values of all metrics: of every running or stalled run, and how many runs there are."""
    backend.follower.poll()  # without a page that asks, nobody else makes it look
    log = backend.log
    if log is None:
        return
    now = backend.follower.wall()
    states = {run.name: run.condition(now=now)[0] for run in log.runs()}
    counts: dict[str, int] = {}
    for state in states.values():
        counts[state] = counts.get(state, 0) + 1
    yield from (Sample("stepscope_runs", (state,), count) for state, count in counts.items())
    live = [run for run in log.runs() if states[run.name] in CHANGING]
    live.sort(key=lambda run: run.first_wall or 0.0, reverse=True)  # the same from scrape to scrape
    yield Sample("stepscope_left_out_runs", (), max(len(live) - MAX_RUNS, 0))
    order = [line.tag for chart in sorted(charts(log), key=lambda chart: chart.place) for line in chart.lines]
    for run in live[:MAX_RUNS]:
        yield from reading_of(run, log, backend, order, states[run.name]).samples()


def reading_of(run: StoredRun, log: Log, backend: Backend, order: list[str], state: str) -> RunReading:
    """Return the state of one run.

    Args:
        run: The run.
        log: That it is in.
        backend: Keeps the verdicts on the runs.
        order: Tags, the most telling first.
        state: The run's.
    """
    tags = set(run.tags())
    scalars = [tag for tag in order if tag in tags and tag not in BY_TAG]
    read = [*scalars[:MAX_SCALARS], *(tag for tag in BY_TAG if tag in tags)]
    verdict = msgspec.json.decode(backend.part(FindingAnswers).answer(run.name, log))
    return RunReading(
        run.name,
        attempt=max((writer.attempt for writer in run.writers), default=0),
        state=state,
        host=run.info.host,
        version=run.info.version,
        step=run.last_step,
        expected_steps=run.info.total_steps,
        steps_per_second=run.steps_per_second,
        updated=run.last_wall,
        newest={tag: float(run.columns(tag)[-1].last.value) for tag in read},
        unread=len(scalars[MAX_SCALARS:]),
        findings=[
            (finding["rule"], finding["severity"], finding["closed_step"] is None)
            for finding in verdict["findings"]
        ],
        problems=run.info.problems,
        hung_ranks=len(run.ranks.stalled()),
    )
