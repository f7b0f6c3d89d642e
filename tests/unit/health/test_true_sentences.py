"""Sentences that were false once: each finding is compared with the series that it speaks of."""

import numpy as np
import pytest

from stepscope.health import Finding, Monitor

STEPS = np.arange(1000)


def findings_of(series, *, every=1) -> list[Finding]:
    monitor = Monitor()
    for tag, values in series.items():
        steps = np.arange(len(values)) * (every if tag.startswith("eval") else 1)
        monitor.take(tag, steps, np.asarray(values, float), 1e9 + 0.1 * steps)
    monitor.finish()
    return monitor.verdict.findings


def noise(count, scale, seed=0):
    return scale * np.random.default_rng(seed).normal(size=count)


def fall(count=1000, seed=0):
    return 0.3 + 2 * np.exp(-np.arange(count) / 100) + noise(count, 0.02, seed)


def test_nan_is_not_counted_as_above_the_start():
    loss = fall()
    loss[600:800] = np.nan
    found = findings_of({"train/loss": loss})
    assert [each.rule for each in found] == ["nonfinite-loss"]
    # Nine values far above among many that are none are no ten in a row.
    loss[590:600] = 50.0
    loss[595] = 0.3
    assert "loss-not-decreasing" not in {each.rule for each in findings_of({"train/loss": loss})}


@pytest.mark.parametrize("seed", range(6))
def test_no_plateau_is_told_with_a_level_below_its_best(seed):
    loss = 2.3 + 0.4 * np.exp(-np.arange(3000) / 40) - 3e-7 * np.arange(3000) + noise(3000, 0.01, seed)
    plateaus = [each for each in findings_of({"train/loss": loss}) if each.rule == "plateau"]
    assert plateaus
    assert all(each.values["mean"] >= 0.99 * each.values["best"] for each in plateaus)


@pytest.mark.parametrize("onset", [300, 457, 613, 751])
def test_a_rise_is_dated_where_it_was_and_not_where_a_window_fills(onset):
    loss = np.where(onset > STEPS, fall(seed=onset), 8 + noise(1000, 0.1, onset))
    found = findings_of({"train/loss": loss})
    assert {"loss-not-decreasing"} <= {each.rule for each in found}
    assert all(onset - 20 <= each.since <= onset + 20 for each in found), found


@pytest.mark.parametrize("seed", range(4))
def test_the_value_of_a_best_stands_at_its_step(seed):
    at = np.arange(40)
    score = 0.5 + 0.4 * np.exp(-(((at - 14) / 8) ** 2)) + noise(40, 0.004, seed)
    found = findings_of({"train/loss": fall(), "eval/accuracy": score}, every=25)
    told = [each for each in found if "best_step" in each.values]
    assert told
    for each in told:
        assert score[int(each.values["best_step"]) // 25] == each.values["best"]


def test_a_loss_that_stands_still_while_samples_get_better_is_not_called_stuck():
    energies = noise(3000, 0.3)  # of data less those of samples, as an energy-based model has them
    fid = 10 + 80 * np.exp(-np.arange(60) / 12) + noise(60, 0.5)
    series = {"train/loss": energies, "eval/fid": fid}
    assert [each for each in findings_of(series, every=50) if each.severity in ("high", "medium")] == []


def test_the_figures_of_a_row_are_those_of_the_newest_look():
    wait = np.where(np.arange(4000) < 400, 1.0, np.where(np.arange(4000) < 1000, 30.0, 80.0))
    series = {"speed/step_time_ms": np.full(4000, 100.0), "speed/data_wait_ms": wait}
    (found,) = (each for each in findings_of(series) if each.rule == "data-wait")
    assert found.step < 700
    assert 0.7 < found.values["wait_ratio"] <= 0.8
    assert found.severity == "high"


@pytest.mark.parametrize("last", [1e-9, 1e-3])
def test_a_plateau_names_the_rate_only_if_that_moves_nothing(last):
    at = np.arange(3000)
    series = {
        "train/loss": 0.9 + 1.4 * np.exp(-at / 100) + noise(3000, 0.01),
        "train/learning_rate": np.where(at < 1200, 1e-3, last),
    }
    plateau = next(each for each in findings_of(series) if each.rule == "plateau")
    assert plateau.summary.startswith("the learning rate, 1\u00d710\u207b\u2079, moves nothing: ") == (
        last < 1e-3
    )
    assert ("the mean loss has not been 1.0 % below " in plateau.summary) == (last == 1e-3)


@pytest.mark.parametrize(("share", "words"), [(0.0, "none"), (0.001, "only 0.10%")])
def test_an_expert_that_gets_nothing_gets_none_of_the_tokens(share, words):
    loads = {f"moe/load/{expert}": np.full(40, (1 - share) / 3 if expert else share) for expert in range(4)}
    dead = next(each for each in findings_of(loads) if each.rule == "dead-experts")
    assert dead.summary == f"moe expert 0 gets {words} of the tokens"


def test_an_idle_rate_is_dated_from_the_first_point_of_a_loss_that_is_logged_rarely():
    steps = 500 * np.arange(1, 31)
    monitor = Monitor()
    monitor.take("train/loss", steps, 2.3 + noise(30, 0.01), 1e9 + steps)
    monitor.take("train/learning_rate", steps, np.zeros(30), 1e9 + steps)
    monitor.finish()
    idle = next(each for each in monitor.verdict.findings if each.rule == "loss-not-decreasing")
    assert (idle.since, idle.step) == (500, 10_000)
