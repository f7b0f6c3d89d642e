"""One verdict: the page, agents and ``stepscope check`` judge the same recorded runs alike."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from support.records import write_series

import stepscope as ss
from stepscope.serve.check import checks_of, side_of
from stepscope.serve.compare import (
    CompareRequest,
    Comparison,
    OwnChart,
    OwnLine,
    compare_answer,
    configured,
)
from stepscope.serve.questions.declare import answered
from stepscope.serve.questions.desk import Desk

TAG = "eval/loss"
SPREAD = (0.0, 0.01, -0.01, 0.005, -0.005)
NOISY = (0.0, 0.3, -0.3, 0.2, -0.2)
Curve = Callable[[int], float]
NAN = math.nan


def falling(end: float) -> Curve:
    """Return a loss that falls on both sides: at the same steps that is no spread."""
    return lambda step: end + 2 / (1 + step)


def until(last: int, curve: Curve) -> Curve:
    """Return a curve that is NaN after a step."""
    return lambda step: curve(step) if step <= last else NAN


def group(level: float, spread: tuple[float, ...] = SPREAD) -> list[Curve]:
    return [falling(level + noise) for noise in spread]


def write(place: Path, curves: list[Curve], *, steps: int = 40, tag: str = TAG) -> None:
    for number, curve in enumerate(curves):
        write_series(place / f"run-{number}", {tag: map(curve, range(steps))})


def alternating(level: float) -> Curve:
    return lambda step: level + (0.2 if step % 2 else -0.2)


def page(desk: Desk) -> Comparison:
    names = [run.base for run in desk.runs()]
    sides = ([name for name in names if name.startswith(f"{side}/")] for side in "ab")
    return compare_answer(desk, CompareRequest(*sides, [chart.id for chart in desk.charts()]))


CASES: dict[str, tuple[list[Curve], list[Curve], int, str, str, str]] = {
    # name: A, B, steps, the word of the page, that of agents, the status of the check
    "better": (group(1.0), group(0.8), 40, "better", "B is better", "passed"),
    "worse": (group(1.0), group(1.2), 40, "worse", "A is better", "failed"),
    "noise": (group(1.0, NOISY), group(1.05, NOISY), 40, "within the runs' spread", "", "cannot tell"),
    "equal": (group(1.0), group(1.0), 40, "the same", "", "passed"),
    "lost": (group(1.0), [*group(1.0)[1:], until(20, falling(1.0))], 40, "worse", "A is better", "failed"),
    "lost before": (
        [until(20, falling(1.0)), *group(1.0)],
        group(1.0),
        40,
        "better",
        "B is better",
        "passed",
    ),
    "all lost": ([falling(1.0)], [lambda step: NAN], 40, "worse", "A is better", "failed"),
    "single": ([falling(1.0)], [falling(1.5)], 40, "worse", "A is better", "cannot tell"),
    "crossing": ([alternating(1.0)], [lambda _: 1.02], 40, "within the steps' noise", "", "cannot tell"),
    "few": ([falling(1.0)], [falling(1.5)], 6, "too few values to tell", "", "cannot tell"),
}


@pytest.mark.parametrize("case", CASES)
def test_all_that_judge_agree(case: str, tmp_path: Path) -> None:
    a, b, steps, word, told, status = CASES[case]
    write(tmp_path / "a", a, steps=steps)
    write(tmp_path / "b", b, steps=steps)
    desk = Desk(tmp_path, cache=False)
    [row] = page(desk).rows
    answer = answered("compare", desk, {"a": "run:a/*", "b": "run:b/*"}, 4000)
    desk.close()
    [curves] = [table for table in answer.tables if table.name.startswith("curves")]
    [check] = checks_of(*(side_of(str(tmp_path / side), ".", cache=False) for side in "ab"), only=["metric"])
    one = row.judgement
    assert one.word == word
    [(tag, mean_a, mean_b, _, *verdict)] = curves.rows
    assert (tag, *verdict) == (TAG, told or word, one.why)
    assert [mean_a, mean_b] == [side.mean and pytest.approx(side.mean, rel=1e-3) for side in (one.a, one.b)]
    assert check.status == status
    if one.chance == "runs" or word == "the same":
        assert check.verdict == word
    if check.status == "failed":
        assert one.verdict == "worse"


def test_what_one_side_recorded_alone_is_not_judged(tmp_path: Path) -> None:
    write(tmp_path / "a", group(1.0))
    write(tmp_path / "b", group(1.0), tag="train/accuracy")
    desk = Desk(tmp_path, cache=False)
    assert page(desk).rows == []
    answer = answered("compare", desk, {"a": "run:a/*", "b": "run:b/*"}, 4000)
    desk.close()
    assert not any(table.name.startswith("curves") for table in answer.tables)
    [check] = checks_of(*(side_of(str(tmp_path / side), ".", cache=False) for side in "ab"), only=["metric"])
    assert check.status == "cannot tell"


def test_the_largest_difference_leads_and_a_lost_value_comes_first(tmp_path: Path) -> None:
    for side, factor in (("a", 1.0), ("b", 2.0)):
        values = {
            "eval/loss": 0.5 * (1 + factor),
            "train/accuracy": 0.9 / (4 * factor),
            "lr": factor,
            "speed/step_time_ms": 10.0 + 0.01 * factor,
            "weights/norm": 100 * factor**6,
        }
        lost = [NAN if side == "b" and step > 30 else 1.0 for step in range(40)]
        series = {tag: [value] * 40 for tag, value in values.items()}
        write_series(tmp_path / side, {**series, "train/aux_loss": lost})
    desk = Desk(tmp_path, cache=False)
    answer = compare_answer(desk, CompareRequest(["a"], ["b"], [chart.id for chart in desk.charts()]))
    desk.close()
    leads = [answer.rows[place].tag for place in answer.leads]
    assert leads == ["train/aux_loss", "train/accuracy", "eval/loss", "weights/norm"]
    by_tag = {row.tag: row for row in answer.rows}
    assert not by_tag["lr"].result
    assert by_tag["lr"].judgement.verdict == "changed"
    assert by_tag["speed/step_time_ms"].judgement.verdict == "worse"  # and too small to lead


def test_a_chart_that_a_user_makes_is_judged_by_its_expression(tmp_path: Path) -> None:
    write(tmp_path / "a", [falling(1.0)])
    write(tmp_path / "b", [falling(3.0)])
    desk = Desk(tmp_path, cache=False)
    own = OwnChart("own:x", [OwnLine("eval/loss * 2", expression=True)])
    answer = compare_answer(desk, CompareRequest(["a/run-0"], ["b/run-0"], [], [own]))
    desk.close()
    [row] = answer.rows
    assert (row.chart, row.judgement.verdict) == ("own:x", "changed")
    assert row.judgement.difference == pytest.approx(4.0)


@pytest.fixture
def sweep(tmp_path: Path) -> Desk:
    def write(name: str, values: dict[str, list[float]], config: dict[str, object]) -> None:
        with ss.Run(tmp_path / name, config=config, card=False, handle_sigterm=False) as run:
            for tag, column in values.items():
                for step, value in enumerate(column):
                    run.scalar(tag, value, step)

    for rate, loss in ((0.1, 1.0), (0.2, 0.5), (0.3, 0.99)):
        for seed in range(3):
            values = {TAG: [3.0, 2.0, loss + 0.02 * seed], "speed/step_time_ms": [10.0 + seed] * 20}
            write(f"{rate}-{seed}", values, {"lr": rate, "opt": {"seed": seed}})
    write("plain-0", {TAG: [1.0]}, {})
    write("plain-1", {TAG: [1.0]}, {})
    return Desk(tmp_path, cache=False)


def asked(desk: Desk, a: str, b: str) -> Comparison:
    charts = [chart.id for chart in desk.charts()]
    metric = next(chart.id for chart in desk.charts() if chart.lines[0].tag == TAG)
    return compare_answer(desk, CompareRequest([a], [b], charts, metric=metric))


def test_all_seeds_settle_what_two_runs_leave_open(sweep: Desk) -> None:
    seeds = asked(sweep, "0.1-0", "0.2-1").seeds
    assert seeds is not None
    assert (seeds.a, seeds.b) == (["0.1-0", "0.1-1", "0.1-2"], ["0.2-0", "0.2-1", "0.2-2"])
    assert seeds.metric.judgement.verdict == "better"
    unsettled = asked(sweep, "0.1-0", "0.3-1").seeds
    assert unsettled is not None
    assert unsettled.metric.judgement.verdict == "noise"
    assert asked(sweep, "0.1-0", "0.1-1").seeds is None


def test_one_seed_a_side_of_one_configuration_has_no_winner_in_how_it_learns(
    sweep: Desk, tmp_path: Path
) -> None:
    runs = {run.base: run for run in sweep.runs()}

    def same(*names: str) -> bool:
        return configured(sweep, [[runs[names[0]]], [runs[name] for name in names[1:]]]).same

    assert same("0.1-0", "0.1-1")
    assert same("0.1-0", "0.1-1", "0.1-2")
    assert not same("0.1-0", "0.2-1")
    assert not same("0.1-0", "0.1-0")  # what differs is no chance between seeds
    assert not same("plain-0", "plain-1")
    [speed] = [row for row in asked(sweep, "0.1-0", "0.1-1").rows if row.tag.startswith("speed")]
    assert speed.judgement.verdict == "worse"
    for seed in range(2):
        with ss.Run(
            tmp_path / f"long-{seed}", config={"seed": seed}, card=False, handle_sigterm=False
        ) as run:
            for step in range(40):
                run.scalar(TAG, 1.0 + seed, step)
    sweep.refresh()
    [loss] = [row for row in asked(sweep, "long-0", "long-1").rows if row.tag == TAG]
    assert (loss.judgement.word, loss.judgement.leads) == ("may be chance between seeds", False)
