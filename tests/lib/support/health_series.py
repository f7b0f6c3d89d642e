"""What all health rules say of made series."""

from __future__ import annotations

import numpy as np

from stepscope.health import Monitor

START = 1_700_000_000.0


def found(series, *, step_s=1.0):
    """The rules that open on some series."""
    return [finding.rule for finding in findings(series, step_s=step_s)]


def findings(series, *, step_s=1.0):
    """The findings on some series: by tag, values of every step, or (steps, values, times)."""
    monitor = Monitor()
    for tag, points in series.items():
        if isinstance(points, tuple):
            steps, values, walls = points
        else:
            values = np.asarray(points, float)
            steps = np.arange(len(values))
            walls = START + step_s * steps
        monitor.take(tag, np.asarray(steps), np.asarray(values, float), np.asarray(walls, float))
    monitor.finish()
    return monitor.verdict.findings


def noise(count, scale=1.0, seed=0):
    return scale * np.random.default_rng(seed).normal(size=count)
