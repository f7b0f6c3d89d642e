import math

import numpy as np
import pytest

import stepscope as ss
from stepscope import store
from stepscope.lru import Lru
from stepscope.store import smooth
from stepscope.store.points import SeriesColumns, SeriesPoints


def points(values, step=None, first=0):
    step = np.array(range(first, first + len(values)) if step is None else step, np.int32)
    return SeriesPoints(SeriesColumns(step, step.astype(float), np.array(values, np.float32)))


def reference(values, weight):
    """TensorBoard's line_chart_v2/data_transformer.ts."""
    last, count, out = 0.0, 0, []
    for value in values:
        if math.isfinite(value):
            last = last * weight + (1 - weight) * value
            count += 1
            out.append(last / (1 - weight**count))
        else:
            out.append(value)
    return out


@pytest.mark.parametrize("weight", [0.0, 0.6, 0.9, 0.999])
def test_it_is_tensorboards(weight):
    values = [1.0, 2.0, math.nan, -3.0, math.inf, 4.0, 4.0, -math.inf, 0.0]
    np.testing.assert_allclose(smooth.smoothed(points(values), weight), reference(values, weight), rtol=1e-6)


def test_a_long_series_does_not_drift():
    values = np.sin(np.arange(20_000) / 50)
    np.testing.assert_allclose(
        smooth.smoothed(points(values), 0.99),
        reference(values.astype(np.float32).tolist(), 0.99),
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_constant_series_stays_what_it_is_until_it_is_none():
    series = points([0.1] * 50)
    assert (smooth.smoothed(series, 0.9) == np.float32(0.1)).all()
    series.append(points([0.5], first=50).columns)
    np.testing.assert_allclose(smooth.smoothed(series, 0.9), reference([0.1] * 50 + [0.5], 0.9), rtol=1e-6)


def test_nan_alone_is_no_constant():
    assert np.isnan(smooth.smoothed(points([math.nan, math.nan]), 0.9)).all()


def test_growth_is_smoothed_from_where_it_stopped(monkeypatch):
    series, values = points([1.0, 2.0]), [1.0, 2.0]
    smooth.smoothed(series, 0.6)
    lengths = []
    real = smooth.kernel.average
    monkeypatch.setattr(
        smooth,
        "kernel",
        type(
            "Kernel",
            (),
            {"average": staticmethod(lambda new, *rest: lengths.append(len(new)) or real(new, *rest))},
        ),
    )
    for at, value in enumerate((5.0, math.nan, 3.0)):
        series.append(points([value], first=2 + at).columns)
        values.append(value)
        np.testing.assert_allclose(smooth.smoothed(series, 0.6), reference(values, 0.6), rtol=1e-6)
    assert lengths == [1, 1, 1]
    smooth.smoothed(series, 0.6)
    assert lengths == [1, 1, 1]


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(smooth, "_known", Lru(4000, lambda smoothed: smoothed.average.nbytes))
    lines = [points(range(500)) for _ in range(5)]
    for line in lines:
        smooth.smoothed(line, 0.5)
    assert len(smooth._known) == 2
    assert (lines[-1].serial, 0.5, 1.0) in smooth._known


# Steps, values, weight, smoothed values; all by hand.
DISTANCES = {
    "a step recorded twice counts twice": ([0, 0, 1, 1], [1, 3, 8, 9], 0.0, [1, 2, 8, 8.5]),
    "a gap forgets what was before it": ([0, 1, 2, 21], [1, 1, 3, 9], 0.5, [1, 1, 1.73, 6.87]),
    "a counter that starts over ages by points": ([0, 1, 0, 1], [1, 1, 4, 4], 0.5, [1, 1, 2.714, 3.4]),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_a_weight_holds_for_steps_and_not_for_points(name):
    step, values, weight, want = DISTANCES[name]
    np.testing.assert_allclose(smooth.smoothed(points(values, step), weight), want, rtol=0.06)


CASES = {
    "an evaluation": ({"train/loss": 400, "eval/loss": 10}, {"train/loss": 0.6, "eval/loss": 0}),
    "an evaluation as often as the training": ({"loss": 20, "val_loss": 20}, {"loss": 0, "val_loss": 0}),
    "once an epoch": ({"loss": 400, "epoch/loss": 4}, {"loss": 0.6, "epoch/loss": 0}),
    "half as often": ({"loss": 400, "gradients/norm": 200}, {"loss": 0.6, "gradients/norm": 0.36}),
    "more often than the loss": ({"loss": 100, "system/cpu": 400}, {"loss": 0.6, "system/cpu": 0.6**0.25}),
    "no loss": ({"reward": 200, "length": 200}, {"reward": 0.6, "length": 0.6}),
    "fewer points than are told apart": ({"loss": 50, "norm": 25}, {"loss": 0.36, "norm": 0.6**4}),
    "a sparse loss": ({"train_loss": 6, "epoch": 6}, {"train_loss": 0, "epoch": 0}),
    "a loss that has just begun": ({"loss": 2}, {"loss": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_how_much_each_series_is_smoothed(name, tmp_path):
    points, weights = CASES[name]
    with ss.Run(tmp_path / "run") as run:
        for tag, count in points.items():
            for step in range(count):
                run.scalar(tag, 1 / (1 + step), step=step)
    with store.open(tmp_path, cache=False) as log:
        [run] = log.runs()
        found = smooth.weights_of([each for tag in points for each in run.columns(tag)], [run], 0.6)
    assert dict(zip(points, found, strict=True)) == pytest.approx(weights)
