import errno
import json
import os

import pytest
from support.records import write_series

from stepscope import cli
from stepscope.events import EventWriter


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def logs(tmp_path):
    root = tmp_path / "logs"
    writer = EventWriter(root / "base", clock=lambda: 1.7e9)
    for step in range(1200):
        writer.scalar("train/loss", 1 / (step + 1), step, 1.7e9 + step)
    writer.scalar("lr", float("nan"), 5, 1.7e9)
    writer.scalar("train/accuracy", 0.5, 5, 1.7e9)
    writer.scalar("z", float("-inf"), 5, 1.7e9)
    writer.close()
    (root / "broken").mkdir()
    (root / "broken" / "events.out.tfevents.1.h").write_bytes(b"\7" * 4096)
    return root


def test_one_line_per_run(logs, capsys):
    assert cli.main(["ls", str(logs)]) == 0
    out, err = capsys.readouterr()
    head, base, broken = out.splitlines()
    assert head.split() == [
        "RUN", "STATE", "STEP", "POINTS", "UPDATED", "PROBLEMS", "LAST", "VALUES", "HEALTH",
    ]  # fmt: skip
    assert base.split()[:4] == ["base", "ended", "1,199", "1,203"]  # its records say when, not its date
    assert "train/loss 0.000833  train/accuracy 0.5  lr NaN  +1  " in base
    assert broken.endswith("not judged")
    *state, seconds, unit, ago, problems, _, _ = broken.split()
    assert (state, unit, ago, problems) == (["broken", "running", "-", "0"], "s", "ago", "1")
    assert 0 <= int(seconds) < 60
    assert head.index("STATE") == base.index("ended") == broken.index("running")
    assert err == "broken: not an event file: no record in 4,096 bytes (events.out.tfevents.1.h)\n"


@pytest.mark.parametrize("option", [[], ["--tags"], ["--ranks"]])
def test_a_name_does_nothing_to_the_terminal(tmp_path, capsys, option):
    write_series(tmp_path / "logs" / "\x1b[2Jrun\x9b31m", {"\x1b]0;title\x07loss\u202e": [1.0]})
    assert cli.main(["ls", *option, str(tmp_path / "logs")]) == 0
    out, err = capsys.readouterr()
    assert not any(letter in out + err for letter in "\x1b\x07\x9b\u202e")
    if "--ranks" not in option:
        assert "\\x1b[2Jrun\\x9b31m" in out
        assert "\\x1b]0;title\\x07loss\\u202e" in out


def test_one_line_per_series(logs, capsys):
    assert cli.main(["ls", "--tags", str(logs)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0][:8] == ["RUN", "TAG", "WRITER", "ATTEMPT", "POINTS", "STEP", "LAST", "VALUE"]
    assert rows[0][8:] == ["KIND", "ROLE", "SPLIT", "BECAUSE", "OF"]
    assert [row[1] for row in rows[1:]] == ["lr", "train/accuracy", "train/loss", "z"]
    assert rows[3][3:] == ["1", "1,200", "1,199", "0.000833333", "loss", "loss", "train", "its", "name"]
    assert rows[4][-4:] == ["other", "-", "-", "-"]


def test_everything_for_programs(logs, capsys):
    assert cli.main(["ls", "--json", str(logs)]) == 0
    base, broken = json.loads(capsys.readouterr().out)["runs"]
    assert (base["name"], base["state"], base["step"], base["points"]) == ("base", "ended", 1199, 1203)
    assert [(each["tag"], each["value"]) for each in base["series"]] == [
        ("lr", "NaN"),
        ("train/accuracy", 0.5),
        ("train/loss", pytest.approx(1 / 1200)),
        ("z", "-Infinity"),
    ]
    assert base["total_steps"] is None
    assert broken["problems"][0]["kind"] == "unreadable"


def test_no_event_files(tmp_path, capsys):
    assert cli.main(["ls", str(tmp_path)]) == 1
    assert "no event files" in (err := capsys.readouterr().err)
    assert "hint:" in err


@pytest.mark.parametrize("command", ["ls", "watch"])
def test_runs_that_cannot_be_read_are_not_said_to_be_missing(tmp_path, capsys, monkeypatch, command):
    (tmp_path / "run").mkdir()
    real = os.scandir

    def scandir(path):
        if str(path).endswith("run"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    monkeypatch.setattr("os.scandir", scandir)
    assert cli.main([command, str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "no run can be read: cannot be listed: Permission denied" in err
    assert "no event files" not in err


def test_no_directory(tmp_path, capsys):
    assert cli.main(["ls", str(tmp_path / "none")]) == 1
    assert "no such log directory" in capsys.readouterr().err


def test_this_directory_is_the_default(logs, capsys, monkeypatch):
    monkeypatch.chdir(logs)
    assert cli.main(["ls"]) == 0
    assert "base" in capsys.readouterr().out
