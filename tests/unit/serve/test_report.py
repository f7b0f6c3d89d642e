"""A report: what it holds of a run or a profile, and what it must not hold."""

import base64
import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

import stepscope as ss
from stepscope import cli
from stepscope.errors import UnknownRunError
from stepscope.serve.report import SMOOTHED, file_name, write_profile, write_run
from stepscope.store import Log
from stepscope.store.annotations import Notes

HOSTILE = '</script><img src=x onerror="alert(1)">'
SECRET = "hf_" + "a" * 30
TRACE = Path(__file__).parents[2] / "data" / "traces" / "dlrm_8xv100" / "rank0.json.gz"


def held(report: bytes) -> dict:
    """Return what a report holds."""
    [packed] = re.findall(rb'<script type="text/plain" id="report">(.*?)</script>', report)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def answer(report: bytes, path: str, **query: str):
    """Return the answer to a question."""
    [found] = [
        each
        for each in held(report)["answers"]
        if each["path"] == path and query.items() <= each["query"].items()
    ]
    return found["json"]


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = {"lr": 0.1, "model": {"name": HOSTILE, "token": SECRET}, "layers": [1, 2]}
    with ss.Run(tmp_path / "logs" / "a", config=config, tags=["first"], total_steps=300) as run:
        for step in run.steps(range(300)):
            run.scalar("train/loss", float("nan") if step > 250 else 5 / (step + 1))
            run.scalar(HOSTILE, step)
            if step % 50 == 0:
                run.scalar("eval/loss", 6 / (step + 1))
        run.histogram("weights", [1.0, 2.0])
        run.text("notes", HOSTILE)
    with ss.Run(tmp_path / "logs" / "b") as run:
        run.scalar("loss", 1.0, 0)
        run.scalar("only b", 1.0, 0)
    for rank in range(2):
        with ss.Run(tmp_path / "logs" / "job", rank=rank, world_size=2) as run:
            for _ in run.steps(range(3)):
                run.scalar("train/loss", float(rank))
    return tmp_path / "logs"


def test_it_holds_all_of_its_run_and_nothing_of_others(logs):
    Notes(logs).change("a", title="The good one", note="why")
    report, _ = write_run(logs, "a")
    [run] = answer(report, "changes")["runs"]
    assert (run["name"], run["title"], run["note"], run["state"]) == ("a", "The good one", "why", "finished")
    assert run["config"]["layers"] == [1, 2]
    charts = answer(report, "changes")["charts"]
    assert "only b" not in str(charts)
    drawn = [{line["tag"] for line in each["request"]["lines"]} for each in held(report)["charts"]]
    assert drawn.count({"train/loss", "eval/loss"}) == len(SMOOTHED)
    assert len(drawn) == len(SMOOTHED) * len(charts)
    assert "nonfinite-loss" in {each["rule"] for each in answer(report, "findings", run="a")["findings"]}
    assert answer(report, "record", tag="notes")["series"][0]["values"][0]["texts"] == [HOSTILE]
    assert set(held(report)["pages"]) == {"overview", "scalars", "distributions", "text"}
    assert answer(report, "access")["changes"] is False


def test_a_table_is_held_once_over_all_its_steps(tmp_path):
    with ss.Run(tmp_path / "a") as run:
        for step in range(3):
            run.table("t", [{"reward": step}], step)
    report = write_run(tmp_path, "a")[0]
    assert [row["cells"] for row in answer(report, "table", tag="t/table")["rows"]] == [[2], [1], [0]]
    asked = [(each["path"], each["query"].get("tag")) for each in held(report)["answers"]]
    assert not {("record", "t"), ("record", "t/table")} & set(asked)


def test_what_others_wrote_stands_in_no_markup_and_no_secret_leaves(logs):
    report, _ = write_run(logs, "a")
    assert HOSTILE.encode() not in report
    assert SECRET not in json.dumps(held(report))
    assert "[scrubbed]" in json.dumps(held(report))
    assert b"default-src 'none'" in report


def test_the_ranks_of_a_job_are_a_page(logs):
    report, _ = write_run(logs, "job")
    assert "ranks" in held(report)["pages"]
    assert [each["rank"] for each in answer(report, "ranks", run="job")["ranks"]] == [0, 1]
    assert "ranks" not in held(write_run(logs, "b")[0])["pages"]


def test_a_run_that_is_not_there(logs):
    with pytest.raises(UnknownRunError):
        write_run(logs, "gone")


@pytest.mark.slow
def test_a_profile_is_held_without_what_lies_beside_it(tmp_path):
    shutil.copy(TRACE, tmp_path / "step.json.gz")
    (tmp_path / "other.json").write_text('{"traceEvents": []}')
    report = write_profile([tmp_path / "step.json.gz"])
    assert held(report)["pages"] == ["profile"]
    assert held(report)["opens"] == "profile?prof=step.json.gz"
    assert [each["path"] for each in answer(report, "profiles")["profiles"]] == ["step.json.gz"]
    assert answer(report, "profile")["format"] == "kineto"
    assert {"scope", "op"} <= {
        each["query"]["view"]
        for each in held(report)["answers"]
        if each["path"] == "view" and "status" not in each
    }
    refused = [each for each in held(report)["answers"] if each.get("status")]
    assert all(each["json"]["error"] for each in refused)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.json", "step.json.gz"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a", "a.html"), ("x/\r\ny", "x-y.html"), ('"; evil', "evil.html"), ("..", "run.html")],
)
def test_the_name_of_the_file_is_harmless(name, expected):
    assert file_name(name) == expected


@pytest.mark.slow
def test_the_command(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened, begin = [], Log.__init__

    def counted(log, *arguments, **options):
        opened.append(log)
        begin(log, *arguments, **options)

    monkeypatch.setattr(Log, "__init__", counted)
    assert cli.main(["report", str(logs), "b"]) == 0
    assert len(opened) == 1, "the log is read once"
    assert cli.main(["report", str(logs / "gone")]) == 1
    assert "no such log directory" in capsys.readouterr().err
    assert cli.main(["report", str(logs), "b"]) == 0
    assert capsys.readouterr().out == "written to b.html\n"
    assert cli.main(["report", str(logs / "b"), "-o", "c.html", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written == {"written": "c.html", "bytes": (tmp_path / "c.html").stat().st_size}
    assert cli.main(["report", str(logs)]) == 1
    assert "name one of: a, b, job" in capsys.readouterr().err
    assert cli.main(["report", str(logs), "b", "-o", "no/such/place.html"]) == 1
    assert "cannot write the report" in capsys.readouterr().err
    assert cli.main(["advise", str(TRACE), "--no-cache", "--html", "profile.html"]) == 0
    assert held((tmp_path / "profile.html").read_bytes())["pages"] == ["profile"]
