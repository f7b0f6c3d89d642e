"""One value of a metric for each run, and queries that ask for it."""

from pathlib import Path

import numpy as np
import pytest
from support.records import write_series

import stepscope as ss
from stepscope.serve.compare import CompareRequest, compare_answer
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.sweep import SweepRequest, sweep_of
from stepscope.serve.values import runs_found, values_answer

LOSSES = {
    "a": {"train/loss": [3.0, 1.0, 2.0], "eval/loss": [4.0, 0.4]},
    "b": {"train/loss": [3.0, 0.1, 0.2]},
    "c": {"train/loss": [1.0, float("nan")], "other/speed": [7.0]},
    "keras/train": {"epoch_loss": [0.9, 0.8]},
    "keras/validation": {"epoch_loss": [0.7, 0.9]},
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    root = tmp_path_factory.mktemp("runs")
    for run, series in LOSSES.items():
        write_series(root / run, series)
    desk = Desk(root, cache=False)
    desk.refresh()
    return desk


@pytest.mark.parametrize(
    ("metric", "reading", "values"),
    [
        ("loss", "last", {"a": 0.4, "b": 0.2, "c": "NaN"}),
        ("loss", "min", {"a": 0.4, "b": 0.1, "c": 1.0}),
        ("loss", "max", {"a": 4.0, "b": 3.0, "c": 1.0}),
        ("loss", "best", {"a": 0.4, "b": 0.1, "c": 1.0}),
        ("loss.max", "last", {"a": 4.0, "b": 3.0, "c": 1.0}),
        ("loss", "step", {"a": 4.0, "b": 3.0, "c": 1.0}),
        ("train/loss", "last", {"a": 2.0, "b": 0.2, "c": "NaN"}),
        ("speed", "last", {"c": 7.0}),
        ("speed", "best", {}),
        ("epoch_loss", "last", {"keras": 0.9}),
        ("nothing", "last", {}),
    ],
)
def test_a_run_is_judged_by_its_evaluation(
    desk: Desk, metric: str, reading: str, values: dict[str, object]
) -> None:
    answer = values_answer(desk, metric, reading)  # type: ignore[arg-type]
    found = {
        run: value if isinstance(value, str) else round(value, 6) for run, value in answer.values.items()
    }
    assert found == values


@pytest.mark.parametrize(
    ("query", "runs"),
    [
        ("loss<0.5", ["a", "b"]),
        ("loss.min<0.2", ["b"]),
        ("train/loss>1", ["a"]),
        ("loss:nan", ["c"]),
        ("-loss<0.5 -keras", ["c"]),
        ("nothing<1", []),
    ],
)
def test_a_query_asks_for_values_of_metrics(desk: Desk, query: str, runs: list[str]) -> None:
    assert [each.name for each in runs_found(desk, query)] == runs


def test_a_query_of_names_reads_no_other_facts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(desk, "summary", lambda run: asked.append(run.name) or summary(run))
    monkeypatch.setattr(desk, "charts", lambda: pytest.fail("no metric is asked for"))
    summary = Desk.summary.__get__(desk)
    assert [each.name for each in runs_found(desk, "a -keras")] == ["a"]
    assert asked == []
    assert runs_found(desk, "a -keras step>1000000") == []
    assert asked == ["a"]


def test_a_sweep_reads_the_same_values(desk: Desk) -> None:
    """A run that is parts alone, such as Keras', is one run and judged by its validation."""
    sweep = sweep_of(desk, SweepRequest("epoch_loss", ["keras"]))
    assert [(row.runs, row.mean) for row in sweep.rows] == [(["keras"], pytest.approx(0.9))]
    assert sweep.window == "mean of step 1"
    assert sweep_of(desk, SweepRequest("epoch_loss")).runs == 4


def test_a_setting_that_is_recorded_twice_is_one_column_of_a_sweep(tmp_path: Path) -> None:
    """One that goes with it, but has values of its own, is another."""
    for rate in (0.1, 0.01):
        groups = [{"lr": rate, "parameters": 7 * rate}]
        config = {"optimizer": {"groups": groups}, "lr": rate, "width": 8}
        with ss.Run(tmp_path / str(rate), config=config, card=False) as run:
            run.scalar("loss", rate, 0)
    desk = Desk(tmp_path, cache=False)
    desk.refresh()
    sweep = sweep_of(desk, SweepRequest("loss"))
    assert sorted(sweep.keys) == ["lr", "optimizer.groups.0.parameters"]
    assert sorted(one.key for one in sweep.settings) == [
        "lr", "optimizer.groups.0.lr", "optimizer.groups.0.parameters",
    ]  # fmt: skip
    assert sweep.rows[0].settings == {"lr": 0.01, "optimizer.groups.0.parameters": 0.07}


SWEEPS = {
    "a winner": ([0.2, 0.5, 0.9], 3, {}),
    "none": ([0.5, 0.5, 0.5, 0.5], 3, {}),
    "none of single runs": ([0.5, 0.5, 0.5], 1, {}),
    "single runs far apart": ([0.2, 0.9], 1, {}),
    "of different length": ([0.2, 0.5, 0.9], 3, {"0-1": 37, "1-0": 71, "2-2": 64, "2-1": 90}),
    "cut off": ([0.2, 0.5, 0.9], 2, {"0-0": 5, "0-1": 5}),
    "not finite": ([0.2, 0.5, 0.9], 3, {"0-2": -60, "2-0": -80}),
    "all not finite": ([0.2, 0.5], 2, {"0-2": -60, "0-0": -60, "0-1": -80, "1-0": -70}),
}


@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_says_what_a_comparison_says(tmp_path: Path, name: str, higher: bool) -> None:
    """Of the first configuration and each other, by the same values where all runs have these steps."""
    levels, seeds, ends = SWEEPS[name]
    random = np.random.default_rng(len(name))
    tag = "eval/accuracy" if higher else "eval/loss"
    for at, level in enumerate(levels):
        for seed in range(seeds):
            end = ends.get(f"{at}-{seed}", 100)
            offset = level + 0.05 * random.normal()
            values = offset + np.exp(-np.arange(abs(end)) / 20) + 0.01 * random.normal(size=abs(end))
            if end < 0:
                values[-1] = np.nan
            with ss.Run(
                tmp_path / f"{at}-{seed}", config={"lr": level, "at": at, "seed": seed}, card=False
            ) as run:
                for step, value in enumerate(values):
                    run.scalar(tag, float(value), step)
    desk = Desk(tmp_path, cache=False)
    desk.refresh()
    sweep = sweep_of(desk, SweepRequest())
    assert (len(sweep.rows), sweep.lower_is_better) == (len(levels), not higher)
    first = sweep.rows[0]
    for row in sweep.rows[1:]:
        if row.judgement is None:
            assert row.mean is None
            continue
        asked = CompareRequest(first.runs, row.runs, [sweep.chart])
        (compared,) = compare_answer(desk, asked).rows
        assert compared.judgement == row.judgement
        if not ends:
            assert (compared.judgement.a.mean, compared.judgement.b.mean) == (first.mean, row.mean)
            assert compared.judgement.window == sweep.window
    verdicts = {row.judgement.verdict for row in sweep.rows[1:] if row.judgement is not None}
    assert sweep.standing.startswith(("Best: ", "First: ")) == (verdicts == {"worse"})
    assert ("Best: " in sweep.standing) <= (seeds > 1)
