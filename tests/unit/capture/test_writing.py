"""The side process, with short programs in its place."""

import json
import os
import sys
from types import SimpleNamespace

import pytest
from support.waiting import until

from stepscope.capture import writing
from stepscope.capture.files import signal_name


def start(tmp_path, monkeypatch, program):
    monkeypatch.setattr(
        writing, "command", lambda profile, summary: [sys.executable, "-c", program, str(summary)]
    )
    return writing.start(tmp_path / "profile", tmp_path / "summary.json")


def test_what_it_writes_is_the_summary(tmp_path, monkeypatch):
    process = start(tmp_path, monkeypatch, "import sys; open(sys.argv[1], 'w').write('{}')")
    assert writing.wait(process) is None
    assert json.loads((tmp_path / "summary.json").read_text()) == {}


def test_it_runs_at_the_lowest_priority(tmp_path, monkeypatch):
    program = "import os, sys, time; time.sleep(0.5); open(sys.argv[1], 'w').write(str(os.getpriority(0, 0)))"
    assert writing.wait(start(tmp_path, monkeypatch, program)) is None
    assert (tmp_path / "summary.json").read_text() == str(writing.NICE)


def test_what_interrupts_the_training_does_not_reach_it(tmp_path, monkeypatch):
    process = start(tmp_path, monkeypatch, "import os, sys; open(sys.argv[1], 'w').write(str(os.getpgrp()))")
    assert writing.wait(process) is None
    assert (tmp_path / "summary.json").read_text() == str(process.pid) != str(os.getpgrp())


def test_what_it_says_when_it_fails_is_returned(tmp_path, monkeypatch):
    assert (
        writing.wait(start(tmp_path, monkeypatch, "import sys; sys.exit('no such thing')")) == "no such thing"
    )
    assert writing.wait(start(tmp_path, monkeypatch, "import sys; sys.exit(3)")) == "exit code 3"


def test_a_signal_that_ended_it_is_named(tmp_path, monkeypatch):
    process = start(tmp_path, monkeypatch, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert writing.wait(process) == "SIGKILL ended it; the system sends SIGKILL when memory runs out"
    assert signal_name(63) == "signal 63"


def test_it_is_given_up_after_its_time(tmp_path, monkeypatch):
    process = start(tmp_path, monkeypatch, "import time; time.sleep(60)")
    assert writing.wait(process, limit_secs=0.2) == "it took longer than 0.2 s"
    assert process.poll() is not None


def test_a_process_that_cannot_be_started_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "command", lambda profile, summary: [str(tmp_path / "nothing")])
    assert writing.start(tmp_path, tmp_path) is None


@pytest.fixture
def analyses(tmp_path, monkeypatch):
    """Analyses that note that they began and go on until they are let go; and what came of them."""
    program = (
        "import pathlib, sys, time; name = pathlib.Path(sys.argv[1]); name.with_suffix('.began').touch()\n"
        "while not name.with_suffix('.go').exists(): time.sleep(0.01)\n"
        "name.write_text('{}'); sys.exit('refused' if 'bad' in name.name else 0)"
    )
    monkeypatch.setattr(writing, "command", lambda _, summary: [sys.executable, "-c", program, str(summary)])
    found = writing.Analyses()
    over = []

    def put(name):
        found.put(
            writing.AnalysisJob(
                tmp_path / name, tmp_path / f"{name}.json", lambda said: over.append((name, said))
            )
        )

    yield SimpleNamespace(put=put, over=over, close=found.close, at=tmp_path)
    for name in ("a", "bad", "c"):
        (tmp_path / f"{name}.go").touch()


def test_profiles_are_analysed_one_after_the_other(analyses):
    for name in ("a", "bad", "c"):
        analyses.put(name)
    for name, said in (("a", None), ("bad", "refused"), ("c", None)):
        until((analyses.at / f"{name}.began").exists)
        assert len(list(analyses.at.glob("*.began"))) == len(analyses.over) + 1
        (analyses.at / f"{name}.go").touch()
        until(lambda: len(analyses.over) == len(list(analyses.at.glob("*.go"))))
        assert analyses.over[-1] == (name, said)


def test_what_waits_for_its_turn_when_the_run_ends_is_analysed_all_the_same(analyses):
    for name in ("a", "bad", "c"):
        analyses.put(name)
    until((analyses.at / "a.began").exists)
    assert len(list(analyses.at.glob("*.began"))) == 1
    analyses.close()
    until((analyses.at / "bad.began").exists)
    assert not (analyses.at / "c.began").exists()
    (analyses.at / "bad.go").touch()
    until((analyses.at / "c.began").exists)
    for name in ("a", "c"):
        (analyses.at / f"{name}.go").touch()
    until((analyses.at / "c.json").exists)
    until(lambda: analyses.over == [("a", None)])


def test_a_profile_for_which_no_process_can_be_started_is_not_analysed_and_the_next_one_is(
    tmp_path, monkeypatch
):
    commands = iter([[str(tmp_path / "nothing")], [sys.executable, "-c", ""]])
    monkeypatch.setattr(writing, "command", lambda profile, summary: next(commands))
    analyses, over = writing.Analyses(), []
    for _ in range(2):
        analyses.put(writing.AnalysisJob(tmp_path, tmp_path, over.append))
    until(lambda: len(over) == 2)
    assert over == ["no process could be started", None]


def test_it_is_no_rank_of_the_job(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("HOME", "/h")
    found = writing.environment()
    assert "RANK" not in found
    assert found["HOME"] == "/h"


def test_the_command_is_one_of_ours(tmp_path):
    from stepscope.cli import build_parser

    words = writing.command(tmp_path / "a", tmp_path / "b")
    assert words[:3] == [sys.executable, "-m", "stepscope"]
    parsed = build_parser(only="glance").parse_args(words[3:])
    assert (parsed.path, parsed.output, parsed.cache) == (str(tmp_path / "a"), str(tmp_path / "b"), False)
