"""The health rules over any series: they never raise, and what they find does not depend on the portions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from hypothesis import given, settings
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
    monitor.finish()
    return monitor


@settings(max_examples=60, deadline=None)
@given(runs(), st.lists(st.floats(1e9, 1e9 + 2e4), max_size=12))
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
    monitor = judge(series, [])
    verdict = monitor.verdict
    rules = {finding.rule for finding in verdict.findings}
    told = [*rules, *verdict.passed, *(each.rule for each in verdict.abstained)]
    assert sorted(told) == sorted(RULES)
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

    changes = AlarmGate(opens=opens, closes=closes).run(np.array(bad))
    assert [change for _, change in changes] == ["open", "close"] * (len(changes) // 2) + ["open"] * (
        len(changes) % 2
    )
    for index, change in changes:
        before = bad[max(0, index + 1 - (opens if change == "open" else closes)) : index + 1]
        assert all(before) if change == "open" else not any(before)
