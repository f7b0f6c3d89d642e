import csv
import errno
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from support.records import write_series

from stepscope import cli
from stepscope.events import EventWriter

VALUES = [0.1, math.nan, math.inf, -math.inf, 1e-30]


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def logs(tmp_path):
    root = tmp_path / "logs"
    for run in ("a", "b"):
        writer = EventWriter(root / run, clock=lambda: 1.7e9)
        for step, value in enumerate(VALUES):
            writer.scalar("loss, total", value, step * 10, 1.7e9 + step / 7)
            writer.scalar("lr", step, step * 10, 1.7e9 + step / 7)
        writer.close()
    return root


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(expected, np.float32))


def test_csv(logs, capsysbinary):
    assert cli.main(["export", str(logs), "--format", "csv", "--tags", "loss"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsysbinary.readouterr().out.decode())))
    assert list(rows[0]) == ["run", "tag", "writer", "attempt", "step", "wall_time", "value"]
    assert [(row["run"], row["tag"], row["step"]) for row in rows] == [
        (run, "loss, total", str(step * 10)) for run in "ab" for step in range(5)
    ]
    assert [float(row["wall_time"]) for row in rows[:5]] == [1.7e9 + step / 7 for step in range(5)]
    assert [row["value"] for row in rows[:4]] == ["0.1", "NaN", "inf", "-inf"]
    same([float(row["value"]) for row in rows], VALUES * 2)


def test_a_spreadsheet_runs_nothing_of_a_name(tmp_path, capsysbinary):
    write_series(tmp_path / "logs" / "-run", {'=HYPERLINK("http://evil.test","loss")': [-1.0]})
    assert cli.main(["export", str(tmp_path / "logs"), "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsysbinary.readouterr().out.decode()))
    assert (row["run"], row["tag"]) == ("'-run", '\'=HYPERLINK("http://evil.test","loss")')
    assert row["value"] == "-1.0"


def test_json(logs, capsysbinary):
    assert cli.main(["export", str(logs), "--format", "json", "--runs", "^a$"]) == 0
    found = json.loads(capsysbinary.readouterr().out)
    assert [(each["run"], each["tag"], each["attempt"]) for each in found] == [
        ("a", "loss, total", 1),
        ("a", "lr", 1),
    ]
    assert found[0]["step"] == [0, 10, 20, 30, 40]
    assert found[0]["value"][1:4] == ["NaN", "Infinity", "-Infinity"]
    assert found[1]["value"] == [0, 1, 2, 3, 4]


def test_parquet(logs, tmp_path, capsys):
    out = tmp_path / "points.parquet"
    assert cli.main(["export", str(logs), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": [str(out)], "series": 4, "points": 20}
    frame = pl.read_parquet(out)
    assert frame.shape == (20, 7)
    same(frame.filter(pl.col("tag") == "loss, total")["value"].to_numpy(), VALUES * 2)


@pytest.mark.parametrize("name", ["x.csv", "x.CSV", "x.json"])
def test_the_ending_says_the_format(logs, tmp_path, name):
    assert cli.main(["export", str(logs), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text().startswith("[" if name == "x.json" else "run,tag")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--format", "csv", "--tags", "nothing"], "no series matches"),
        (["--format", "csv", "--tags", "["], "not a regular expression"),
        ([], "no format given"),
        (["-o", "x.txt"], "no format given"),
        (["--format", "csv", "--json"], "the output of --json would be mixed"),
        (["--format", "csv", "-o", "/nonexistent/x"], "cannot write"),
    ],
)
def test_mistakes(logs, capsys, words, text):
    assert cli.main(["export", str(logs), *words]) == 1
    captured = capsys.readouterr()
    assert text in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""


def test_parquet_is_not_for_a_terminal(logs, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["export", str(logs), "--format", "parquet"]) == 1
    assert "not for a terminal" in capsys.readouterr().err


def test_a_reader_that_goes_is_no_error(logs):
    command = [sys.executable, "-m", "stepscope", "export", str(logs), "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("refused", ["b", "ab"])
def test_a_run_that_cannot_be_read_is_named_and_never_missing_unsaid(logs, capsys, monkeypatch, refused):
    real = os.scandir

    def scandir(path):
        if Path(path).name in tuple(refused):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    monkeypatch.setattr("os.scandir", scandir)
    status = cli.main(["export", str(logs), "--format", "csv", "--tags", "loss"])
    out, err = capsys.readouterr()
    assert "no series matches" not in err
    if refused == "ab":
        assert (status, out) == (1, "")
        assert "no series can be exported: cannot be listed: Permission denied" in err
    else:
        assert status == 0
        assert {row["run"] for row in csv.DictReader(io.StringIO(out))} == {"a"}
        assert f"incomplete: cannot be listed: Permission denied ({logs / 'b'})" in err
