"""Answer to ``GET gradient_norms``: the size of each parameter's gradient at a step, and before it fell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepscope.health.changes import LoggedChange
from stepscope.serve.changes import ChangeAnswers
from stepscope.serve.encode import number
from stepscope.serve.records.ask import Step, thinned
from stepscope.serve.routes import Backend, get
from stepscope.serve.types import NonFinite
from stepscope.store import Series, StoredRun
from stepscope.store.series import last_words


class GradientNorm(msgspec.Struct, frozen=True):
    """L2 norm of the gradient of one parameter."""

    parameter: str
    step: int
    norm: float | NonFinite
    before: float | NonFinite | None
    """At the earlier step; null: it was not recorded then."""
    fell: bool
    """Whether it fell when most parameters did, and stayed so."""


class GradientNorms(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/gradient_norms?run=&step=``."""

    run: str
    steps: list[int]
    """Steps at which norms were recorded, thinned evenly if they are many, with the newest kept."""
    norms: list[GradientNorm]
    """The newest of each parameter that is not after the requested step; a parameter without one is left
    out.
    """
    before_step: int | None
    """The step of ``before``."""
    fell: list[int]
    """First and last step at which those that fell may have begun to; empty: none did."""


TAG = re.compile(r"gradients/(.+)/norm")
MAX_STEPS = 1000


@get("gradient_norms")
def norms(run: StoredRun, backend: Backend, step: Step = None) -> GradientNorms:
    """Return the norm of each parameter's gradient at a step, and before; of a step run again, the newest.

    Before is the last step before the change log says that the gradients of most parameters fell at one time
    and stayed so; if none did, or not yet at the step, it is the first step.
    """
    columns = {
        match[1]: over_attempts(run.columns(tag)) for tag in run.tags() if (match := TAG.fullmatch(tag))
    }
    steps: list[int] = sorted({own for steps, _ in columns.values() for own in np.unique(steps).tolist()})
    if not steps:
        return GradientNorms(run.name, [], [], None, [])
    fallen, interval = fall(backend.part(ChangeAnswers).lines(run))
    if not interval or (step is not None and step < interval[0]):
        fallen, interval = set(), None
    before_step = max([own for own in steps if interval and own < interval[0]] or steps[:1])
    norms = []
    for parameter, (own, value) in columns.items():
        known = np.arange(len(own)) if step is None else np.flatnonzero(own <= step)
        if len(known):
            at = int(known[-1])
            earlier = np.flatnonzero(own <= before_step)
            before = number(float(value[earlier[-1]])) if len(earlier) else None
            norm = number(float(value[at]))
            norms.append(GradientNorm(parameter, int(own[at]), norm, before, parameter in fallen))
    shown = [steps[at] for at in thinned(len(steps), MAX_STEPS)]
    return GradientNorms(run.name, shown, norms, before_step, list(interval or ()))


def fall(changes: Sequence[LoggedChange]) -> tuple[set[str], tuple[int, int] | None]:
    """Return the parameters whose gradients fell at one time and stayed so, and the steps of that time.

    It is the step that lies in the onsets of most of them; of several such, the latest.
    """
    onsets = {}
    for line in changes:
        match, change = TAG.fullmatch(line.tag), line.change
        if not match or not change.lasts or change.before is None or change.after is None:
            continue
        if change.after < change.before:
            onsets[match[1]] = change.first_step, change.last_step
    together: set[str] = set()
    for _, at in sorted(onsets.values()):
        fallen = {name for name, (first, last) in onsets.items() if first <= at <= last}
        if len(fallen) >= len(together):
            together = fallen
    if not together:
        return set(), None
    return together, (max(onsets[name][0] for name in together), min(onsets[name][1] for name in together))


def over_attempts(
    attempts: Sequence[Series],
) -> tuple[NDArray[np.signedinteger[Any]], NDArray[np.floating[Any]]]:
    """Return steps and values of all attempts of the newest writer, without repeated steps."""
    own = [one for one in attempts if one.writer == attempts[-1].writer]
    masks = [last_words(one.step, one.superseded_from) for one in own]
    step = np.concatenate([one.step[inside] for one, inside in zip(own, masks, strict=True)])
    value = np.concatenate([one.value[inside] for one, inside in zip(own, masks, strict=True)])
    return step, value
