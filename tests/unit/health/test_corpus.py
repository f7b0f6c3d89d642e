"""How right the rules are on the recorded trainings of the corpus, and all that they find in each."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.findings import line_of

from stepscope.health import RULES, Monitor, Verdict
from stepscope.health.looks import Row

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "health_corpus"))
import corpus

TRAININGS = corpus.trainings()


@cache
def verdict_of(name: str) -> Verdict:
    return corpus.judge(next(each for each in TRAININGS if each.name == name).attempt)


def test_the_corpus_is_what_it_says():
    assert sum(each.planted is None for each in TRAININGS) >= 120
    assert sum(each.planted is not None for each in TRAININGS) >= 60
    assert len({each.name for each in TRAININGS}) == len(TRAININGS)
    assert {each.rhythm for each in TRAININGS} == {"step", "every", "epoch", "evaluation", "minute"}
    assert {each.split for each in TRAININGS} == {"tune", "judge", "fresh"}
    planted = {each.planted["rule"] for each in TRAININGS if each.planted}
    rows = {name for name, rule in RULES.items() if issubclass(rule, Row)}
    assert set(RULES) - rows - {"rank-divergence", "nonfinite-series"} <= planted <= set(RULES)
    assert all(each.attempt.series for each in TRAININGS)
    size = sum(path.stat().st_size for path in (corpus.HERE / "runs").iterdir())
    assert size < 6 << 20


@pytest.mark.slow
@pytest.mark.parametrize("split", ["tune", "judge", "fresh"])
def test_healthy_trainings_are_left_alone_and_broken_ones_are_found(split):
    result = corpus.Score()
    for each in corpus.trainings(split):
        result.add(each, verdict_of(each.name))
    told = "\n".join(corpus.table(result))
    assert result.high == [], told
    assert len(result.false) <= 0.01 * (result.healthy + result.planted), told
    assert result.recall >= 0.97, told


TASKS = sorted({each.name.partition("-")[0] for each in TRAININGS})


@pytest.mark.parametrize("task", TASKS)
def test_what_is_found_in_each_training(task, approved):
    lines = []
    for each in TRAININGS:
        if each.name.partition("-")[0] == task:
            findings = verdict_of(each.name).findings
            start = min(points.wall[0] for points in each.attempt.series)
            lines += [each.name, *(f"   {line_of(finding, start)}" for finding in findings)]
    approved.check("health_corpus", task, "\n".join(lines))


def test_each_task_is_approved(approved):
    approved.check_names("health_corpus", TASKS)


@pytest.mark.parametrize("training", TRAININGS[::9], ids=lambda each: each.name)
def test_a_training_is_judged_alike_while_it_is_recorded(training):
    series = training.attempt.series
    several = len({points.run for points in series}) > 1
    times = np.sort(np.concatenate([points.wall for points in series]))
    monitor = Monitor()
    done = [0] * len(series)
    for cut in [*np.quantile(times, np.linspace(0.02, 0.98, 40)).tolist(), float("inf")]:
        for at, points in enumerate(series):
            end = len(points.wall) if cut == float("inf") else int(np.searchsorted(points.wall, cut))
            rows = slice(done[at], end)
            columns = points.step[rows], points.value[rows], points.wall[rows]
            run = points.run if several else ""
            monitor.take(points.tag, *columns, rank=points.rank, run=run, split=points.split)
            done[at] = max(done[at], end)
        monitor.advance(cut)
    monitor.finish()
    assert repr(monitor.verdict) == repr(verdict_of(training.name))
