"""Facts about series: null series have no changes, planted ones are dated, and portions do not matter."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.health import RULES, Monitor
from stepscope.health.facts import CHANCE, Facts, _fit, clipped, counted_noise, drift, jumps, point_noise
from stepscope.health.looks import RunFacts
from stepscope.kernels.facts import BLOCKS

SERIES = CHANCE / 20
"""Chance of one of the usual 20 series of a run."""


def recursive(noise, keep, share):
    values = np.zeros(len(noise))
    for at in range(1, len(noise)):
        values[at] = keep * values[at - 1] + share * noise[at]
    return values


def null(kind, count, seed):
    rng = np.random.default_rng(seed)
    noise, at = rng.normal(size=count), np.arange(count)
    return {
        "white": lambda: noise,
        "t3": lambda: rng.standard_t(3, count),
        "AR(0.8) of t3": lambda: recursive(rng.standard_t(3, count), 0.8, 1),
        "AR(0.95)": lambda: recursive(noise, 0.95, 1),
        "EMA": lambda: recursive(noise, 0.98, 0.02),
        "moving mean": lambda: np.convolve(rng.normal(size=count + 7), np.ones(8) / 8, "valid"),
        "walk": noise.cumsum,
        "line": lambda: noise + 10 * at / count,
        "decay": lambda: 0.3 + 2 * np.exp(-at / 150) + 0.03 * noise,
        "right answers": lambda: rng.binomial(64, 1 - 0.9 * np.exp(-at / (0.1 * count))) / 64,
        "held": lambda: np.repeat(noise, rng.integers(1, 9, count))[:count],
        "decay of shares": lambda: (0.1 + 2 * np.exp(-at / (0.1 * count))) * np.exp(0.3 * noise),
        "smooth decay": lambda: 0.3 + 2 * np.exp(-at / 150),
        "power law": lambda: 3 * (at + 1) ** -0.3 + 0.03 * noise,
        "cosine": lambda: 0.5 * (1 + np.cos(np.pi * at / count)),
        "constant": lambda: np.ones(count),
        "counts": lambda: rng.binomial(32, 0.9, count) / 32,
        "spikes": lambda: noise + 20 * (at % 50 == 0),
        "sine": lambda: np.sin(at / 60) + 0.1 * noise,
    }[kind]()


@pytest.mark.parametrize("count", [12, 40, 100, 1000])
@pytest.mark.parametrize(
    "kind",
    ["white", "t3", "AR(0.8) of t3", "AR(0.95)", "EMA", "moving mean", "walk", "line", "decay",
     "decay of shares", "right answers", "smooth decay", "power law", "cosine", "constant", "counts",
     "spikes", "sine"],
)  # fmt: skip
def test_series_in_which_nothing_changes_have_no_jumps(kind, count):
    found = [seed for seed in range(20) if jumps(null(kind, count, seed), SERIES)]
    assert len(found) <= 1, found


@pytest.mark.parametrize(
    "kind", ["white", "t3", "AR(0.95)", "EMA", "walk", "line", "decay", "power law", "cosine", "counts"]
)
def test_series_in_which_nothing_changes_do_not_drift(kind):
    assert [seed for seed in range(60) if drift(null(kind, 400, seed), SERIES)] == []
    assert [seed for seed in range(20) if drift(null(kind, 1000, seed), SERIES)] == []


def test_a_shock_that_a_series_remembers_is_no_change_and_a_level_that_stays_is_one():
    shock, level = null("AR(0.8) of t3", 400, 3), null("AR(0.8) of t3", 400, 3)
    shock[200:] += 30 * 0.8 ** np.arange(200)
    level[200:] += 30
    assert jumps(shock, SERIES) == []
    assert [jump.at for jump in jumps(level, SERIES)] == [200]


def test_right_answers_that_become_fewer_and_a_held_value_that_moves_are_changes():
    assert sum(bool(jumps(null("held", 400, seed), SERIES)) for seed in range(20)) <= 1
    answers, held = null("right answers", 400, 3), np.repeat([3.0, 5.0], 200)
    answers[300:] = np.random.default_rng(4).binomial(64, 0.6, 100) / 64
    assert [(jump.first, jump.last) for jump in jumps(answers, SERIES)] == [(300, 300)]
    assert [jump.at for jump in jumps(held, SERIES)] == [200]


def test_a_level_that_rises_over_32_points_is_no_jump():
    for seed in range(6):
        ramp = np.clip((np.arange(400) - 200) / 32, 0, 1)
        assert jumps(2 * ramp + 0.1 * np.random.default_rng(seed).normal(size=400), SERIES) == []


@pytest.mark.parametrize("degree", [1, 2])
def test_lines_and_parabolas_end_where_they_do(degree):
    assert _fit(8, degree) @ (3 - 5 * (np.arange(8) + 0.5) ** degree) == pytest.approx(3)


@pytest.mark.parametrize("count", [24, 300, 1000])
@pytest.mark.parametrize(("kind", "height"), [("white", 12), ("t3", 20), ("decay", 20), ("AR(0.95)", 20)])
def test_a_step_is_found_and_dated(kind, height, count):
    inside = 0
    for seed in range(10):
        values = null(kind, count, seed)
        at = count // 2 + seed % 5
        values[at:] += height * np.median(np.abs(np.diff(values)))
        found = [each for each in jumps(values, SERIES) if abs(each.at - at) <= 8]
        inside += bool(found) and found[0].first <= at <= found[0].last
    assert inside >= 9


@pytest.mark.parametrize("count", [60, 400, 1000])
def test_a_loss_that_turns_drifts_from_there_on(count):
    at = np.arange(count)
    turn = 0.6 * count
    values = 0.3 + 2 * np.exp(-at / (count / 10)) + np.maximum(at - turn, 0) / count * 4
    found = drift(values + 0.02 * np.random.default_rng(0).normal(size=count), SERIES)
    assert found is not None
    assert found.first <= turn <= found.last
    assert found.after > found.before


@pytest.mark.parametrize("count", [20, 80])
def test_a_drift_may_begin_right_after_a_steep_fall(count):
    values = np.r_[1.85, 1.15, 0.7, 0.7 + 1.2 * np.arange(1, count - 2) / count]
    found = drift(values + 0.01 * np.random.default_rng(0).normal(size=count), SERIES)
    assert found is not None
    assert found.first <= 3
    assert found.last >= 2
    falls = np.r_[1.85, 1.15, 0.7, 0.7 - 0.2 * np.arange(1, count - 2) / count]
    assert drift(falls + 0.01 * np.random.default_rng(0).normal(size=count), SERIES) is None


def facts_of(values, portions=1, steps=None):
    facts = Facts()
    steps = np.arange(len(values)) if steps is None else steps
    for part in np.array_split(np.arange(len(values)), portions):
        facts.take(steps[part], np.asarray(values)[part], 100.0 + part)
    return facts


@pytest.mark.parametrize("count", [300, 3000])
def test_what_grows_by_a_share_of_itself_drifts_from_where_it_begins(count):
    at = np.arange(count) / count
    noise = 0.1 * np.random.default_rng(0).normal(size=count)
    found = drift(np.exp(7 * np.maximum(at - 0.5, 0) + noise), SERIES)
    assert found is not None
    assert abs(found.at - count / 2) < 0.1 * count
    assert 0.8 < found.before < 1.3 < 15 < found.after


def test_facts_do_not_depend_on_the_portions():
    values = null("white", 5000, 1)
    values[1234:1300] = math.nan
    values[3000:] += 8
    whole, parts, points = (facts_of(values, portions) for portions in (1, 37, 5000))
    for other in (parts, points):
        for name in ("count", "finite", "first", "last", "least", "most", "broken", "whole", "gap_s"):
            assert getattr(other, name) == getattr(whole, name), name
        assert other.changes(SERIES) == whole.changes(SERIES)
        assert len(other.curve[0]) < BLOCKS
    kinds = [(change.kind, change.first_step <= 3000 <= change.last_step) for change in whole.changes(SERIES)]
    assert kinds == [("not finite", False), ("finite again", False), ("jump", True)]
    assert (whole.broken, whole.whole) == ((1234, 1334.0), (1300, 1400.0))


@pytest.mark.parametrize(
    ("values", "steps", "until", "kinds"),
    [
        ([1.0] * 40, None, 139.0, []),
        ([1.0] * 40, None, 1000.0, ["stopped"]),
        ([1.0] * 4, None, 1000.0, []),
        ([1.0, math.inf, 1.0] * 3, None, 0.0, ["not finite", "finite again"]),
        ([1.0, 2.0, math.nan], None, 0.0, ["not finite"]),
        ([1.0] * 10, np.r_[0:5, 0:5], 0.0, ["counter"]),
        ([math.nan] * 10, None, 0.0, ["not finite"]),
    ],
)
def test_exact_facts(values, steps, until, kinds):
    changes = facts_of(values, steps=steps).changes(SERIES, until=until)
    assert [change.kind for change in changes] == kinds


@pytest.mark.parametrize(
    ("until", "until_step", "stopped"),
    [
        (1e9, 199, False),  # the last steps were slow
        (1e9, 241, True),  # more than three evaluations are missing
        (1e9, 240, False),
        (111.0, 1000, False),  # steps leapt, and no time went by
        (1e9, 20, True),  # others count something else
    ],
)
def test_a_series_stops_if_steps_and_time_go_on_without_it(until, until_step, stopped):
    facts = facts_of([1.0] * 10, steps=np.arange(0, 200, 20))
    kinds = [change.kind for change in facts.changes(SERIES, until=until, until_step=until_step)]
    assert kinds == ["stopped"] * stopped


def test_a_series_that_comes_back_has_not_changed_for_good():
    values = null("white", 400, 0)
    values[200:300] += 10
    assert [(change.first_step, change.lasts) for change in facts_of(values).changes(SERIES)] == [
        (200, False),
        (300, True),
    ]


VALUES = st.floats(width=64) | st.sampled_from(
    [0.0, 1.0, -1.0, 5e-324, 1.7e308, -1.7e308, math.nan, math.inf]
)
TIMES = st.floats() | st.integers(0, 10).map(float)
STEPS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 100)
SERIES_OF_ANY = st.lists(st.tuples(STEPS, VALUES, TIMES), max_size=40) | st.tuples(
    VALUES, VALUES, st.integers(0, 150), st.integers(0, 150)
).map(lambda of: [(at, of[0] if at < of[2] else of[1], float(at)) for at in range(of[2] + of[3])])


@pytest.mark.slow
@given(SERIES_OF_ANY)
@settings(deadline=None, max_examples=300)
def test_no_series_is_too_odd_for_its_facts(points):
    """Warnings are errors here; every change has numbers or none."""
    facts = Facts()
    if points:
        steps, values, walls = zip(*points, strict=True)
        facts.take(np.array(steps, np.int64), np.array(values), np.array(walls))
    for change in facts.changes(SERIES, until=1e9):
        assert change.first_step <= change.last_step
        assert not math.isnan(change.size)
    assert point_noise(clipped(facts.curve[1])) >= 0


@pytest.mark.parametrize("top", [1.0, 100.0])
def test_noise_of_counted_shares_is_that_of_a_binomial_distribution(top):
    shares = np.random.default_rng(0).binomial(64, 0.8, 200) / 64
    shares[::8] += 1e-8  # as float32 rounds
    assert counted_noise(top * shares) == pytest.approx(np.full(200, top * 0.05), rel=0.2)


def test_only_multiples_of_one_quantum_with_eight_levels_are_counted():
    eighths = np.tile(np.arange(8) / 8, 4)
    assert counted_noise(eighths).all()
    assert not counted_noise(eighths[eighths < 0.8]).any()
    assert not counted_noise(eighths - 1 / 8).any()
    assert not counted_noise(np.repeat(np.random.default_rng(0).uniform(size=40), 3)).any()


@pytest.mark.parametrize("bias", [True, False])
def test_layers_with_a_gradient_do_not_look_through_all_others(monkeypatch, bias):
    """Each of many layers is looked at often."""
    looks, beside = [], RunFacts.beside
    monkeypatch.setattr(
        RunFacts, "beside", lambda run, known, *roles: looks.append(roles) or beside(run, known, *roles)
    )
    others = {rule: False for rule in RULES if rule != "gradient-stopped"}
    monitor, steps, rng = Monitor(others), np.arange(60), np.random.default_rng(0)
    for part in ("weight", "bias")[: 1 + bias]:
        for layer in range(30):
            values = rng.lognormal(size=len(steps))
            monitor.take(f"gradients/block{layer}.{part}/norm", steps, values, 1e9 + steps)
    monitor.finish()
    assert looks.count(("layer_gradient",)) == 1
