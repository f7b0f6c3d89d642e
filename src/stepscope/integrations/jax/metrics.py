"""Metrics of Flax and CommonLoopUtils as tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def prefixed(prefix: str, metrics: Any) -> dict[str, Any]:
    """Return metrics for ``run.scalars`` under a prefix: ``run.scalars(prefixed("eval", metrics))``.

    Args:
        prefix: "train" or "eval", so that both are drawn on one chart.
        metrics: Values by name, possibly nested, or an object that computes them: an ``nnx.MultiMetric`` or a
            collection of ``clu.metrics``.
    """
    compute = getattr(metrics, "compute", None)
    values = compute() if callable(compute) else metrics
    if not isinstance(values, Mapping):
        return {prefix: values}
    numbers: dict[str, Any] = {}
    for name, value in values.items():
        numbers.update(prefixed(f"{prefix}/{name}" if prefix else str(name), value))
    return numbers
