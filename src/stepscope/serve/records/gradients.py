"""Answer to ``GET gradient_norms``: the size of each parameter's gradient at a step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.serve.records.ask import Step, thinned
from stepscope.serve.records.view_types import GradientNorm, GradientNorms
from stepscope.serve.routes import get
from stepscope.serve.series import number
from stepscope.store import Series, StoredRun
from stepscope.store.series import last_words

TAG = re.compile(r"gradients/(.+)/norm")
MAX_STEPS = 1000


@get("gradient_norms")
def norms(run: StoredRun, step: Step = None) -> GradientNorms:
    """Return the norm of each parameter's gradient at a step; of a step that was run again, the newest."""
    found: list[GradientNorm] = []
    steps: set[int] = set()
    for tag in run.tags():
        match = TAG.fullmatch(tag)
        if match is None:
            continue
        own, value = over_attempts(run.columns(tag))
        steps.update(np.unique(own).tolist())
        known = np.arange(len(own)) if step is None else np.flatnonzero(own <= step)
        if len(known):
            at = int(known[-1])
            found.append(GradientNorm(match[1], int(own[at]), number(float(value[at]))))
    every = sorted(steps)
    shown = [every[at] for at in thinned(len(every), MAX_STEPS)]
    return GradientNorms(run.name, shown, found)


def over_attempts(
    found: Sequence[Series],
) -> tuple[NDArray[np.signedinteger[Any]], NDArray[np.floating[Any]]]:
    """Return steps and values of all attempts of the newest writer, without repeated steps."""
    own = [each for each in found if each.writer == found[-1].writer]
    kept = [last_words(each.step, each.superseded_from) for each in own]
    step = np.concatenate([each.step[inside] for each, inside in zip(own, kept, strict=True)])
    value = np.concatenate([each.value[inside] for each, inside in zip(own, kept, strict=True)])
    return step, value
