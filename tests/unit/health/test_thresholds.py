"""Each rule at its limits: what lies on one is left alone, what lies beyond opens in time, and closes."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from stepscope.health import Monitor

START = 1_700_000_000.0


def judged(rule, series, *, step_s=1.0, **limits):
    """What a rule finds in series of one value a step, or of steps and values."""
    monitor = Monitor({rule: limits})
    for tag, points in series.items():
        steps, values = points if isinstance(points, tuple) else (range(len(points)), points)
        steps = np.asarray(steps)
        monitor.take(tag, steps, np.asarray(values, float), START + step_s * steps)
    monitor.finish()
    return [each for each in monitor.verdict.findings if each.rule == rule]


class Edge(NamedTuple):
    """A limit of a rule.

    So many ``bad`` values as ``opens`` says open a finding, and so many ``good`` ones as ``closes`` says
    close it; ``fine`` is the value nearest to the limit that is not bad.
    """

    rule: str
    tag: str
    bad: float
    fine: float
    good: float
    opens: int
    closes: int
    before: tuple[float, ...] = ()
    beside: dict[str, float] = {}  # noqa: RUF012  never changed
    severity: str = "medium"

    def judge(self, *values):
        """Judge some values after those before, next to constant series."""
        column = [*self.before, *values]
        return judged(
            self.rule, {self.tag: column, **{tag: [each] * len(column) for tag, each in self.beside.items()}}
        )


LAYERS = {"gradients/fc2/norm": 1.0, "gradients/fc3/norm": 0.5}
SCALES = {f"updates/{name}/operator_norm": 1.0 for name in "bcd"}
EXPERTS = {f"router/m/load/e{number}": 1.0 for number in range(7)}
EDGES = {
    "units": Edge("dead-relu", "activations/a/dead_ratio", 0.501, 0.5, 0.5, 5, 5),
    "most units": Edge("dead-relu", "activations/a/dead_ratio", 0.991, 0.5, 0.5, 5, 5, severity="high"),
    "not yet most units": Edge("dead-relu", "activations/a/dead_ratio", 0.99, 0.5, 0.5, 5, 5),
    "zeros": Edge("dead-relu", "activations/a/zeros_ratio", 0.901, 0.9, 0.9, 10, 5),
    "saturated": Edge("saturated-activation", "activations/a/saturation_ratio", 0.501, 0.5, 0.5, 5, 5),
    "large updates": Edge("update-ratio", "updates/a/weight_ratio", 0.1001, 0.1, 0.1, 20, 10, severity="low"),
    "small updates": Edge(
        "update-ratio", "updates/a/weight_ratio", 2.9e-7, 3e-7, 0.0, 20, 10, severity="low"
    ),
    "logits": Edge("attention-logits", "attention/a/logit_max", 1000.5, 1000, 1000, 5, 5, (10.0,) * 5),
    "growing logits": Edge("attention-logits", "attention/a/logit_max", 2001, 2000, 2000, 5, 5, (200.0,) * 5),
    "scale falls": Edge("loss-scale", "amp/loss_scale", 63, 64, 1024, 1, 1, (65536.0,), severity="high"),
    "small scale": Edge("loss-scale", "amp/loss_scale", 0.99, 1, 16, 1, 1, (512.0,), severity="high"),
    "rate of 0": Edge("learning-rate", "train/lr", 0, 1e-12, 1e-3, 100, 1, (1e-3,)),
    "rate jumps": Edge("learning-rate", "train/lr", 0.0101, 0.01, 0.01, 1, 100, (1e-3,) * 10),
    "rate after a dip": Edge(
        "learning-rate", "train/lr", 1.51e-3, 1.5e-3, 1e-3, 1, 100, (1e-3,) * 10 + (1e-5,)
    ),
    "negative rate": Edge("learning-rate", "train/lr", -1e-9, 1e-9, 1e-3, 1, 100, (1e-3,)),
    "not a number": Edge("nonfinite-loss", "train/loss", np.nan, 1e38, 1, 1, 100, severity="high"),
    "counted": Edge("nonfinite-gradient", "gradients/a/nonfinite_count", 1, 0, 0, 1, 100, severity="high"),
    "scaled": Edge(
        "nonfinite-gradient",
        "gradients/norm",
        np.inf,
        1,
        1,
        6,
        100,
        (1.0,),
        {"amp/loss_scale": 1.0},
        "high",
    ),
    "unchanged": Edge(
        "unchanged-tensor", "updates/a/weight_ratio", 0, 1e-30, 1, 10, 2, (1.0,), severity="low"
    ),
    "left out": Edge("unchanged-tensor", "optimizer/left_out/a", 1, 0, 0, 3, 2),
    "vanishing": Edge("vanishing-gradient", "gradients/fc1/norm", 0.99e-5, 1e-5, 0, 10, 5, beside=LAYERS),
    "large scale": Edge(
        "update-scale", "updates/a/operator_norm", 100.1, 100, 1, 10, 5, beside=SCALES, severity="info"
    ),
    "small scale of a layer": Edge(
        "update-scale", "updates/a/operator_norm", 0.0099, 0.01, 1, 10, 5, beside=SCALES, severity="info"
    ),
    "no tokens": Edge("dead-experts", "router/m/load/e7", 0.0175, 0.0176, 1, 20, 5, beside=EXPERTS),
    "all tokens": Edge("dead-experts", "router/m/load/e7", 7.01, 7, 1, 20, 5, beside=EXPERTS, severity="low"),
}


@pytest.mark.parametrize("edge", EDGES.values(), ids=EDGES)
def test_a_finding_opens_at_the_sample_that_makes_it_certain(edge):
    assert edge.judge(*[edge.bad] * (edge.opens - 1)) == []
    [finding] = edge.judge(*[edge.bad] * edge.opens)
    assert (finding.step, finding.severity) == (len(edge.before) + edge.opens - 1, edge.severity)
    assert finding.since == finding.first_step == len(edge.before)


@pytest.mark.parametrize("edge", [each for each in EDGES.values() if each.opens > 1])
def test_a_finding_holds_since_the_first_bad_sample_after_the_last_good_one(edge):
    [finding] = edge.judge(*[edge.bad] * (edge.opens - 1), edge.good, *[edge.bad] * edge.opens)
    assert finding.since == len(edge.before) + edge.opens


@pytest.mark.parametrize("edge", EDGES.values(), ids=EDGES)
def test_what_lies_on_a_limit_is_left_alone(edge):
    assert edge.judge(*[edge.fine] * (edge.opens + 10)) == []


@pytest.mark.parametrize("edge", EDGES.values(), ids=EDGES)
def test_a_finding_closes_after_enough_good_samples(edge):
    [finding] = edge.judge(*[edge.bad] * edge.opens, *[edge.good] * (edge.closes - 1))
    assert finding.is_open
    [finding] = edge.judge(*[edge.bad] * edge.opens, *[edge.good] * edge.closes)
    assert finding.closed_step == len(edge.before) + edge.opens + edge.closes - 1


def test_a_limit_may_be_set():
    column = [0.9] * 3
    assert judged("dead-relu", {"activations/a/dead_ratio": column}) == []
    [finding] = judged("dead-relu", {"activations/a/dead_ratio": column}, dead=0.8, samples_dead=3)
    assert finding.threshold["dead"] == 0.8


def test_layers_are_compared_where_there_are_enough():
    column = [1e-7] * 20
    two = {"gradients/fc1/norm": column, "gradients/fc2/norm": [1.0] * 20}
    assert judged("vanishing-gradient", two) == []
    assert len(judged("vanishing-gradient", two | {"gradients/fc3/norm": [1.0] * 20})) == 1
    three = {f"updates/fc{number}/operator_norm": [1.0] * 20 for number in (2, 3)}
    three["updates/fc1/operator_norm"] = [1e-3] * 20
    assert judged("update-scale", three) == []
    assert len(judged("update-scale", three | {"updates/fc4/operator_norm": [1.0] * 20})) == 1


@pytest.mark.parametrize(("update", "told"), [(1e-6, False), (0.9e-6, True), (None, True)])
def test_a_layer_that_moves_all_the_same_has_no_vanishing_gradient(update, told):
    series = {f"gradients/fc{number}/norm": [1.0] * 12 for number in (2, 3)}
    series["gradients/fc1/norm"] = [1e-7] * 12
    if update is not None:
        series["updates/fc1/weight_ratio"] = [update] * 12
    found = judged("vanishing-gradient", series)
    assert len(found) == told
    if found:
        assert ("not recorded" in found[0].summary) == (update is None)
        assert found[0].values.get("update_ratio") == update
        assert found[0].values["ratio"] == 1e-7


@pytest.mark.parametrize(("began", "excused"), [(0.249, True), (0.25, False)])
def test_saturation_is_no_fault_where_it_came_as_the_loss_fell(began, excused):
    share = np.arange(40) * 20, np.repeat([began, 0.9], 20)
    series = {"activations/a/saturation_ratio": share, "train/loss": np.linspace(2.0, 1.0, 800)}
    found = judged("saturated-activation", series)
    assert bool(found) != excused


@pytest.mark.parametrize(
    ("skipped", "told"),
    [
        ([0, 10], []),
        ([0, 11], [100]),
        ([0, 0, 11, 11], [200]),
        ([5, 16], [100]),  # what was skipped before the first point is not of these steps
    ],
)
def test_skipped_steps_are_counted_over_a_hundred(skipped, told):
    steps = np.arange(len(skipped)) * 100
    found = judged("loss-scale", {"amp/skipped_steps": (steps, skipped), "amp/loss_scale": [512.0]})
    assert [each.step for each in found] == told
    if found:
        assert "11% of the last 100 steps were skipped" in found[0].summary


@pytest.mark.parametrize(("share", "closed"), [(5, 200), (6, None)])
def test_skipped_steps_are_over_at_half_the_limit(share, closed):
    [found] = judged("loss-scale", {"amp/skipped_steps": ([0, 100, 200], [0, 20, 20 + share])})
    assert found.closed_step == closed


@pytest.mark.parametrize(
    ("most", "least", "told"),
    [(450, 50, 0), (455, 45, 1), (454, 45, 0), (460, 40, 1), (499, 0, 0), (500, 0, 1)],
)
def test_classes_differ_by_more_than_a_factor_of_ten_of_500_labels(most, least, told):
    found = judged("class-imbalance", {"labels/cat": [0, most, 0], "labels/dog": [0, least, 0]})
    assert len(found) == told
    if found:
        assert found[0].severity == "low"
        assert "class cat is" in found[0].summary


@pytest.mark.parametrize(("dogs", "closed"), [(124, False), (125, True)])
def test_classes_are_even_again_at_four_fifths_of_that(dogs, closed):
    cats = [0, 1000, 0, 0]
    [found] = judged("class-imbalance", {"labels/cat": cats, "labels/dog": [0, 0, dogs, 0]})
    assert (found.closed_step is not None) == closed


@pytest.mark.parametrize(
    ("rule", "tag", "busy"),
    [
        ("cpu-bottleneck", "system/host/cpu_ratio", 0.9),
        ("io-bottleneck", "system/host/cpu_iowait_ratio", 0.5),
    ],
)
def test_a_bottleneck_holds_in_more_than_half_of_sixty_samples(rule, tag, busy):
    def found(bad, gpu=0.09, host=busy + 0.01):
        idle = np.arange(60) < bad
        return judged(
            rule, {"system/gpu0/utilization_ratio": np.where(idle, gpu, 0.9), tag: np.where(idle, host, 0.1)}
        )

    assert found(30) == []
    [finding] = found(31)
    assert (finding.step, finding.first_step) == (59, 0)
    assert finding.summary.startswith("in 52% of the last 60 samples a GPU idles")
    assert found(60, gpu=0.1) == []
    assert found(60, host=busy) == []


@pytest.mark.parametrize(("good", "closed"), [(35, False), (36, True)])
def test_a_bottleneck_is_over_at_four_fifths_of_the_limit(good, closed):
    """24 of 60 samples: it is looked at every twelfth."""
    bad = np.r_[np.ones(60), np.zeros(good)] > 0
    gpu, cpu = np.where(bad, 0.01, 0.9), np.where(bad, 0.99, 0.1)
    [finding] = judged("cpu-bottleneck", {"system/gpu0/utilization_ratio": gpu, "system/host/cpu_ratio": cpu})
    assert (finding.closed_step is not None) == closed


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.full(72, 0.69), "gpu0 is hardly used: 95 % of the samples lie below 69%"),
        (np.full(71, 0.69), None),
        (np.full(72, 0.7), None),
        (np.tile([0.09, *[0.95] * 11], 6), "gpu0 is used in fits and starts: between 9% and 95%"),
        (np.tile([0.1, *[0.95] * 11], 6), None),
        (np.tile([0.09, *[0.7] * 11], 6), "gpu0 is used in fits and starts: between 9% and 70%"),
    ],
)
def test_a_gpu_is_underused_by_the_percentiles_of_sixty_samples(values, said):
    found = judged("gpu-underused", {"system/gpu0/utilization_ratio": values})
    assert [each.summary for each in found] == ([said] if said else [])
    if found:
        assert (found[0].first_step, found[0].step) == (12, 71)


@pytest.mark.parametrize(
    ("clipped", "factor", "told"), [(101, 10.1, True), (100, 10.1, False), (200, 10.0, False)]
)
def test_clipping_counts_if_it_divides_by_ten_in_half_of_200_samples(clipped, factor, told):
    before = np.full(200, 8.0)
    after = np.where(np.arange(200) < clipped, 8.0 / factor, 8.0)
    found = judged("clipping", {"gradients/norm": before, "gradients/clipped_norm": after})
    assert bool(found) == told
    if found:
        assert (found[0].first_step, found[0].step) == (0, 199)
        assert "less than 1/10 of their norm" in found[0].summary


@pytest.mark.parametrize(("share", "told"), [(0.89, False), (0.91, True)])
def test_a_share_of_clipped_steps_counts_if_nearly_all_are(share, told):
    assert bool(judged("clipping", {"gradients/clip_fraction": [share] * 200})) == told


@pytest.mark.parametrize(("good", "closed"), [(100, False), (120, True)])
def test_clipping_is_over_below_its_lower_limit(good, closed):
    after = np.r_[np.full(200, 0.1), np.full(good, 8.0)]
    [finding] = judged(
        "clipping", {"gradients/norm": np.full(len(after), 8.0), "gradients/clipped_norm": after}
    )
    assert (finding.closed_step is not None) == closed
    if closed:
        assert finding.closed_step == 319


MIB = 1 << 20


@pytest.mark.parametrize(
    ("first", "ratio", "told"),
    [
        (1000, 1.0005, False),  # 2 % in 40 samples
        (1000, 1.0018, True),
        (300, 1.0018, True),
        (200, 1.0018, False),  # less than 16 MiB more
    ],
)
def test_memory_creeps_if_each_quarter_grows_and_the_whole_by_a_share(first, ratio, told):
    found = judged("memory-creep", {"system/process/memory_bytes": first * MIB * ratio ** np.arange(70)})
    assert bool(found) == told
    if found:
        assert (found[0].step, found[0].first_step) == (69, 30)
        assert found[0].values["first_bytes"] == pytest.approx(first * MIB * ratio**34.5, rel=0.002)
        assert found[0].values["last_bytes"] == pytest.approx(first * MIB * ratio**64.5, rel=0.002)


@pytest.mark.parametrize("dip", [0.0, 0.004])
def test_memory_that_grows_by_steps_does_not_creep(dip):
    """Of four quarters, each must be above the one before: two levels are not enough."""
    level = 1000.0 * MIB * (1 + 0.1 * (np.arange(120) // 25) - dip * (np.arange(120) // 5 % 2))
    assert judged("memory-creep", {"system/process/memory_bytes": level}) == []


def test_memory_that_stops_growing_creeps_no_more():
    column = 1000.0 * MIB * 1.002 ** np.minimum(np.arange(110), 69)
    [finding] = judged("memory-creep", {"system/process/memory_bytes": column})
    assert finding.step == 69
    assert finding.closed_step == 89
    assert "and is still growing" in finding.summary


def test_a_gradient_explodes_beyond_a_hundred_times_the_start():
    start = [1.0] * 100
    assert judged("exploding-gradient", {"gradients/norm": [*start, *[100.0] * 20]}) == []
    [finding] = judged("exploding-gradient", {"gradients/norm": [*start, *[101.0] * 20]})
    assert finding.step == 102  # the third of five decides their median
    assert finding.summary == "the gradient norm is 101, 101 times the 1 of the start"
    [finding] = judged("exploding-gradient", {"gradients/norm": [*start, *[101.0] * 3, *[50.0] * 21]})
    assert finding.is_open
    [finding] = judged("exploding-gradient", {"gradients/norm": [*start, *[101.0] * 3, *[50.0] * 22]})
    assert finding.closed_step == 124  # 20 medians of at most half the limit


def test_a_gradient_is_judged_from_the_twentieth_point_on():
    grown = [*[1.0] * 14, *[200.0] * 5]
    assert judged("exploding-gradient", {"gradients/norm": grown}) == []
    assert len(judged("exploding-gradient", {"gradients/norm": [*grown, 200.0]})) == 1


def test_a_gradient_is_compared_with_the_larger_of_two_starts():
    """A model that converges at once is not compared with what was left."""
    fallen = [*[10.0] * 5, *[0.01] * 95]
    assert judged("exploding-gradient", {"gradients/norm": [*fallen, *[999.0] * 10]}) == []
    assert len(judged("exploding-gradient", {"gradients/norm": [*fallen, *[1001.0] * 10]})) == 1


def stalls(gap, *, every=1.0, tag="train/loss", count=50, after=3, **limits):
    """Steps of a length, then a pause, then further steps."""
    walls = START + np.r_[np.arange(count) * every, (count - 1) * every + gap + np.arange(after) * every]
    monitor = Monitor({"stalled-training": limits})
    monitor.take(tag, np.arange(len(walls)), np.linspace(2, 1, len(walls)), walls)
    monitor.finish()
    return [each for each in monitor.verdict.findings if each.rule == "stalled-training"]


@pytest.mark.parametrize(
    ("every", "limit"),
    [
        (1.0, 480),
        (12.0, 480),
        (13.0, 520),
        (45.0, 1800),
        (50.0, 1800),
        (700.0, 2100),  # three times the usual time of a step
    ],
)
def test_a_stall_is_longer_than_the_rhythm_of_a_run_allows(every, limit):
    assert stalls(limit, every=every) == []
    [finding] = stalls(limit + 1, every=every)
    assert (finding.severity, finding.step) == ("medium", 49)  # it went on
    assert finding.wall == START + 49 * every + max(min(limit, 1800), 480, 3 * every)
    assert finding.closed_wall == START + 49 * every + limit + 1


def test_a_rhythm_takes_five_intervals():
    assert stalls(3000, count=5) == []
    assert len(stalls(3000, count=6)) == 1


def test_a_pause_that_comes_again_is_no_stall():
    """Evaluations and checkpoints recur; three times as long as any before is too long."""

    def found(second):
        gaps = np.r_[0, [1.0] * 20, 400, [1.0] * 20, second, [1.0] * 5]
        walls = START + np.cumsum(gaps)
        monitor = Monitor()
        monitor.take("train/loss", np.arange(len(walls)), np.linspace(2, 1, len(walls)), walls)
        monitor.finish()
        return [each for each in monitor.verdict.findings if each.rule == "stalled-training"]

    assert found(1200) == []
    assert len(found(1201)) == 1


@pytest.mark.parametrize(("steps", "limit"), [(10, 1800), (150, 5400)])
def test_a_pause_may_take_as_long_as_the_steps_in_it(steps, limit):
    """Points come every ten steps of 12 s; three times that is allowed for the steps up to the next."""

    def found(gap):
        monitor = Monitor()
        walls = START + np.r_[np.arange(30) * 120.0, 29 * 120.0 + gap]
        monitor.take("train/loss", np.r_[np.arange(30) * 10, 290 + steps], np.linspace(2, 1, 31), walls)
        monitor.finish()
        return [each for each in monitor.verdict.findings if each.rule == "stalled-training"]

    assert found(limit) == []
    assert len(found(limit + 1)) == 1


def test_next_to_an_evaluation_half_an_hour_is_no_stall():
    assert stalls(1800, tag="eval/loss") == []
    walls = START + np.r_[np.arange(50), 50 + 1801 + np.arange(3)]
    monitor = Monitor()
    monitor.take("train/loss", np.arange(50), np.linspace(2, 1, 50), walls[:50])
    monitor.take("eval/loss", [49], [1.0], walls[49:50])
    monitor.take("train/loss", np.arange(50, 53), np.linspace(1, 1, 3), walls[50:])
    monitor.finish()
    [finding] = [each for each in monitor.verdict.findings if each.rule == "stalled-training"]
    assert finding.closed_wall == walls[50]


@pytest.mark.parametrize(
    ("largest", "told"),
    [([1.0, 5.0, 300.0], False), ([1.0, 5.0, 301.0], True), ([0.0, 1.0, 301.0], False)],
)
def test_activations_of_layers_differ_by_more_than_a_factor_of_300_at_first(largest, told):
    """Branches that begin at zero say nothing of the others."""
    tags = [f"activations/fc{number}/std" for number in range(3)]
    found = judged("poor-initialization", {tag: [std, 1.0] for tag, std in zip(tags, largest, strict=True)})
    assert bool(found) == told
    later = {tag: [1.0, std] for tag, std in zip(tags, largest, strict=True)}
    assert judged("poor-initialization", later) == []


@pytest.mark.parametrize(("first", "told"), [(3.4, False), (3.5, True)])
def test_the_first_loss_of_a_classifier_is_that_of_guessing(first, told):
    """1.5 * ln 10 is 3.45."""
    found = judged("poor-initialization", {"train/loss": [first]}, classes=10)
    assert bool(found) == told
    assert judged("poor-initialization", {"train/loss": [first]}) == []
    assert len(judged("poor-initialization", {"train/loss": [first]}, classes=2)) == 1


@pytest.mark.parametrize(
    ("first", "later", "metric", "told"),
    [
        (30.0, 10.0, True, False),
        (30.1, 10.0, True, True),
        (20.0, 1.0, True, False),
        (20.1, 1.0, True, True),
        (100.0, 1.0, False, False),
        (100.1, 1.0, False, True),
    ],
)
def test_a_loss_that_collapses_at_once_began_badly(first, later, metric, told):
    loss = [first, *[first] * 9, *[later] * 20, later]
    series = {"train/loss": loss} | ({"train/accuracy": [0.1] * 31} if metric else {})
    found = judged("poor-initialization", series)
    assert bool(found) == told
    if found:
        assert (found[0].first_step, found[0].step) == (0, 30)
    assert judged("poor-initialization", {tag: values[:30] for tag, values in series.items()}) == []


def test_steps_are_outliers_if_ten_of_200_cost_a_tenth_twice():
    times = np.full(310, 0.1)
    times[60::20] = 0.8  # ten of each of the last two windows
    [finding] = judged("step-outliers", {"speed/step_time": times})
    assert finding.summary.startswith("10 of the last 200 steps took more than 200 ms, the median is 100 ms")
    assert finding.values["cost_ratio"] == pytest.approx(7 / 27)
    assert finding.values["lost_s"] == pytest.approx(0.7 * 13)
    assert (finding.values["median_ms"], finding.values["longest_ms"]) == (100, 800)
    assert (finding.first_step, finding.step) == (110, 309)
    times[120] = 0.1
    assert judged("step-outliers", {"speed/step_time": times}) == []


@pytest.mark.parametrize(("before", "told"), [(0, True), (2000, False)])
def test_outliers_count_by_their_share_of_the_whole_run(before, told):
    times = np.full(before + 510, 0.1)
    times[before + 60 :: 20] = 0.8
    assert bool(judged("step-outliers", {"speed/step_time": times})) == told


@pytest.mark.parametrize(("took", "told"), [(0.2, False), (0.201, True)])
def test_a_step_is_long_beyond_twice_the_median(took, told):
    times = np.full(310, 0.1)
    times[::5] = took
    assert bool(judged("step-outliers", {"speed/step_time": times})) == told


@pytest.mark.parametrize(("usual", "told"), [(0.01, False), (0.02, True)])
def test_short_delays_are_no_outliers(usual, told):
    """A delay counts from 20 ms on, and where a second is lost in all."""
    times = np.full(310, usual)
    times[::5] += 0.0195 if usual == 0.01 else 0.0205
    assert bool(judged("step-outliers", {"speed/step_time": times})) == told


def test_a_finding_names_twenty_further_layers():
    [finding] = judged(
        "dead-relu", {f"activations/fc{number:02}/dead_ratio": [0.9] * 5 for number in range(30)}
    )
    assert (finding.layer, len(finding.also)) == ("fc00", 20)
    assert finding.also[-1] == "fc20"


def test_further_findings_of_a_series_are_only_counted():
    monitor = Monitor()
    column = [65536.0, *[9.0, 2000.0] * 25]
    monitor.take("amp/loss_scale", np.arange(51), np.array(column), START + np.arange(51))
    monitor.finish()
    verdict = monitor.verdict
    assert len([each for each in verdict.findings if each.rule == "loss-scale"]) == 20
    assert verdict.more == {"loss-scale": 5}


STAGE = "curriculum/stage"


@pytest.mark.parametrize(
    ("rule", "tag", "before", "after", "count"),
    [
        ("exploding-gradient", "gradients/norm", 1.0, 200.0, 120),
        ("plateau", "train/loss", 1.0, 1.0, 560),
        ("loss-spike", "train/loss", 1.0, 3.0, 120),
        ("gradient-spike", "gradients/norm", 1.0, 20.0, 120),
    ],
)
def test_another_stage_is_judged_by_itself(rule, tag, before, after, count):
    rng = np.random.default_rng(0)
    column = np.repeat([before, after], count) * (1 + 0.001 * rng.normal(size=2 * count))
    assert judged(rule, {tag: column, STAGE: np.repeat([1, 1], count)}) != []
    assert judged(rule, {tag: column, STAGE: np.repeat([1, 2], count)}) == []


@pytest.mark.parametrize("begin", [[0, 20], [0, 10, 20]])
def test_what_holds_in_one_stage_is_over_with_it(begin):
    """Also where all points come at once, as in a run that is judged afterwards."""
    monitor = Monitor()
    steps, rate = np.arange(20), np.full(20, 1e-3)
    rate[5] = -1
    for first, last in itertools.pairwise(begin):
        rows = steps[first:last]
        monitor.take("train/lr", rows, rate[rows], START + rows)
        monitor.take(STAGE, rows, 1 + (rows >= 10).astype(float), START + rows)
        monitor.advance(START + last)
    monitor.finish()
    [finding] = monitor.verdict.findings
    assert (finding.step, finding.closed_step) == (5, 10)


def overfitted(*evaluations):
    """Evaluations, one every ten steps of a training loss that falls."""
    loss = np.linspace(1.0, 0.1, 10 * len(evaluations))
    steps = np.arange(len(evaluations)) * 10 + 9
    return judged("overfitting", {"train/loss": loss, "eval/loss": (steps, evaluations)})


def test_overfitting_is_told_once_and_closes_with_a_better_evaluation():
    rise = [*np.linspace(1.0, 0.6, 10), *np.linspace(0.62, 1.2, 20)]
    [finding] = overfitted(*rise)
    assert finding.is_open
    assert finding.since_step == finding.first_step == 99
    assert finding.values["best_step"] == 99
    better = [*rise, *[0.3] * 4]
    [finding] = overfitted(*better)
    assert finding.closed_step == 10 * 31 + 9  # the second: of three in a row the median is new
    [finding] = overfitted(*better, *np.linspace(0.32, 1.2, 20))
    assert not finding.is_open


@pytest.mark.parametrize(
    ("rise", "told"),
    [
        (0.24, False),  # a quarter of the best
        (0.26, True),
    ],
)
def test_overfitting_is_a_rise_of_a_quarter(rise, told):
    evaluations = [*np.linspace(1.5, 1.0, 10), *np.linspace(1.001, 1 + rise, 12), *[1 + rise] * 3]
    assert bool(overfitted(*evaluations)) == told


@pytest.mark.parametrize(
    ("rate", "told"), [([1e-3, 0.9e-5], True), ([1e-3, 1e-5], False), ([1e-3], False), ([1e-8], True)]
)
def test_overtraining_needs_a_schedule_that_has_ended(rate, told):
    """After falling below a hundredth of its largest value, or at most 1e-8."""

    def found(count, **more):
        rates = np.full(10 * count, rate[-1])
        rates[:20] = rate[0]
        loss = np.full(10 * count, 0.5)
        steps = np.arange(count) * 10 + 9
        evaluations = np.r_[np.linspace(1, 0.8, 5), np.full(count - 5, 0.8)]
        series = {"train/loss": loss, "train/lr": rates, "eval/loss": (steps, evaluations)}
        return judged("overtraining", series, **more)

    assert bool(found(15)) == told
    if told:
        assert found(14) == []
        [finding] = found(16)
        assert finding.step == 149
        assert finding.first_step == 49
        assert finding.summary.startswith(
            "10 evaluations without an improvement: the best, 0.8, was at step 49"
        )
        assert found(15, patience_eval=11) == []


def test_a_training_loss_that_still_falls_is_no_overtraining():
    steps, evaluations = np.arange(20) * 10 + 9, np.full(20, 0.8)
    rates = np.full(200, 1e-9)

    def found(loss):
        return judged(
            "overtraining", {"train/loss": loss, "train/lr": rates, "eval/loss": (steps, evaluations)}
        )

    assert found(np.geomspace(1.0, 0.01, 200)) == []
    assert len(found(np.full(200, 0.5))) == 1


@pytest.mark.parametrize(("better", "closed"), [(0.793, False), (0.79, True)])
def test_overtraining_is_over_with_an_evaluation_better_by_a_hundredth(better, closed):
    count = 17
    evaluations = np.r_[np.linspace(1, 0.8, 5), np.full(count - 6, 0.8), better]
    steps = np.arange(count) * 10 + 9
    loss, rates = np.full(10 * count, 0.5), np.full(10 * count, 1e-9)
    [finding] = judged(
        "overtraining", {"train/loss": loss, "train/lr": rates, "eval/loss": (steps, evaluations)}
    )
    assert (finding.closed_step is not None) == closed


def diverging(apart, *, ranks=4, steps=100, noise=0.0, good=0):
    """The mean loss of rank 1 differs from that of the others."""
    monitor, rng = Monitor(), np.random.default_rng(0)
    rows = np.arange(steps + good + 1)
    for rank in range(ranks):
        values = 1.0 + noise * rng.normal(size=len(rows))
        if rank == 1:
            values[:steps] += apart
        monitor.take("ranks/loss", rows, values, START + rows, rank=rank)
    monitor.finish()
    return [each for each in monitor.verdict.findings if each.rule == "rank-divergence"]


@pytest.mark.parametrize(("apart", "ranks", "told"), [(0.19, 4, 0), (0.21, 4, 1), (0.24, 2, 2), (0.2, 2, 0)])
def test_a_rank_diverges_by_a_fifth_in_two_blocks_of_fifty_steps(apart, ranks, told):
    found = diverging(apart, ranks=ranks)
    assert len(found) == told
    assert diverging(apart, ranks=ranks, steps=99) == []
    if told == 1:
        assert (found[0].rank, found[0].first_step, found[0].is_open) == (1, 50, True)
        assert (
            found[0].summary
            == "ranks/loss of rank 1 is 1.21 on average, the median rank's 1, from the first steps on"
        )


@pytest.mark.parametrize(("good", "closed"), [(99, False), (100, True)])
def test_a_rank_is_back_after_two_good_blocks(good, closed):
    [found] = diverging(0.5, good=good)
    assert (found.closed_step is not None) == closed


def test_ranks_whose_losses_are_all_0_do_not_diverge():
    monitor, rows = Monitor(), np.arange(151)
    for rank in range(3):
        monitor.take("ranks/loss", rows, np.zeros(151), START + rows, rank=rank)
    monitor.finish()
    assert [each for each in monitor.verdict.findings if each.rule == "rank-divergence"] == []


@pytest.mark.parametrize(("taken", "told"), [(25, True), (24, False)])
def test_ranks_are_compared_that_take_three_quarters_of_the_steps(taken, told):
    """Of 50 steps one rank takes all and the other half of them, or one less."""
    monitor, rows = Monitor(), np.arange(151)
    monitor.take("ranks/loss", rows, np.ones(151), START + rows, rank=0)
    some = rows[(rows % 50 > 0) & (rows % 50 <= taken) | (rows == 150)]
    monitor.take("ranks/loss", some, np.full(len(some), 2.0), START + some, rank=1)
    monitor.finish()
    assert ("rank-divergence" in [each.rule for each in monitor.verdict.findings]) == told


def test_ranks_differ_by_more_than_six_standard_errors():
    """The standard error of 50 points of noise 0.5 is 0.07."""
    assert diverging(0.3, noise=0.5) == []
    assert [each.rank for each in diverging(0.6, noise=0.5)] == [1]


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        (1.2, 1.0, True),
        (1.22, 1.2, False),  # the evaluation is hardly worse than the training
        (1.0, 1.0, False),  # the training does not fall
    ],
)
def test_overfitting_is_an_evaluation_worse_than_the_training_by_a_tenth(first, last, told):
    evaluations = [*np.linspace(1.5, 1.0, 10), *np.linspace(1.001, 1.27, 12), *[1.27] * 3]
    series = {
        "train/loss": np.linspace(first, last, 250),
        "eval/loss": (np.arange(25) * 10 + 9, evaluations),
    }
    assert bool(judged("overfitting", series)) == told


@pytest.mark.parametrize(
    ("beside", "severity"), [("train/accuracy", "high"), ("kl_weight", "medium"), ("simclr/size", "medium")]
)
def test_a_loss_that_rises_from_its_beginning_is_told_after_120_points(beside, severity):
    """What a divergence with a growing weight, or a harder batch, may explain is told more quietly."""
    loss = np.linspace(1.0, 1.5, 130) + np.random.default_rng(0).normal(0, 0.005, 130)
    [finding] = judged("loss-not-decreasing", {beside: np.ones(130), "train/loss": loss})
    assert (finding.step, finding.severity) == (119, severity)
    assert finding.summary.endswith("; it rises")


@pytest.mark.parametrize(("points", "steps"), [(119, []), (120, [119])])
def test_an_explosion_from_the_first_value_is_told_after_120_points(points, steps):
    noise = np.random.default_rng(0).normal(0, 0.02, 400)
    loss = np.r_[0.7, 0.9, 3.0, 12.0, 9.0, 6.0 * (1 + noise[5:])][:points]
    found = judged("loss-not-decreasing", {"train/loss": loss})
    assert [each.step for each in found] == steps
    assert all("jumped to 12" in each.summary for each in found)


def test_a_loss_that_still_falls_slowly_is_no_plateau():
    """By less than a hundredth in all, but more than its noise: the best block is still the first."""
    assert judged("plateau", {"train/loss": np.linspace(1.0, 0.992, 1500)}) == []
    assert len(judged("plateau", {"train/loss": np.ones(1500)})) == 1


@pytest.mark.parametrize(("good", "closed"), [(99, False), (100, True)])
def test_a_loss_is_finite_again_after_100_good_points_that_come_later(good, closed):
    monitor = Monitor()
    for steps, values in ((np.arange(3), [1.0, 1.0, np.nan]), (np.arange(3, 3 + good), np.ones(good))):
        monitor.take("train/loss", steps, np.asarray(values), START + steps)
        monitor.advance(START + float(steps[-1]))
    monitor.finish()
    [finding] = [each for each in monitor.verdict.findings if each.rule == "nonfinite-loss"]
    assert (finding.closed_step is not None) == closed


def test_a_learning_rate_that_changes_may_end_a_plateau():
    rates = np.full(1500, 1e-3)
    assert len(judged("plateau", {"train/loss": np.ones(1500), "train/lr": rates})) == 1
    rates[500:] = 1e-4
    assert judged("plateau", {"train/loss": np.ones(1500), "train/lr": rates}) == []


@pytest.mark.parametrize(("noise", "told"), [(0.5, False), (0.05, True)])
def test_noise_that_hides_an_improvement_is_no_plateau(noise, told):
    """The mean of 20 blocks is known to half of the ratio, a hundredth, or nothing is said."""
    loss = 1.0 + noise * np.random.default_rng(0).normal(size=1500)
    loss[:50] = 0.7
    assert bool(judged("plateau", {"train/loss": loss})) == told


def test_waiting_for_data_up_to_the_higher_limit_is_low():
    def waits(ratio):
        series = {"speed/step_time_ms": [10.0] * 400, "speed/data_wait_ms": [10.0 * ratio] * 400}
        [finding] = judged("data-wait", series, high=0.5)
        return finding.severity

    assert [waits(ratio) for ratio in (0.5, 0.51)] == ["low", "medium"]


def test_a_model_of_which_nothing_moves_is_not_kept_unchanged_on_purpose():
    """Unlike its front next to a layer that moves."""
    still = {f"updates/one.{name}/weight_ratio": [0.0] * 12 for name in ("weight", "bias")}
    assert [each.layer for each in judged("unchanged-tensor", still)] == ["one.weight"]
    assert judged("unchanged-tensor", still | {"updates/two.weight/weight_ratio": [1e-3] * 12}) == []


def fell(*after, start=2.0, low=0.5, sigma=0.0, rest=80):
    """A loss that falls within 120 points, rests, and what comes then."""
    loss = np.r_[np.full(20, start), np.linspace(start, low, 40), np.full(rest, low), np.array(after, float)]
    loss = loss + sigma * np.random.default_rng(0).normal(size=len(loss))
    return judged("loss-not-decreasing", {"train/loss": loss})


@pytest.mark.parametrize("start", [2.0, 0.5])
def test_ten_points_above_five_times_the_start_have_blown_up(start):
    high = 5.1 * start
    assert fell(*[high] * 9, *[0.1] * 40, start=start, low=0.1) == []
    assert fell(*[5.0 * start] * 10, *[0.1] * 30, start=start, low=0.1) == []
    [finding] = fell(*[high] * 10, *[0.1] * 30, start=start, low=0.1)
    assert (finding.step, finding.first_step, finding.severity) == (149, 0, "high")
    [finding] = fell(*[high] * 5, *[np.nan] * 5, *[0.1] * 30, start=start, low=0.1)
    assert finding.step == 149
    assert fell(*[high] * 5, 0.1, *[high] * 5, *[0.1] * 30, start=start, low=0.1) == []
    assert fell(*[high] * 9, *[0.1] * 40, start=start, low=0.1, rest=60) == []  # right after it fell


def test_a_loss_below_zero_has_no_multiple():
    assert fell(*[-2.0] * 60, start=-1.0, low=-3.0) == []
    assert fell(*[0.0] * 20, *[-3.0] * 40, start=-1.0, low=-3.0) == []


def test_a_loss_that_is_back_where_it_began_rose_if_noise_does_not_explain_it():
    """Four standard errors of 20 points of noise 0.3, twice from differences, are 0.6."""
    assert fell(*[2.25] * 120, sigma=0.3) == []
    [finding] = fell(*[3.0] * 120, sigma=0.3)
    assert finding.step == 239  # five blocks of 20
    assert finding.summary.startswith("the loss rose to")


FALL = 3 * np.exp(-np.arange(300) / 60) + 0.2
NOISE = np.random.default_rng(0).normal(0, 0.02, 600)
STEPS = np.arange(600)
ONSETS = {
    "a spike": ("loss-spike", np.where((STEPS >= 400) & (STEPS < 406), 9, 1) + NOISE, 400),
    "two points near each other": ("loss-spike", np.where(np.isin(STEPS, (400, 406)), 9, 1) + NOISE, 400),
    "never lower": ("loss-not-decreasing", 1 + NOISE, 0),
    "blown up": ("loss-not-decreasing", np.r_[FALL, np.full(100, 200.0)], 300),
    "rising": ("loss-not-decreasing", np.r_[FALL, 0.25 + 0.02 * np.arange(400)], 299),
    "on a plateau": (
        "plateau", np.r_[np.linspace(3, 1, 500), np.full(1500, 1.0)] + np.resize(NOISE, 2000) / 10, 549
    ),
    "above the start": ("loss-not-decreasing", np.r_[FALL, 5 + NOISE[:400]], 300),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "losses", "onset"), ONSETS.values(), ids=ONSETS)
@pytest.mark.parametrize("portion", [1, 7, 1000])
def test_what_a_loss_does_is_said_since_the_step_at_which_it_began(rule, losses, onset, portion):
    monitor = Monitor({rule: {}})
    for at in range(0, len(losses), portion):
        part = losses[at : at + portion]
        steps = np.arange(at, at + len(part))
        monitor.take("train/loss", steps, part, START + steps)
    monitor.finish()
    [finding] = [each for each in monitor.verdict.findings if each.rule == rule]
    assert finding.since == onset
    assert finding.since <= finding.step
