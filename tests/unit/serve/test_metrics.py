"""Metrics of a served directory, read by prometheus_client's parser and by a receiver of OTLP."""

import time

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from support.monitoring import collecting, parsed, received
from support.ports import free_port
from support.waiting import until

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.serve import Server, metrics

SECRET = "a-secret-of-the-owner"


@pytest.fixture
def runs(tmp_path):
    """A directory with a finished run and one that runs and has found something."""
    with ss.Run(tmp_path / "runs" / "old") as old:
        old.scalar("train/loss", 1.0, 0)
    with ss.Run(tmp_path / "runs" / "new", total_steps=90) as run:
        for step in run.steps(range(40)):
            run.scalar("train/loss", float("nan") if step == 39 else 1 / (1 + step))
        run.flush()
        yield tmp_path / "runs"


def scrape(server, path="/metrics", **headers):
    place = f"http://127.0.0.1:{server.port}{path}"
    return httpx.get(place, headers={"Authorization": f"Bearer {SECRET}", **headers}, timeout=60)


def whole(server):
    """Return the metrics once both runs have been read."""
    both = {("stepscope_runs", "running"), ("stepscope_runs", "finished"), ("stepscope_step", "new")}
    until(lambda: parsed(scrape(server).text).keys() >= both)
    return scrape(server)


def test_a_scrape(runs):
    with Server(runs, port=0, cache=False, token=SECRET) as server:
        answer = whole(server)
        values = parsed(answer.text)
        opened = scrape(server, Accept="application/openmetrics-text; version=1.0.0")
        below = httpx.get(
            str(answer.url).replace("/metrics", "/api/v1/metrics"), headers=answer.request.headers
        )
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    assert parsed(opened.text, open_metrics).keys() == values.keys()
    assert below.status_code == 200
    assert values["stepscope_runs", "running"] == values["stepscope_runs", "finished"] == 1
    assert values["stepscope_left_out_runs",] == 0
    assert values["stepscope_step", "new"] == 39
    assert values["stepscope_expected_steps", "new"] == 90
    assert values["stepscope_step_seconds", "new"] > 0
    assert values["stepscope_nonfinite_scalars", "new"] == 1
    assert ("stepscope_scalar", "new", "train/loss") in values
    assert values["stepscope_open_findings", "new", "nonfinite-loss", "high"] == 1
    assert values["stepscope_hung_ranks", "new"] == 0
    assert not [name for name in values if "old" in name]  # a run that has ended is only counted


@pytest.mark.parametrize(("headers", "code"), [
    ({"Authorization": f"Bearer {SECRET}"}, 200),
    ({"Authorization": "Bearer wrong"}, 401),
    ({"Authorization": ""}, 401),
    ({"Authorization": f"Bearer {SECRET}", "Host": "evil.example"}, 403),
])  # fmt: skip
def test_the_token_is_needed(runs, headers, code):
    with Server(runs, port=0, cache=False, token=SECRET) as server:
        assert scrape(server, **headers).status_code == code


def test_runs_and_series_beyond_the_bounds_are_counted(runs, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_RUNS", 1)
    monkeypatch.setattr(metrics, "MAX_SCALARS", 1)
    with ss.Run(runs / "newest") as run, Server(runs, port=0, cache=False, token=SECRET) as server:
        run.scalars({"train/loss": 1.0, "weights/a": 2.0, "accuracy": 0.5}, 0)
        run.flush()
        until(lambda: 'run="newest",tag="train/loss"' in scrape(server).text)
        values = parsed(scrape(server).text)
    assert values["stepscope_left_out_runs",] == 1
    assert {name[1] for name in values if name[0] == "stepscope_step"} == {"newest"}
    assert [name[2] for name in values if name[0] == "stepscope_scalar"] == ["train/loss"]
    assert values["stepscope_left_out_scalars", "newest"] >= 2  # and readings of the machine, on a busy one


def test_a_server_pushes(runs, monkeypatch):
    monkeypatch.setattr("stepscope.metrics.OtlpPusher.__init__.__kwdefaults__", {"every_secs": 0.05})
    with (
        collecting() as collector,
        Server(runs, port=0, cache=False, token=SECRET, otlp=collector.address),
    ):
        until(lambda: collector.requests and ("stepscope_step", "new") in received(collector.requests[-1]))
    assert received(collector.requests[-1])["stepscope_step", "new"] == 39


def test_a_collector_that_is_away_costs_one_line(runs, monkeypatch):
    monkeypatch.setattr("stepscope.metrics.REQUEST_SECS", 0.1)
    monkeypatch.setattr("stepscope.metrics.OtlpPusher.__init__.__kwdefaults__", {"every_secs": 0.02})
    lines = []
    place = f"http://user:s3cret@127.0.0.1:{free_port()}/v1/metrics"
    with Server(runs, port=0, cache=False, token=SECRET, otlp=place, report=lines.append) as server:
        until(lambda: lines)
        begun = time.monotonic()
        whole(server)
        assert time.monotonic() - begun < 60
    [line] = lines
    assert "metrics were not sent to http://" in line
    assert "s3cret" not in line


def test_an_address_that_is_none_is_refused(runs):
    with pytest.raises(UsageError, match="an address of HTTP"):
        Server(runs, port=0, otlp="collector:4318")
