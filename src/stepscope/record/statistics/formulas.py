"""What packed sums come to, all in float64.

Non-finite values are not left out: a NaN makes norm, mean and standard deviation NaN, as in the framework.
Least and most are those of the values that are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepscope.record.statistics.table import COUNT, LEAST, MOST, NONFINITE, SQUARES, SUM, ZEROS, Array

STATISTICS = ("norm", "mean", "std", "min", "max", "zero_ratio", "nonfinite_count")


def finish(moments: Array) -> Mapping[str, Array]:
    """Return each statistic of each row; NaN for all of a row of nothing.

    - ``norm``: square root of the sum of squares.
    - ``mean``: sum / count.
    - ``std``: of the population, sqrt(sum of squares / count - mean**2).
    - ``zero_ratio``: zeros / count.

    Args:
        moments: float64 [rows, 7], the columns of ``Table``.
    """
    with np.errstate(all="ignore"):
        empty = moments[:, COUNT] == 0
        count = np.where(empty, np.nan, moments[:, COUNT])
        mean = moments[:, SUM] / count
        variance = moments[:, SQUARES] / count - mean * mean
        return {
            "norm": np.where(empty, np.nan, np.sqrt(moments[:, SQUARES])),
            "mean": mean,
            "std": np.sqrt(np.maximum(variance, 0.0)),
            "min": np.where(np.isinf(moments[:, LEAST]) & (moments[:, LEAST] > 0), np.nan, moments[:, LEAST]),
            "max": np.where(np.isinf(moments[:, MOST]) & (moments[:, MOST] < 0), np.nan, moments[:, MOST]),
            "zero_ratio": moments[:, ZEROS] / count,
            "nonfinite_count": np.where(empty, np.nan, moments[:, NONFINITE]),
        }


def noise_scale(local: float, reduced: float, ranks: int) -> tuple[float, float]:
    """Return unbiased estimates of the gradient's variance and of its squared norm, per rank's batch.

    With the batch of one rank as unit, the small batch is 1 and the large one is ``ranks``; the simple noise
    scale is the ratio of running means of both. Source: McCandlish et al., "An Empirical Model of Large-Batch
    Training", 2018, appendix A.1.

    Args:
        local: Squared norm of a rank's own gradient, mean over the ranks.
        reduced: Squared norm of the mean of the ranks' gradients.
        ranks: How many.

    Returns:
        S, the trace of the covariance, and |G|^2.
    """
    squared = (ranks * reduced - local) / (ranks - 1)
    trace = (local - reduced) / (1 - 1 / ranks)
    return trace, squared
