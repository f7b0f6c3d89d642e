"""Where findings began: what is said, and what must not be."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.health import Monitor


def judged(series, *, rank=None):
    """Judge series of (steps, values), a second a step."""
    monitor = Monitor()
    for tag, (steps, values) in series.items():
        steps = np.asarray(steps)
        monitor.take(tag, steps, np.asarray(values, float), 1e9 + steps, rank=rank)
    monitor.finish()
    return {finding.rule: finding for finding in monitor.verdict.findings}


def test_the_layer_that_was_not_finite_first_is_named():
    every, some = np.arange(60), np.arange(0, 60, 10)
    loss = np.where(every < 40, 1.0, np.nan)
    found = judged(
        {
            "train/loss": (every, loss),
            "activations/a/nonfinite_count": (some, np.where(some < 50, 0, 3)),
            "activations/b/nonfinite_count": (some, np.where(some < 30, 0, 3)),
            "gradients/c/nonfinite_count": (some, np.where(some < 30, 0, 3)),
        }
    )
    assert found["nonfinite-loss"].causes == (
        "the first activation that is not finite is that of b, at step 30; its sample of step 20 was finite",
    )


def counts_of(bad, layers="abcde"):
    """Judge gradients of layers, of which some are not finite at step 40, in a run whose loss is NaN then."""
    every, some = np.arange(60), np.array([0, 20, 40])
    series = {"train/loss": (every, np.where(every < 40, 1.0, np.nan))}
    for name in layers:
        series[f"gradients/{name}/nonfinite_count"] = some, [0, 0, 3 * (name in bad)]
    return judged(series)["nonfinite-loss"].causes


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            "b",
            "the first gradient that is not finite is that of b, at step 40; "
            "its sample of step 20 was finite",
        ),
        ("bc", "the gradients of b, c are not finite at step 40; those of 3 others are finite"),
        (
            "abcd",
            "the gradients of a, b, c and 1 more are not finite at step 40; those of 1 other are finite",
        ),
        (
            "abcde",
            "the gradients of all 5 layers are not finite at step 40: it began in the loss or in what comes "
            "right before it",
        ),
    ],
)
def test_the_layers_whose_gradients_were_not_finite_are_named(bad, said):
    assert counts_of(bad) == (said,)


def test_data_that_were_not_finite_are_the_cause_before_any_layer():
    every = np.arange(60)
    found = judged(
        {
            "train/loss": (every, np.where(every < 40, 1.0, np.nan)),
            "gradients/a/nonfinite_count": ([0, 40], [0, 3]),
            "activations/(input)/nonfinite_count": ([40], [16]),
            "activations/a/nonfinite_count": ([0, 44], [0, 16]),
        }
    )
    told = "the model's input at step 40 is not finite: look at the data of that step"
    assert found["nonfinite-loss"].causes == (told,)
    summary = found["nonfinite-activation"].summary
    assert summary == "16 values of the model's input are not finite at step 40"


def test_data_that_were_finite_are_no_cause():
    every = np.arange(60)
    found = judged(
        {
            "train/loss": (every, np.where(every < 40, 1.0, np.nan)),
            "gradients/a/nonfinite_count": ([0, 40], [0, 3]),
            "activations/(input)/nonfinite_count": ([40], [0]),
        }
    )
    assert "nonfinite-activation" not in found
    assert "the first gradient that is not finite is that of a" in found["nonfinite-loss"].causes[0]


@pytest.mark.parametrize(
    ("count", "said"), [(1, "1 value of the gradient is"), (738, "738 values of the gradient are")]
)
def test_values_that_are_not_finite_are_counted_in_plain_english(count, said):
    steps = np.arange(60)
    found = judged({"gradients/nonfinite_count": (steps, np.where(steps < 40, 0, count))})
    assert found["nonfinite-gradient"].summary == f"{said} not finite at step 40"


@pytest.mark.parametrize("begins", [50, 1000])
def test_a_layer_that_was_bad_only_later_is_no_cause(begins):
    every, some = np.arange(60), np.arange(0, 60, 10)
    found = judged(
        {
            "train/loss": (every, np.where(every < 40, 1.0, np.nan)),
            "activations/a/nonfinite_count": (some, np.where(some < begins, 0, 3)),
        }
    )
    assert found["nonfinite-loss"].causes == ()


def spiky(second=1.0, layers=True):
    rng = np.random.default_rng(0)
    steps = np.arange(200)
    loss = 1 + 0.01 * rng.normal(size=200)
    loss[150:153] = 3.0
    series = {"train/loss": (steps, loss)}
    if layers:
        for name, begins in (("a", 151), ("b", 149), ("c", 10_000)):
            norms = 1 + 0.01 * rng.normal(size=200)
            norms[(steps >= begins) & (steps < 153)] = 8.0
            series[f"gradients/{name}/norm"] = steps, norms
        ratio = np.ones(200)
        ratio[147] = second
        series["optimizer/second_moment/emb"] = steps, ratio
    return judged(series)["loss-spike"]


def test_the_layers_that_grew_first_come_first():
    grew = spiky().causes[0]
    assert grew.startswith("gradients that grew first: b (")
    assert grew.index("b (") < grew.index("a (")
    assert "c (" not in grew


def test_the_second_moment_explains_a_spike_or_does_not():
    assert (
        spiky(second=5.0)
        .causes[1]
        .startswith(
            "Adam's second moment was out of date: the gradient of emb was 5 times its root at step 147"
        )
    )
    assert (
        spiky(second=1.2).causes[1].startswith("Adam's second moment does not explain it: at most 1.2 times")
    )


def test_nothing_is_said_of_layers_that_were_not_recorded():
    assert spiky(layers=False).causes == ()


def ranks(first, second):
    monitor = Monitor()
    for rank, (values, late) in enumerate((first, second)):
        steps = np.arange(len(values))
        monitor.take("ranks/loss", steps, np.asarray(values, float), 1e9 + steps + late, rank=rank)
    monitor.finish()
    [finding] = monitor.verdict.findings
    return finding


def test_the_rank_with_the_first_bad_step_is_named_whatever_its_clock_says():
    bad = [1.0] * 5 + [np.nan] * 5
    later = [1.0] * 6 + [np.nan] * 4
    for late in (0.0, 3.5):
        finding = ranks((later, 0.0), (bad, late))
        assert (finding.rank, finding.step) == (1, 5)
        assert finding.summary == "the loss is NaN at step 5, first on rank 1"


def test_no_rank_is_blamed_where_several_were_bad_at_once():
    bad = [1.0] * 5 + [np.nan] * 5
    finding = ranks((bad, 0.0), (bad, 0.1))
    assert finding.rank is None
    assert finding.summary == "the loss is NaN at step 5, on the ranks 0, 1 at once"
