"""Profiles that were made to harm who reads them: each is refused with a reason, and the server goes on."""

import gzip
import json
import os
import sqlite3

import httpx
import pytest

from stepscope.serve import Server

GOOD = {"traceEvents": [{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 0, "dur": 5}]}
MEMORY = 400 << 20


def endless_view(path):
    """A table of events that is a view without end, as Nsight Systems' export calls it."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS "
            "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start + 1 AS end, 0 AS deviceId, "
            "0 AS streamId, 0 AS shortName, 0 AS correlationId FROM n"
        )
    database.close()


HOSTILE = {
    "pipe/trace.json": os.mkfifo,
    "nine/snapshot.pickle": lambda path: path.write_bytes(b"\x80\x04\x8e" + (4 << 30).to_bytes(8, "little")),
    "bomb/trace.json.gz": lambda path: path.write_bytes(
        gzip.compress(b'{"traceEvents": [' + b" " * 200_000_000 + b"]}")
    ),
    "pickle/snapshot.pickle": lambda path: path.write_bytes(
        gzip.compress(b"\x80\x04](" + b"N" * 60_000_000 + b"e.")
    ),
    "deep/trace.json": lambda path: path.write_bytes(b'{"traceEvents": [], "x": ' + b"[" * 500_000),
    "nodes/et.json": lambda path: path.write_bytes(b'{"schema": "1.1.1", "nodes": ' + b"[" * 500_000),
    "view/report.sqlite": endless_view,
}


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_READ_BYTES", str(MEMORY))
    for name, make in HOSTILE.items():
        (tmp_path / name).parent.mkdir()
        make(tmp_path / name)
    (tmp_path / "good.json").write_text(json.dumps(GOOD))
    with Server(tmp_path, port=0, cache=False, no_token=True) as server:
        yield server


def test_each_fails_alone_with_a_reason(server):
    with httpx.Client(base_url=server.url + "api/v1/", timeout=120) as client:
        for name in HOSTILE:
            answer = client.get("profile", params={"path": name})
            assert answer.status_code == 422, (name, answer.text)
            assert answer.json()["error"], name
            assert answer.json()["hint"], name
            assert client.get("profile", params={"path": "good.json"}).status_code == 200, name
        assert client.get("profiles").status_code == 200
