"""The server against a directory that is being written."""

import json
import shutil
import time

import httpx
import numpy as np
import pytest
from support.records import write_series

import stepscope as ss
from stepscope.events import EventWriter
from stepscope.serve import Server
from stepscope.serve.frame import array_of, unpack

pytestmark = pytest.mark.timing


@pytest.fixture
def writer(tmp_path):
    writer = EventWriter(tmp_path / "runs" / "a")
    yield writer
    writer.close()


@pytest.fixture
def server(tmp_path):
    (tmp_path / "runs").mkdir(exist_ok=True)
    with Server(tmp_path / "runs", port=0, cache=False, no_token=True) as server:
        yield server


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.url, timeout=20) as client:
        yield client


def changes(client, cursor=None):
    answer = client.get("api/v1/changes", params={"cursor": cursor} if cursor else None)
    assert answer.status_code == 200
    return answer.json()


def until(client, done, *, deadline_s=20.0):
    """Poll as the page does, without its pauses, until something is there; fails after the deadline."""
    end = time.monotonic() + deadline_s
    while not done(found := changes(client)):
        assert time.monotonic() < end, found
    return found


def values(client, run="a", tag="loss", **options):
    charts = [{"id": "x", "lines": [{"run": run, "tag": tag}], **options}]
    answer = client.post("api/v1/series", json={"charts": charts})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    header, body = unpack(answer.content)
    return [array_of(body, line.columns["value"]).tolist() for line in header.charts[0].lines]


def test_a_point_is_served_within_two_seconds_of_its_flush(writer, client):
    """Polled once a second, as the page does, at the worst moment: just after a poll that found nothing."""
    until(client, lambda found: found["runs"])
    for step in range(3):
        cursor = changes(client)["cursor"]
        writer.scalar("loss", float(step), step, time.time())
        writer.flush()
        flushed = time.monotonic()
        dirty = {}
        while "a" not in dirty:
            answer = changes(client, cursor)
            dirty, cursor = {**dirty, **answer["dirty"]}, answer["cursor"]
            assert time.monotonic() - flushed < 2.0
        assert dirty["a"] == ["loss"]
        assert values(client) == [[float(each) for each in range(step + 1)]]
        assert time.monotonic() - flushed < 2.0


def test_a_point_is_served_within_two_seconds_of_being_logged(client, tmp_path):
    """By a training loop that flushes nothing itself."""
    with ss.Run(tmp_path / "runs" / "a") as run:
        until(client, lambda found: found["runs"])
        logged = time.monotonic()
        run.scalar("loss", 0.5, step=0)
        until(client, lambda found: "loss" in found["runs"][0]["tags"], deadline_s=2.0)
        assert values(client) == [[0.5]]
        assert time.monotonic() - logged < 2.0
        assert changes(client)["runs"][0]["state"] == "running"
    found = until(client, lambda found: found["runs"][0]["state"] == "finished")
    assert found["runs"][0]["overhead_ratio"] is not None
    assert found["runs"][0]["dropped"] == 0


def test_runs_come_and_go_while_watched(writer, client, tmp_path):
    found = until(client, lambda found: found["runs"])
    write_series(tmp_path / "runs" / "b", {"loss": [1.0]})
    until(client, lambda found: [run["name"] for run in found["runs"]] == ["a", "b"])
    shutil.rmtree(tmp_path / "runs" / "b")
    until(client, lambda found: [run["name"] for run in found["runs"]] == ["a"])
    assert changes(client, found["cursor"])["removed"] == ["b"]


def test_a_restarted_server_tells_the_page_to_start_over(writer, tmp_path):
    with (
        Server(tmp_path / "runs", port=0, cache=False, no_token=True) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        cursor = until(client, lambda found: found["runs"])["cursor"]
    with (
        Server(tmp_path / "runs", port=0, cache=False, no_token=True) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        until(client, lambda found: found["runs"])
        answer = changes(client, cursor)
        assert answer["reset"]
        assert [run["name"] for run in answer["runs"]] == ["a"]


def test_the_page_is_answered_before_anything_is_read(writer, tmp_path, monkeypatch):
    from stepscope import store

    monkeypatch.setattr(store, "open", lambda *_, **__: pytest.fail("not before the test is over"))
    monkeypatch.setattr("stepscope.serve.follow.LogFollower.start", lambda self: None)
    with (
        Server(tmp_path / "runs", port=0, cache=False, no_token=True) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        answer = changes(client)
        assert answer["loading"] == {"files_done": 0, "files_total": 0, "bytes_done": 0, "bytes_total": 0}
        assert answer["runs"] == []
        assert values(client) == []
        assert client.get("api/v1/points?run=a&tag=loss").status_code == 404


def test_all_points_as_csv_and_json(writer, client):
    rng = np.random.default_rng(0).normal(size=50_000).astype("f4")
    for step, value in enumerate(rng.tolist()):
        writer.scalar("loss", value, step, 100.0 + step)
    writer.flush()
    until(client, lambda found: found["runs"] and found["runs"][0]["points"] == len(rng))
    answer = client.get("api/v1/points?run=a&tag=loss&format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="a-loss.csv"'
    found = np.array([float(line.rpartition(",")[2]) for line in answer.text.splitlines()[1:]], "f4")
    np.testing.assert_array_equal(found, rng)
    [series] = client.get("api/v1/points?run=a&tag=loss").json()["series"]
    np.testing.assert_array_equal(np.array(series["value"], "f4"), rng)


def test_health_says_what_is_there(writer, client):
    writer.scalar("loss", 1.0, 0, 1.0)
    writer.flush()
    until(client, lambda found: found["runs"] and found["runs"][0]["points"])
    answer = client.get("api/v1/health").json()
    assert (answer["runs"], answer["points"], answer["loading"]) == (1, 1, None)
    assert answer["uptime_seconds"] > 0


def test_a_broken_run_does_not_keep_the_others_from_being_served(writer, client, tmp_path):
    writer.scalar("loss", 1.0, 0, 1.0)
    writer.flush()
    for name, content in {"garbage": b"\x07" * 4096, "empty": b"", "text": b"hello\n"}.items():
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "events.out.tfevents.1.host").write_bytes(content)
    found = until(client, lambda found: len(found["runs"]) == 4)
    problems = {run["name"]: [problem["text"] for problem in run["problems"]] for run in found["runs"]}
    assert problems.pop("a") == []
    assert all(problems.values()), problems
    assert str(tmp_path) not in json.dumps([run["problems"] for run in found["runs"]])
    assert values(client) == [[1.0]]


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "api/v1/nothing", 404, "no such endpoint"),
        ("GET", "api/v1/", 404, "no such endpoint"),
        ("POST", "api/v1/changes", 405, "is not served here"),
        ("GET", "api/v1/series", 405, "is not served here"),
        ("GET", "nothing.js", 404, "no such file"),
        ("DELETE", "api/v1/changes", 405, "DELETE"),
        ("GET", "api/v1/points?run=a&tag=b&format=xls", 400, "xls"),
    ],
)
def test_every_failure_is_json_with_a_hint(client, method, path, status, words):
    answer = client.request(method, path, json={} if method == "POST" else None)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert answer.json()["hint"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_defect_of_ours_is_json_too_and_shown_on_the_terminal(server, client, monkeypatch, caplog):
    def broken(*_, **__):
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(server.follower.feed, "since", broken)
    answer = client.get("api/v1/changes")
    assert answer.status_code == 500
    assert "ZeroDivisionError" in answer.json()["error"]
    assert "secret detail" not in answer.text
    assert answer.headers["content-security-policy"]
    server.stop()  # what is logged is logged after the answer
    assert "secret detail" in caplog.text


def test_stopping_does_not_wait_for_open_connections(tmp_path):
    server = Server(tmp_path, port=0, cache=False, no_token=True).start()
    with httpx.Client(base_url=server.url) as client:
        assert client.get("api/v1/health").status_code == 200
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 1.0
        with pytest.raises(httpx.TransportError):
            client.get("api/v1/health")
