"""Answer to ``GET gradient_norms``: the size of each parameter's gradient at a step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepscope.serve.encode import encoded
from stepscope.serve.integers import whole
from stepscope.serve.records.ask import run_of, thinned
from stepscope.serve.records.view_types import GradientNorm, GradientNorms
from stepscope.serve.series import number
from stepscope.store.series import last_words

if TYPE_CHECKING:
    from stepscope.store import Log, Series

TAG = re.compile(r"gradients/(.+)/norm")
MAX_STEPS = 1000


def norms(query: Mapping[str, str], log: Log | None) -> bytes:
    """Return the norm of each parameter's gradient at a step; of a step that was run again, the newest.

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
        step, value = over_attempts(run.columns(tag))
        steps.update(np.unique(step).tolist())
        known = np.arange(len(step)) if wanted < 0 else np.flatnonzero(step <= wanted)
        if len(known):
            at = int(known[-1])
            found.append(GradientNorm(match[1], int(step[at]), number(float(value[at]))))
    every = sorted(steps)
    shown = [every[at] for at in thinned(len(every), MAX_STEPS)]
    return encoded(GradientNorms(run.name, shown, found))


def over_attempts(
    found: Sequence[Series],
) -> tuple[NDArray[np.signedinteger[Any]], NDArray[np.floating[Any]]]:
    """Return steps and values of all attempts of the newest writer, without what was recorded again."""
    own = [each for each in found if each.writer == found[-1].writer]
    kept = [last_words(each.step, each.superseded_from) for each in own]
    step = np.concatenate([each.step[inside] for each, inside in zip(own, kept, strict=True)])
    value = np.concatenate([each.value[inside] for each, inside in zip(own, kept, strict=True)])
    return step, value
