import math
from typing import Any

import numpy as np
import pytest

from stepscope.analyze.importance import SettingGroup, importances
from stepscope.analyze.judgement import NOISE, Curve, judge, shared_half, student_quantile
from stepscope.analyze.sweep import configurations, judge_rows, ranked, standing

NAN = math.nan
RUNS = NOISE["runs"]
RATES = [1e-4, 3e-4, 1e-3, 3e-3]


def crossed(**settings: list[Any]) -> list[dict[str, Any]]:
    """Return the configs of a grid."""
    configs: list[dict[str, Any]] = [{}]
    for key, values in settings.items():
        configs = [{**config, key: value} for config in configs for value in values]
    return configs


def numbered(configs: list[dict[str, Any]], key: str, of: Any) -> list[dict[str, Any]]:
    """Return configs with a setting that has a value of its own in each."""
    return [{**config, key: of(at)} for at, config in enumerate(configs)]


REPEATED = [config for config in crossed(lr=RATES) for _ in range(3)]


@pytest.mark.parametrize(
    ("configs", "keys", "seeds", "sizes"),
    [
        pytest.param(crossed(lr=RATES, seed=[0, 1, 2]), ["lr"], ["seed"], [3] * 4, id="named"),
        pytest.param(REPEATED, ["lr"], [], [3] * 4, id="recorded without a seed"),
        pytest.param(numbered(REPEATED, "job", lambda at: 71 * at), ["lr"], ["job"], [3] * 4, id="a number"),
        pytest.param(
            numbered(REPEATED, "out", lambda at: f"runs/{at}"), ["lr"], ["out"], [3] * 4, id="a folder"
        ),
        pytest.param(crossed(lr=RATES, width=[64, 128, 256]), ["lr", "width"], [], [1] * 12, id="a grid"),
        pytest.param(
            numbered(crossed(opt=["adam", "sgd"], n=[0] * 6), "lr", lambda at: 1e-4 * 1.7**at),
            ["opt", "lr"],
            [],
            [1] * 12,
            id="a drawn rate",
        ),
        pytest.param(
            numbered([{}] * 9, "width", lambda at: 8 * at), ["width"], [], [1] * 9, id="one setting"
        ),
        pytest.param(
            [{"lr": 0.1, "opt": "a"}, {"lr": 0.1, "opt": "b"}, {"lr": 0.2, "opt": "c"}],
            ["lr", "opt"],
            [],
            [1] * 3,
            id="too few runs to call a text a name",
        ),
        pytest.param([{}] * 5, [], [], [1] * 5, id="nothing recorded"),
        pytest.param([{"lr": 1}, {"lr": True}, {}], ["lr"], [], [1] * 3, id="values of other types"),
        pytest.param(crossed(lr=[0.1], seed=[1, 2]), [], ["seed"], [2], id="seeds alone"),
    ],
)
def test_configurations(configs: Any, keys: list[str], seeds: list[str], sizes: list[int]) -> None:
    grouping = configurations(configs)
    assert (grouping.keys, list(grouping.seeds), [len(runs) for runs in grouping.members]) == (
        keys,
        seeds,
        sizes,
    )


SEEDS = "within chance between 3 and 3 runs"


@pytest.mark.parametrize(
    ("values", "lower", "order", "sentence"),
    [
        ([[1.0, 1.1, 0.9], [5, 5.1, 4.9]], True, "AB", "Best: A. It is better than B, by more than chance"),
        ([[1.0, 1.1, 0.9], [5, 5.1, 4.9]], False, "BA", "Best: B."),
        (
            [[1.0, 1.1, 0.9], [5, 5.1, 4.9]],
            None,
            "AB",
            "Whether low or high values are better is not known",
        ),
        ([[1.0, 1.4, 0.6], [1.1, 1.3, 0.7]], True, "AB", f"No winner between A and B: {RUNS}, {SEEDS}"),
        ([[1.0, 1.4], [1.1, 1.35], [0.9, 1.6]], True, "ABC", f"No winner between A and 2 others: {RUNS}"),
        (
            [[1.0, 1.1, 0.9], [1.5, 1.51, 1.49], [1.6, 3.0, 0.5], [1.7, 3.2, 0.5]],
            True,
            "ABCD",
            f"No winner between A and 2 others: {RUNS}",
        ),
        ([[0.1, NAN, 0.1], [5, 5.1, 4.9]], True, "BA", "Best: B."),
        ([[NAN, 1.0], [NAN, 2.0]], True, "AB", "Every configuration has runs that are not finite. First: A."),
        (
            [[1.0], [2.0]],
            True,
            "AB",
            "First: A. It is better than B, but both ran once, so other seeds may differ",
        ),
        ([[1.0], [2.0, 2.0], [9.0]], True, "ABC", "First: A. It is better than every other, but some ran"),
        ([[1.0], [1.1, 1.3], [9.0]], True, "ABC", f"No winner between A and B: {RUNS}"),
        ([[1.0, 1.1, 0.9], [50.0]], True, "AB", "Best: A."),
        ([[1.0, 1.1, 0.9], [1.2]], True, "AB", "No winner between A and B"),
        ([[1.0, 1.0], [1.0, 1.0]], True, "AB", "No winner between A and B: the same, the values are equal"),
        ([[1.0, 1.2], [None]], True, "AB", "Only A has"),
        (
            [[1.0, 1.1], [5.0, 5.1], [None]],
            True,
            "ABC",
            "Best: A. It is better than every other with a value",
        ),
        ([[None], [None]], True, "AB", "No run has a finite value"),
    ],
)
def test_the_best_configuration(
    values: list[list[float | None]], lower: bool | None, order: str, sentence: str
) -> None:
    members, flat = [], []
    for own in values:
        members.append(list(range(len(flat), len(flat) + len(own))))
        flat += own
    rows = ranked(members, flat, lower)
    names = ["ABCD"[members.index(row.runs)] for row in rows]
    assert "".join(names) == order
    steps = np.arange(20)
    curves = [None if value is None else Curve(steps, np.full(20, value)) for value in flat]
    if lower is not None:
        judge_rows(rows, curves, lower)
    assert standing(rows, names, lower).startswith(sentence)


def test_runs_that_end_early_have_no_value_and_others_one_of_the_same_steps() -> None:
    steps = np.arange(100)
    long = [Curve(steps, 1.0 * steps), Curve(steps[:90], 2.0 * steps[:90])]
    short = Curve(steps[:10], np.ones(10))
    lost = Curve(steps, np.where(steps == 99, NAN, 1.0))
    values, window = shared_half([*long, short, lost, None])
    assert window is not None
    assert window.text() == "mean of steps 45\N{EN DASH}89"
    assert values[:3] == [67.0, 134.0, None]
    assert values[3] is not None
    assert math.isnan(values[3])
    assert values[4] is None
    one = judge(long[:1], long[1:], lower=True)
    assert one is not None
    assert (one.a.mean, one.b.mean, one.window) == (67.0, 134.0, window.text())
    assert shared_half([lost, None]) == ([pytest.approx(NAN, nan_ok=True), None], None)


@pytest.mark.parametrize(("size", "free"), [(12.706, 1), (4.3027, 2), (2.2281, 10), (1.984, 100)])
def test_student(size: float, free: float) -> None:
    assert student_quantile(free) == pytest.approx(size, rel=1e-3)


def swept(random: np.random.Generator, *, acts: bool) -> tuple[list[dict[str, Any]], list[float]]:
    """Return a sweep of 20 configurations of 3 seeds: they differ, by their rate if it acts."""
    configs, values = [], []
    for _ in range(20):
        config = {
            "lr": float(10 ** random.uniform(-5, -1)),
            "width": int(random.choice([128, 256, 512])),
            "dropout": float(random.uniform(0, 0.5)),
            "optimizer": str(random.choice(["adamw", "sgd", "lion"])),
        }
        level = 3 * abs(np.log10(config["lr"]) + 3) if acts else 0.0
        level += random.normal()
        for seed in range(3):
            configs.append({**config, "seed": seed})
            values.append(level + 0.1 * random.normal())
    return configs, values


def test_seeds_do_not_make_a_setting_important() -> None:
    random = np.random.default_rng(3)
    without = [importances(*swept(random, acts=False)) for _ in range(40)]
    assert sum(any(one.told for one in sweep.settings) for sweep in without) <= 4  # 19 of 20 say nothing
    assert {(sweep.units, sweep.runs) for sweep in without} == {(20, 60)}
    acting = [importances(*swept(random, acts=True)) for _ in range(20)]
    assert sum(sweep.settings[0].key == "lr" and sweep.settings[0].told for sweep in acting) >= 18


def test_what_importance_says_of_a_setting() -> None:
    configs = crossed(lr=RATES, wd=[0, 1], opt=["adam", "sgd"], seed=[0, 1])
    for config in configs:
        config |= {"fast": config["opt"] == "sgd", "name": f"{config['lr']} {config['wd']} {config['opt']}"}
    values = [1.0 if config["opt"] == "adam" else 2.0 for config in configs]
    sweep = importances(configs, [*values[:-1], NAN])
    assert (sweep.units, sweep.runs) == (16, 31)
    facts = {one.key: (one.told, one.alike, one.reason) for one in sweep.settings}
    assert facts == {
        "opt": (True, "fast", ""),
        "fast": (True, "opt", ""),
        "lr": (False, None, ""),
        "wd": (False, None, ""),
        "name": (False, None, "nearly every configuration has its own value"),
        "seed": (False, None, "a seed: its name says so"),
    }
    assert sweep.settings[0].groups in (
        (SettingGroup("adam", 8, 1.0), SettingGroup("sgd", 8, 2.0)),
        (SettingGroup("False", 8, 1.0), SettingGroup("True", 8, 2.0)),
    )
    assert importances(configs, [1.0] * 32).chance is None
    few = importances(configs[:8], values[:8])
    assert {one.reason for one in few.settings if one.key == "opt"} == {"fewer than 8 configurations"}
