"""Causes from the newest profile of a run, beside findings about its series."""

import json

import pytest
from support.records import write_scalars

from stepscope.cli import main
from stepscope.cli.causes import causes_of
from stepscope.health.finding import Finding

BOUND = {
    "rule": "input-bound",
    "severity": "high",
    "summary": "the step waits for data for 24.5 ms of 38.1 ms a step",
    "action": "load in parallel and ahead",
    "gain_ratio": 0.64,
    "place": {"file": "/home/me/train.py", "line": 13},
}
NOTE = {**BOUND, "rule": "expensive-operation", "severity": "info", "gain_ratio": None}


def captured(run, advice=None, step=5):
    """A run with a profile, analysed unless there is no advice."""
    folder, name = run / "profiles", f"chief_rank0_step{step:08}"
    folder.mkdir(parents=True, exist_ok=True)
    trace, summary = f"profiles/{name}.json", f"profiles/{name}.summary.json"
    (run / trace).write_text("{}")
    facts = {
        "rank": 0,
        "name": name,
        "steps": [step],
        "wall": 100.0 + step,
        "path": trace,
        "summary": summary,
    }
    (folder / f"{name}.profile.json").write_text(json.dumps(facts))
    if advice is not None:
        (run / summary).write_text(json.dumps({"advice": advice, "verdict": "no known cause above 3 %"}))
    return run / trace


def told(capsys, *words):
    assert main(["advise", *map(str, words), "--no-cache"]) == 0
    return capsys.readouterr().out


@pytest.fixture
def run(tmp_path):
    write_scalars(tmp_path / "slow", [3.0 * 0.99**step for step in range(300)])
    return tmp_path / "slow"


def test_advice_on_a_run_ends_with_that_of_its_newest_profile(run, capsys):
    captured(run, [])
    trace = captured(run, [NOTE, BOUND], step=90)
    text = told(capsys, run)
    assert text.startswith("slow, attempt 1: nothing wrong found")
    assert text.splitlines()[-3:] == [
        "high   input-bound: the step waits for data for 24.5 ms of 38.1 ms a step",
        "       do: train.py:13 · load in parallel and ahead",
        f"       see: stepscope advise {trace} -v",
    ]
    profile = json.loads(told(capsys, run.parent, "--run", "slow", "--json"))["runs"][0]["profile"]
    assert profile == {"path": str(trace), "findings": [NOTE, BOUND], "lacking": ""}


def test_a_profile_without_a_cause_or_an_analysis_says_so(run, capsys):
    assert json.loads(told(capsys, run, "--json"))["runs"][0]["profile"] is None
    captured(run, [NOTE])
    assert "the causes: no known cause above 3 %\n" in told(capsys, run)
    captured(run, step=90)
    assert "the causes: the profile is not analysed yet\n" in told(capsys, run)
    assert "causes" not in told(capsys, run, "--attempt", "1")


@pytest.mark.parametrize(
    ("advice", "rule", "left"),
    [(BOUND, "data-wait", 0), (BOUND, "slower-steps", 1), ({**BOUND, "severity": "info"}, "data-wait", 1)],
    ids=["the same", "another", "a note"],
)
def test_a_cause_that_a_profile_names_is_told_once(run, advice, rule, left):
    captured(run, [advice])
    said = "40% of the step time is waiting for data"
    finding = Finding(rule, "high", "", said, "speed/data_wait_ms", "", None, None, 10, 10, 1.0)
    assert len(causes_of(run).untold([finding])) == left
