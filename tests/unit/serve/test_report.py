import json
import re

import pytest

import stepscope as ss
from stepscope import cli, store
from stepscope.errors import UnknownRunError
from stepscope.serve.reply import Refusal
from stepscope.serve.report import MOST_CHARTS, report
from stepscope.serve.report_file import answer
from stepscope.store.annotations import Notes, RunNote

HOSTILE = '<img src=x onerror="alert(1)">'
SECRET = "hf_" + "a" * 30


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = {"lr": 0.1, "model": {"name": HOSTILE, "token": SECRET}, "layers": [1, 2]}
    with ss.Run(tmp_path / "logs" / "a", config=config, tags=["first"], total_steps=300) as run:
        for step in run.steps(range(300)):
            run.scalar("train/loss", float("nan") if step > 250 else 5 / (step + 1))
            run.scalar(HOSTILE, step)
            for number in range(20):
                run.scalar(f"other/{number}", step)
            if step % 50 == 0:
                run.scalar("eval/loss", 6 / (step + 1))
    with ss.Run(tmp_path / "logs" / "b") as run:
        run.scalar("loss", 1.0, 0)
    for rank in range(2):
        with ss.Run(tmp_path / "logs" / "job", rank=rank, world_size=2) as run:
            for _ in run.steps(range(3)):
                run.scalar("train/loss", float(rank))
    return tmp_path / "logs"


@pytest.fixture
def log(logs):
    with store.open(logs) as log:
        yield log


def test_what_a_report_holds(log):
    text = report(log, "a", RunNote(title="The good one", note="why", tags=("paper",)))
    assert "<h1>The good one</h1>" in text
    for words in (
        "why",
        "paper",
        "299 of 300",
        "Loss is not finite",
        "since step 251",
        "model.name",
        "[1, 2]",
    ):
        assert words in text, words
    assert "Could not tell" in text
    assert len(re.findall(r'<figure class="chart">', text)) == MOST_CHARTS
    left = int(re.search(r"([\d,]+) further charts", text)[1])
    shown = {each.id for each in store.charts(log) if each.section != "stepscope"}
    tags = set(log.run("a").tags())
    own = [
        each
        for each in store.charts(log)
        if each.id in shown and any(line.tag in tags for line in each.lines)
    ]
    assert left == len(own) - MOST_CHARTS
    assert "train NaN" in text
    assert "eval 0.0239" in text


def test_nothing_runs_nothing_is_loaded_and_no_secret_leaves(log):
    text = report(log, "a", RunNote(note=HOSTILE, title=HOSTILE))
    assert "<img" not in text
    assert "<script" not in text
    assert SECRET not in text
    assert "[scrubbed]" in text
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=", text.replace("&quot;", "").replace("src=x", ""))


def test_what_was_not_recorded_is_said(log):
    text = report(log, "b", RunNote())
    for words in ("captured no profiles", "A single process", "No config", "every record was read"):
        assert words in text, words


def test_ranks_of_a_job(log):
    assert "rank 1, finished" in report(log, "job", RunNote())


def test_a_run_that_is_not_there(log):
    with pytest.raises(UnknownRunError):
        report(log, "gone", RunNote())
    with pytest.raises(Refusal) as found:
        answer("gone", log)
    assert found.value.status == 404


@pytest.mark.parametrize(
    ("name", "file_name"), [("a", "a.html"), ("x/\r\ny", "x-y.html"), ('"; evil', "evil.html")]
)
def test_the_name_of_the_file_is_harmless(tmp_path, name, file_name):
    with ss.Run(tmp_path / name) as run:
        run.scalar("loss", 1.0, 0)
    with store.open(tmp_path, cache=False) as log:
        assert answer(log.runs()[0].name, log).file_name == file_name


def test_the_command(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Notes(logs).change("b", title="Named")
    assert cli.main(["report", str(logs), "b"]) == 0
    assert capsys.readouterr().out == "written to b.html\n"
    assert "<h1>Named</h1>" in (tmp_path / "b.html").read_text()
    assert cli.main(["report", str(logs / "b"), "-o", "c.html", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"written": "c.html", "bytes": (tmp_path / "c.html").stat().st_size}
    assert cli.main(["report", str(logs)]) == 1
    assert "name one of: a, b, job" in capsys.readouterr().err
    assert cli.main(["report", str(logs), "b", "-o", "no/such/place.html"]) == 1
