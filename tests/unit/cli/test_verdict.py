"""The verdict on a run is one sentence, the same in every command, on the card and on the page."""

import io
import json
import math

import pytest

import stepscope as ss
from stepscope import cli
from stepscope.cli import ls
from stepscope.record.card import OWNER
from stepscope.serve.health import report_of


def losses(step):
    return {"train/loss": 0.3 + 2 * math.exp(-step / 100) + 0.01 * math.sin(37 * step)}


def evaluated(step):
    return {**losses(step), **({"val/loss": losses(step)["train/loss"] + 0.01} if step % 20 == 0 else {})}


CASES = {
    "healthy": (lambda step: {**evaluated(step), "perf/step_time": 0.1}, 0, "healthy"),
    "no evaluation": (
        lambda step: {**losses(step), "perf/step_time": 0.1},
        1,
        "nothing wrong found; not judged: generalisation",
    ),
    "not finite": (
        lambda step: {"train/loss": losses(step)["train/loss"] if step < 500 else math.nan},
        0,
        "not finite: loss is not finite since step 500",
    ),
}


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A function that records a case, and returns the directory and the card."""
    monkeypatch.delenv(OWNER, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def record(name):
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        with ss.Run(tmp_path / "runs" / "a", card=True, hooks=[ss.HealthHook(stall=False)]) as run:
            for step in range(600):
                for tag, value in CASES[name][0](step).items():
                    run.scalar(tag, value, step=step)
        return str(tmp_path / "runs"), stream.getvalue().splitlines()

    return record


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_the_same_wherever_it_is_shown(recorded, capsys, name):
    _, unjudged, expected = CASES[name]
    directory, card = recorded(name)
    with ss.open(directory) as log:
        assert report_of(log, log.run("a")).outcome == expected
    assert f"health   {expected}" in [line for line in card if line.startswith("health")]
    needed = [
        line
        for line in card
        if line.startswith(("unknown  learns", "unknown  generalises", "unknown  steady"))
    ]
    # No times: none is said to be missing. A loss of NaN is the verdict already.
    assert len(needed) == unjudged
    cli.main(["ls", directory])
    assert capsys.readouterr().out.splitlines()[1].endswith(f"  {expected}")
    cli.main(["ls", directory, "--json"])
    run = json.loads(capsys.readouterr().out)["runs"][0]
    assert run["verdict"] == expected
    assert [each["question"] for each in run["coverage"]] == [
        "learns", "finite", "generalises", "steady", "cost",
    ]  # fmt: skip
    if name != "not finite":  # which ends the watch
        cli.main(["watch", directory, "--once"])
        assert capsys.readouterr().out.splitlines()[-1] == f"a: {expected}"


def test_large_runs_are_judged_when_asked(recorded, capsys, monkeypatch):
    directory, _ = recorded("healthy")
    monkeypatch.setattr(ls, "JUDGED", 100)
    cli.main(["ls", directory])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("  -")
    assert lines[2] == "health not judged: 1 run; ls --health judges all"
    cli.main(["ls", directory, "--json"])
    assert json.loads(capsys.readouterr().out)["runs"][0]["verdict"] is None
    cli.main(["ls", directory, "--health"])
    assert capsys.readouterr().out.splitlines()[1].endswith("  healthy")


@pytest.mark.slow
def test_many_runs_are_judged_for_a_second_unless_asked(tmp_path, capsys, monkeypatch):
    for number in range(ls.MIN_JUDGED + 2):
        with ss.Run(tmp_path / f"run-{number}") as run:
            run.scalar("train/loss", 1.0, 0)
    monkeypatch.setattr(ls, "JUDGED_S", 0.0)
    cli.main(["ls", str(tmp_path), "--json"])
    assert [each["verdict"] for each in json.loads(capsys.readouterr().out)["runs"]].count(None) == 2
    cli.main(["ls", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[-1] == "health not judged: 2 runs; ls --health judges all"
    cli.main(["ls", str(tmp_path), "--health"])
    assert "health not judged" not in capsys.readouterr().out
