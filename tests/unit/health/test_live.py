"""Recorded trainings logged again: what is found live, written, and found afterwards agrees."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.clock import Time
from support.jobs import write_rank

import stepscope as ss
from stepscope import store
from stepscope.events.framing import frame
from stepscope.events.telemetry import ROWS, TelemetryRow, encoded
from stepscope.health import RULES
from stepscope.record.hooks.health import RankLosses, with_afterwards
from stepscope.serve.health import report_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "health_corpus"))
import corpus

HEALTHY = ("mlp-adam-constant-step", "cnn-norm-radam-restarts-step", "easy-ten-classes")
PLANTED = {each.planted["rule"]: each for each in corpus.trainings() if each.planted}
START = 1_700_000_000.0


def summary(findings):
    """What must be the same live, written, and afterwards."""
    return sorted((each.rule, each.tag, each.step, each.closed_step or -1, each.summary) for each in findings)


def judged(directory):
    with store.open(directory, cache=False) as log:
        run = log.run(".")
        return report_of(log, run).verdict, run.findings


def logged_again(training, directory):
    """Log the points of a recorded training at their times; return the hook that judged them."""
    series = [points for points in training.attempt.series if not points.run or points.split != "eval"]
    hook, time = ss.HealthHook(), Time(START)
    walls = np.concatenate([points.wall for points in series])
    which = np.repeat(np.arange(len(series)), [len(points.wall) for points in series])
    rows = np.concatenate([np.arange(len(points.wall)) for points in series])
    with ss.Run(directory, hooks=[hook], _clock=time.clock) as run:
        for at in np.argsort(walls, kind="stable"):
            points, row = series[which[at]], rows[at]
            time.now = float(walls[at])
            run.scalar(points.tag, float(points.value[row]), step=int(points.step[row]))
    return hook


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule in PLANTED])
def test_a_broken_training_is_found_alike_live_and_afterwards(rule, tmp_path):
    hook = logged_again(PLANTED[rule], tmp_path)
    afterwards, written = judged(tmp_path)
    assert rule in {each.rule for each in hook.findings}
    assert summary(hook.findings) == summary(afterwards.findings) == summary(written)
    assert hook.verdict.passed == afterwards.passed


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_is_left_alone_live_and_afterwards(name, tmp_path):
    hook = logged_again(next(each for each in corpus.trainings() if each.name == name), tmp_path)
    afterwards, written = judged(tmp_path)
    assert hook.findings == afterwards.findings == written == []
    # Only afterwards are histograms read: the live verdict says so of what it could not judge.
    live = [with_afterwards(abstention) for abstention in afterwards.abstained]
    assert replace(afterwards, abstained=live) == hook.verdict
    assert {"loss-spike", "gradient-spike"} <= set(afterwards.passed)


def job(directory, losses_of_rank_2, *, live):
    """Log the losses of three ranks, of which the hook reads the files each second."""
    time, hook, count = Time(START), ss.HealthHook(), len(losses_of_rank_2)
    losses = [0.3 + 2 * np.exp(-np.arange(count) / 80) + 0.03 * draw
              for draw in np.random.default_rng(0).normal(size=(2, count))]  # fmt: skip
    ranks = [
        ss.Run(directory, rank=rank, world_size=3, hooks=[hook] * (live and not rank), _clock=time.clock)
        for rank in range(3)
    ]
    for step, values in enumerate(zip(*losses, losses_of_rank_2, strict=True)):
        for run, loss in zip(ranks, values, strict=True):
            with run.step():
                run.scalar("train/loss", float(loss))
        time.now += 0.01
        if live and step % 100 == 99:
            for run in ranks:
                run.flush()
            hook.look(time.now)
    seen = list(hook.findings)
    for run in reversed(ranks):
        run.close()
    return seen, hook


FALLS = 0.3 + 2 * np.exp(-np.arange(900) / 80) + 0.03 * np.random.default_rng(2).normal(size=900)
APART = np.where(np.arange(900) < 150, FALLS, FALLS + 1.0)


@pytest.mark.parametrize("live", [True, False])
def test_a_rank_that_diverges_is_named(live, tmp_path):
    seen, hook = job(tmp_path, APART, live=live)
    verdict, written = judged(tmp_path)
    [finding] = [each for each in verdict.findings if each.rule == "rank-divergence"]
    assert finding.rank == 2
    assert 150 < finding.step <= 300
    if live:
        assert [each.rank for each in seen if each.rule == "rank-divergence"] == [2]
        assert summary(hook.findings) == summary(verdict.findings) == summary(written)


@pytest.mark.parametrize("live", [True, False])
def test_the_first_rank_with_a_nan_is_named(live, tmp_path):
    seen, _ = job(tmp_path, np.where(np.arange(600) == 40, np.nan, FALLS[:600]), live=live)
    findings = seen if live else judged(tmp_path)[0].findings
    [finding] = [each for each in findings if each.rule == "nonfinite-loss"]
    assert (finding.rank, finding.step) == (2, 40)
    assert "first on rank 2" in finding.summary


def test_slow_reading_of_ranks_pauses_but_not_at_the_end(tmp_path):
    """A look that took 0.1 s of a disk is followed by 5 s without one; the end hears all."""
    now = iter((10.0, 10.1, 14.9, 15.1, 15.2, 15.3, 15.4, 15.5))
    losses = RankLosses(str(tmp_path), lambda: next(now))
    path = write_rank(tmp_path, 1, 2, end=None)

    def steps(**more):
        return [news.step.tolist() for news in losses.news(1, **more)]

    def write(step):
        with path.open("ab") as file:
            file.write(frame(encoded(ROWS, [(step, TelemetryRow(1.0, loss=0.5, has_loss=True))], (0, 0))))

    write(0)
    assert steps() == [[0]]
    write(1)
    assert steps() == []
    assert steps() == [[1]]
    write(2)
    assert steps() == []
    assert steps(last=True) == [[2]]


def test_ranks_that_agree_are_left_alone(tmp_path):
    _, hook = job(tmp_path, FALLS[:400], live=True)
    verdict, _ = judged(tmp_path)
    assert verdict.findings == hook.findings == []
    assert "rank-divergence" in verdict.passed
    assert "rank-divergence" in hook.verdict.passed
