"""Answer to ``GET gradient_norms``: the size of each parameter's gradient at a step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from stepscope.serve.encode import encoded
from stepscope.serve.integers import whole
from stepscope.serve.records.ask import run_of, thinned
from stepscope.serve.records.view_types import GradientNorm, GradientNorms
from stepscope.serve.series import number

if TYPE_CHECKING:
    from stepscope.store import Log

TAG = re.compile(r"gradients/(.+)/norm")
MAX_STEPS = 1000


def norms(query: Mapping[str, str], log: Log | None) -> bytes:
    """Return the norm of each parameter's gradient at a step, in the newest attempt.

    Raises:
        Refusal: No such run.
    """
    run = run_of(query, log)
    wanted = whole(query, "step", -1, 0, 1 << 62)
    found: list[GradientNorm] = []
    steps: set[int] = set()
    for tag in run.tags():
        match = TAG.fullmatch(tag)
        if match is None:
            continue
        series = run.columns(tag)[-1]
        steps.update(np.unique(series.step).tolist())
        known = np.arange(len(series.step)) if wanted < 0 else np.flatnonzero(series.step <= wanted)
        if len(known):
            at = int(known[-1])
            found.append(GradientNorm(match[1], int(series.step[at]), number(float(series.value[at]))))
    every = sorted(steps)
    shown = [every[at] for at in thinned(len(every), MAX_STEPS)]
    return encoded(GradientNorms(run.name, shown, found))
