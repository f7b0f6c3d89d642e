"""Recordings at a URL: fetched whole, once, and again when they have changed."""

from __future__ import annotations

import json

import pytest

import stepscope as ss
from stepscope.errors import LogDirectoryError
from stepscope.mirror import fetched, is_recording
from stepscope.remote import insistent

TRACE = {"traceEvents": [{"ph": "X", "name": "w", "cat": "cpu_op", "ts": 1, "dur": 5, "pid": 1, "tid": 1}]}


@pytest.fixture(autouse=True)
def place(memory_store):
    return memory_store


def test_a_file_is_fetched_once_and_again_when_it_has_changed(place, monkeypatch):
    place.pipe("/bucket/p/trace.json", json.dumps(TRACE).encode())
    asked = []
    real = type(place).cat_file

    def cat_file(self, path, **options):
        asked.append(path)
        return real(self, path, **options)

    monkeypatch.setattr(type(place), "cat_file", cat_file)
    url = "memory://bucket/p/trace.json"
    assert len(ss.load_trace(url)) == 1
    assert fetched(url).name == "trace.json"
    assert len(asked) == 1
    TRACE_2 = {"traceEvents": TRACE["traceEvents"] * 2}
    place.pipe("/bucket/p/trace.json", json.dumps(TRACE_2).encode())
    assert len(ss.load_trace(url, cache=False)) == 2
    assert len(asked) == 2


def test_a_directory_is_fetched_without_weights_and_checkpoints(place):
    for name in ("p/a.json", "p/model.safetensors", "p/checkpoint-5/b.json", "p/profiles/c.json"):
        place.pipe(f"/bucket/{name}", b"{}")
    folder = fetched("memory://bucket/p")
    found = sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())
    assert found == ["a.json", "profiles/c.json"]
    assert not is_recording("bucket/p/optimizer.pt")


def test_the_ranks_of_a_job_are_read(place):
    for rank in range(2):
        with ss.Run("memory://bucket/x", rank=rank, world_size=2) as run:
            for _ in run.steps(range(20)):
                pass
    assert ss.load_ranks("memory://bucket/x").ranks == (0, 1)


def test_a_path_stays_a_path(tmp_path):
    assert fetched(tmp_path) == tmp_path
    assert fetched(f"file://{tmp_path}") == tmp_path
    with pytest.raises(LogDirectoryError, match="no such log directory"):
        fetched("memory://bucket/none")


def test_a_request_is_made_again_later_and_later_and_lasting_errors_at_once():
    pauses, left = [], [OSError("503"), OSError("503"), OSError("503")]

    def call():
        if left:
            raise left.pop()
        return "body"

    assert insistent(call, pause=pauses.append) == "body"
    assert [low <= pause <= 2 * low for pause, low in zip(pauses, (0.1, 0.2, 0.4), strict=True)] == [True] * 3
    left[:] = [PermissionError("403")]
    with pytest.raises(PermissionError):
        insistent(call, pause=pauses.append)
    left[:] = [OSError("503")] * 9
    with pytest.raises(OSError, match="503"):
        insistent(call, pause=pauses.append)
    assert len(left) == 3
