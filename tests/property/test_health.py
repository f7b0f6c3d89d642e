"""The health rules over any series: they never raise, and what they find does not depend on the portions."""

from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepscope.health import RULES, Monitor
from stepscope.health.batch import rising_times

TAGS = (
    "train/loss", "val_loss", "loss_d", "ranks/loss", "train/grad_norm", "gradients/clipped_norm",
    "gradients/nonfinite_count", "gradients/a/norm", "gradients/b/norm", "gradients/c/norm",
    "gradients/a/nonfinite_count", "updates/a/weight_ratio", "weights/a/norm", "activations/a/std",
    "activations/b/std", "activations/c/std", "activations/a/fraction_of_zero_values",
    "activations/a/saturation_ratio", "activations/a/nonfinite_count", "gradients/loss_scale",
    "gradients/skipped_steps", "learning_rate", "labels/0", "labels/1", "speed/step_time_ms",
    "speed/data_wait_ms", "system/gpu0/utilization_ratio", "system/host/cpu_ratio",
    "system/host/cpu_iowait_ratio", "system/process/memory_bytes", "anything/else",
)  # fmt: skip
ODD = [0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, 1e-30]
EXTREMES = [-(1 << 63), (1 << 63) - 1, 0]


@st.composite
def runs(draw):
    """Some series, each calm, wild or mad, of some ranks."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    series = {}
    for tag in draw(st.lists(st.sampled_from(TAGS), min_size=1, max_size=8, unique=True)):
        count = draw(st.sampled_from([0, 1, 7, 40, 150, 400]))
        kind = draw(st.sampled_from(["calm", "wild", "odd", "zero"]))
        values = {
            "calm": lambda n: 1 + 0.1 * rng.normal(size=n),
            "wild": lambda n: np.exp(0.5 * rng.normal(size=n).cumsum()),
            "odd": lambda n: rng.choice(ODD, n),
            "zero": np.zeros,
        }[kind](count)
        mad = draw(st.booleans()) and kind == "odd"
        steps = rng.choice(EXTREMES, count) if mad else np.arange(count)
        walls = rng.choice(ODD, count) if mad else 1e9 + np.cumsum(rng.choice([0.0, 0.01, 1.0, 500.0], count))
        for rank in draw(st.sampled_from([[None], [0, 1], [0, 1, 2]])):
            series[tag, rank] = steps, values, walls
    return series


def judge(series, cuts):
    """Hand over the series cut at some times, each stretch complete before it is judged."""
    monitor, done = Monitor(), dict.fromkeys(series, 0)
    for cut in [*sorted(cuts), float("inf")]:
        for (tag, rank), (steps, values, walls) in series.items():
            times = rising_times(np.asarray(walls, float))
            end = len(walls) if cut == float("inf") else int(np.searchsorted(times, cut))
            begin = done[tag, rank]
            if end > begin:
                monitor.take(tag, steps[begin:end], values[begin:end], walls[begin:end], rank=rank)
                done[tag, rank] = end
        monitor.advance(cut)
        monitor.news()  # as a running training does
    monitor.finish()
    return monitor


def points(values, walls=None, steps=None):
    """Return a series; by default one point a second, from step 0 on."""
    steps = np.arange(len(values)) if steps is None else np.asarray(steps)
    walls = np.arange(len(values)) if walls is None else np.asarray(walls, float)
    return steps, np.asarray(values, float), 1e9 + walls


def level(count, *, high=(), factor=10.0):
    """Return values around 1 with single ones far above the others."""
    values = 1 + 0.01 * np.random.default_rng(0).normal(size=count)
    values[list(high)] *= factor
    return values


NOT_SAMPLED = {("learning_rate", None): points([0.0], [2.5]), ("gradients/a/norm", None): points(np.ones(14))}
"""While the learning rate is 0 no sample counts."""
EARLIER_STEP = {
    ("train/loss", None): points([1, 1, 1, 1, 1, np.nan]),
    ("activations/a/nonfinite_count", None): points([0, 1], [0, 5], [0, 5]),
    ("activations/b/nonfinite_count", None): points([0, 1], [0, 9], [0, 3]),
}
"""A layer has a bad sample of an earlier step, but later: the step was run again."""
LATER_SAMPLES = {
    ("train/loss", None): points(level(200, high=(100, 102))),
    ("gradients/a/norm", None): points(level(200, high=(100, 101, 102)), np.arange(200) + 0.5),
    ("gradients/b/norm", None): points(level(200, high=(102,)), np.arange(200) + 0.5),
}
"""Samples of the layers are recorded after the spike that they explain."""
TWO_RANKS = {
    ("train/loss", 0): points([1, np.nan], [5, 10], [0, 1]),
    ("train/loss", 1): points([1, np.inf], [0, 10], [0, 1]),
}
"""The rank whose series began later is handed over first, and both are bad at once."""
PUT_OFF = {("train/loss", None): points(level(260, high=(60, 80, 100, 120, 140, 173)))}
"""A single spike comes before the end of a period, which it puts off."""
LARGE_STEPS = {
    ("train/loss", None): points(level(120, high=(100, 102)), steps=(1 << 60) + 1 + np.arange(120)),
}
"""Steps that no float holds."""


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(runs(), st.lists(st.floats(1e9, 1e9 + 2e4), max_size=12))
@example(NOT_SAMPLED, [1e9 + 5])
@example(EARLIER_STEP, [1e9 + 7])
@example(LATER_SAMPLES, [1e9 + 102.2])
@example(TWO_RANKS, [1e9 + 2])
@example(PUT_OFF, [1e9 + 176])
@example(LARGE_STEPS, [1e9 + 98])
def test_what_is_found_does_not_depend_on_the_portions(series, cuts):
    whole, parts = shown(judge(series, []).verdict), shown(judge(series, cuts).verdict)
    differ = [pair for pair in zip_longest(whole, parts) if pair[0] != pair[1]]
    assert not differ, differ[0]


def shown(verdict):
    """Return what is said, line by line; as text, for a NaN is not equal to itself.

    Without the numbers by which a running training tells its findings apart: those are the order of looking.
    """
    found = defaultdict(list)
    for finding in verdict.findings:
        found[finding.rule].append(finding.number)
    assert all(sorted(numbers) == list(range(len(numbers))) for numbers in found.values())
    findings = [repr(replace(finding, number=0)) for finding in verdict.findings]
    return [*findings, *map(repr, verdict.abstained), repr(verdict.passed)]


@settings(max_examples=30, deadline=None)
@given(runs())
def test_a_verdict_names_every_rule_once(series):
    verdict = judge(series, []).verdict
    rules = {finding.rule for finding in verdict.findings}
    assert sorted([*rules, *verdict.passed, *(each.rule for each in verdict.abstained)]) == sorted(RULES)
    for finding in verdict.findings:
        assert finding.first_step <= finding.step
        assert finding.summary
        assert finding.action
        assert finding.values
        assert finding.as_dict()["rule"] == finding.rule


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(1, 6), st.integers(1, 8))
def test_a_gate_opens_after_so_many_and_stays_open_until_so_many_are_good(bad, opens, closes):
    from stepscope.health.gate import AlarmGate

    gate = AlarmGate(opens=opens, closes=closes)
    effects = [gate.see(each) for each in bad]
    changes = [(index, effect) for index, effect in enumerate(effects) if effect is not None]
    assert [change for _, change in changes] == ["open", "close"] * (len(changes) // 2) + ["open"] * (
        len(changes) % 2
    )
    for index, change in changes:
        before = bad[max(0, index + 1 - (opens if change == "open" else closes)) : index + 1]
        assert all(before) if change == "open" else not any(before)
