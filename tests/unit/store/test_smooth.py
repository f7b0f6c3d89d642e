from __future__ import annotations

import math

import numpy as np
import pytest

from stepscope.lru import Lru
from stepscope.store import smooth
from stepscope.store.points import SeriesColumns, SeriesPoints


def points(values):
    size = len(values)
    return SeriesPoints(
        SeriesColumns(
            np.arange(size, dtype=np.int32), np.arange(size, dtype=float), np.array(values, np.float32)
        )
    )


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
    series.append(points([0.5]).columns)
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
    for value in (5.0, math.nan, 3.0):
        series.append(points([value]).columns)
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
    assert (lines[-1].serial, 0.5) in smooth._known
