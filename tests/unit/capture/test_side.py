"""The side process, with short programs in its place."""

import json
import sys

from stepscope.capture import side


def start(tmp_path, monkeypatch, program):
    monkeypatch.setattr(
        side, "command", lambda profile, summary: [sys.executable, "-c", program, str(summary)]
    )
    return side.start(tmp_path / "profile", tmp_path / "summary.json")


def test_what_it_writes_is_the_summary(tmp_path, monkeypatch):
    process = start(tmp_path, monkeypatch, "import sys; open(sys.argv[1], 'w').write('{}')")
    assert side.wait(process) is None
    assert json.loads((tmp_path / "summary.json").read_text()) == {}


def test_it_runs_at_the_lowest_priority(tmp_path, monkeypatch):
    program = "import os, sys, time; time.sleep(0.5); open(sys.argv[1], 'w').write(str(os.getpriority(0, 0)))"
    assert side.wait(start(tmp_path, monkeypatch, program)) is None
    assert (tmp_path / "summary.json").read_text() == str(side.NICE)


def test_what_it_says_when_it_fails_is_returned(tmp_path, monkeypatch):
    assert side.wait(start(tmp_path, monkeypatch, "import sys; sys.exit('no such thing')")) == "no such thing"
    assert side.wait(start(tmp_path, monkeypatch, "import sys; sys.exit(3)")) == "exit code 3"


def test_it_is_given_up_after_its_time(tmp_path, monkeypatch):
    process = start(tmp_path, monkeypatch, "import time; time.sleep(60)")
    assert side.wait(process, limit_secs=0.2) == "it took longer than 0.2 s"
    assert process.poll() is not None


def test_a_process_that_cannot_be_started_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(side, "command", lambda profile, summary: [str(tmp_path / "nothing")])
    assert side.start(tmp_path, tmp_path) is None


def test_it_is_no_rank_of_the_job(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("HOME", "/h")
    found = side.environment()
    assert "RANK" not in found
    assert found["HOME"] == "/h"


def test_the_command_is_one_of_ours(tmp_path):
    from stepscope.cli import build_parser

    words = side.command(tmp_path / "a", tmp_path / "b")
    assert words[:3] == [sys.executable, "-m", "stepscope"]
    parsed = build_parser(only="glance").parse_args(words[3:])
    assert (parsed.path, parsed.output, parsed.cache) == (str(tmp_path / "a"), str(tmp_path / "b"), False)
