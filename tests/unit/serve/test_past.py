"""A run against the finished runs of its log directory."""

import base64
import gzip
import json
import re

import numpy as np
import pytest

import stepscope as ss
from stepscope import cli, store
from stepscope.serve.findings import FindingAnswers
from stepscope.serve.health import report_of
from stepscope.serve.report import write_run


def train(directory, level, rate, *, seed, steps=120, close=True):
    rng = np.random.default_rng(seed)
    run = ss.Run(directory, config={"optimizer": {"lr": rate}, "seed": seed}, total_steps=steps)
    for step in range(steps if close else steps // 2):
        run.scalar("train/loss", level * (1 + step / 20) ** -0.5 * (1 + 0.02 * rng.normal()), step)
    if close:
        run.close()
    return run


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    root = tmp_path_factory.mktemp("past")
    for seed in range(9):
        train(root / f"run{seed}", 3.0 + 0.05 * seed, 1e-3, seed=seed)
    return root


def told(root, name):
    with store.open(root, cache=False) as log:
        found = report_of(log, log.run(name)).verdict.findings
    return [each for each in found if each.rule == "unlike-past-runs"]


@pytest.mark.slow
def test_a_run_that_is_elsewhere_is_told_with_what_differs(past):
    train(past / "strange", 5.0, 0.5, seed=3)
    [found] = told(past, "strange")
    assert found.severity == "info"
    assert found.step == 119
    assert "above all of the last 9 finished runs: they had 1.1" in found.summary
    assert found.causes[0] == "what differs: optimizer.lr 0.5 (they had 0.001)"
    assert "had reached this at step" in found.causes[1]


def test_a_run_that_is_as_the_others_were_is_not(past):
    train(past / "usual", 3.2, 1e-3, seed=99)
    assert told(past, "usual") == []


def test_a_run_slightly_outside_is_not(past):
    train(past / "slightly", 3.5, 1e-3, seed=98)
    assert told(past, "slightly") == []


def test_earlier_runs_are_not_compared_with_later_ones(past):
    assert told(past, "run8") == []  # of eight before it, too few differ; none of the later ones count


def test_too_few_runs_tell_nothing(tmp_path):
    for seed in range(5):
        train(tmp_path / f"run{seed}", 3.0, 1e-3, seed=seed)
    train(tmp_path / "strange", 9.0, 0.5, seed=3)
    assert told(tmp_path, "strange") == []


def falling(directory, *, seed, total=4000, done=None):
    run = ss.Run(directory, total_steps=total)
    rng = np.random.default_rng(seed)
    for step in range(done or total):
        run.scalar("train/loss", (2 + 5 * (step + 1) ** -0.5) * (1 + 0.02 * rng.normal()), step)
    run.flush()
    return run


def test_a_running_run_has_a_forecast(tmp_path):
    run = falling(tmp_path / "a", seed=0, done=2000)
    with store.open(tmp_path, cache=False) as log:
        report = report_of(log, log.run("a"))
    run.close()
    found = report.forecast["train/loss"]
    assert abs(found.value - (2 + 5 * 4000**-0.5)) < found.half
    assert "forecast: train/loss will end at 2.0" in report.text()
    assert "had reached this" not in report.text()
    assert report.as_dict()["forecast"]["train/loss"]["step"] == 3999
    with store.open(tmp_path, cache=False) as log:
        assert report_of(log, log.run("a")).forecast == {}  # it is over


def test_a_forecast_says_which_runs_had_come_so_far_and_when(tmp_path, capsys):
    falling(tmp_path / "longer", seed=1, total=9000).close()
    falling(tmp_path / "shorter", seed=2, total=400).close()
    run = falling(tmp_path / "now", seed=0, done=2000)
    try:
        with store.open(tmp_path, cache=False) as log:
            [found] = json.loads(FindingAnswers().answer("now", log))["forecast"]
            assert f" {found['figure']} at step " in found["text"]
            assert json.loads(FindingAnswers().answer("longer", log))["forecast"] == []
        assert cli.main(["watch", str(tmp_path), "--once", "--run", "now"]) == 0
        watched = capsys.readouterr().out
        assert cli.main(["advise", str(tmp_path), "--run", "now", "--json"]) == 0
        [advised] = json.loads(capsys.readouterr().out)["runs"]
        reported, _ = write_run(tmp_path, "now")
    finally:
        run.close()
    assert found["reached_run"] == ["longer"]
    [step] = found["reached_step"]
    assert 2500 < step < 6000
    assert found["text"].endswith(f"; longer had reached this at step {step:,}")
    assert (found["curve_step"][0], found["curve_step"][-1]) == (1999, 3999)
    truth = 2 + 5 * (np.array(found["curve_step"]) + 1) ** -0.5
    assert (np.array(found["curve_low"]) < truth).all()
    assert (np.array(found["curve_high"]) > truth).all()
    assert f"forecast: now: {found['text']}" in watched
    assert advised["forecast"]["train/loss"]["text"] == found["text"]
    [packed] = re.findall(rb'id="report">(.*?)</script>', reported)
    answers = json.loads(gzip.decompress(base64.b64decode(packed)))["answers"]
    [judged] = [each["json"] for each in answers if each["path"] == "findings"]
    assert [each["text"] for each in judged["forecast"]] == [found["text"]]
