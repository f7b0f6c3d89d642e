"""The part of a training step that an event belongs to: loading, forward, backward, optimizer.

Frameworks do not record phases, but names and autograd's links show them. The rules are the table below. An
event takes the phase of its nearest ancestor that has one, device work that of the call which launched it.
If a rank's backward pass was seen, operators without any phase are its forward pass; if no optimizer was
recognised, those after the last backward pass of a step are of no known phase, because they may be its.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from stepscope.attribute.named import of_names
from stepscope.kernels import tree
from stepscope.trace.distinct import distinct
from stepscope.trace.model import DEVICE_WORK, Kind, Trace, among
from stepscope.trace.names import Strings


class Phase(IntEnum):
    """A part of a training step; -1 if it is not known."""

    DATA_LOADING = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3


_OPTIMIZERS = r"(Ada\w+|Momentum|SGD|RMSProp\w*|Ftrl\w*|GradientDescent|Lion|Lamb)"

RULES: tuple[tuple[Phase, str], ...] = (
    # PyTorch: torch.optim's own annotations, and those of the usual hand-made ones
    (Phase.OPTIMIZER, r"^Optimizer\.(step|zero_grad)#"),
    (Phase.OPTIMIZER, r"(?i)^\W*optimi[sz]er([ _.]?(step|update|pass))?\W*$"),
    (Phase.BACKWARD, r"^(autograd::engine::evaluate_function|torch::autograd::)"),
    (Phase.BACKWARD, r"^\w+Backward\d*$"),
    (Phase.BACKWARD, r"(?i)^\W*(loss[ _.]?)?backward([ _.]?(step|pass))?\W*$"),
    (Phase.BACKWARD, r"^(DistributedDataParallel|FullyShardedDataParallel|FSDP)\W+\w*backward"),
    (Phase.FORWARD, r"^(DistributedDataParallel|FullyShardedDataParallel|FSDP)\W+\w*forward"),
    (Phase.FORWARD, r"(?i)^\W*(model[ _.]?)?forward([ _.]?(step|pass))?\W*$"),
    # JAX: the transformations that made an operator are part of its name
    (Phase.BACKWARD, r"\btranspose\("),
    (Phase.FORWARD, r"\bjvp\("),
    # TensorFlow and Keras: name scopes, and operators that update variables
    (Phase.BACKWARD, r"(^|/)(gradients?(_\d+)?|gradient_tape)(/|$)"),
    (Phase.OPTIMIZER, r"(^|/)(Resource)?(Sparse)?Apply" + _OPTIMIZERS),
    (Phase.OPTIMIZER, r"(^|/)" + _OPTIMIZERS + r"(_\d+)?(/|$)"),
)
"""First match wins. Names are searched for, not matched whole."""

_PIPELINE = re.compile(r"tf_data")
_TELLING = (Kind.HOST_OP, Kind.ANNOTATION, Kind.MODULE_SCOPE, *DEVICE_WORK)


@dataclass(frozen=True, slots=True)
class Phases:
    """The phase of every row."""

    phase: npt.NDArray[np.int32]
    """i4[rows], a :class:`Phase` or -1."""
    seen: frozenset[Phase]
    """Phases that any row has."""
    notes: tuple[str, ...]
    """Caveats about how phases were found."""


def phases(trace: Trace) -> Phases:
    """Return the phase of every row of a trace; it is found once."""
    return trace.derived("phases", lambda: _found(trace))


def _found(trace: Trace) -> Phases:
    own = of_names(trace, _phase_of, np.int32, -1)[trace.name] if len(trace) else np.zeros(0, np.int32)
    own = np.where(among(*_TELLING)[trace.kind], own, np.int32(-1))
    own[(own < 0) & (trace.forward >= 0)] = Phase.BACKWARD
    own[(trace.kind == Kind.DATA_LOADING) | pipeline_lanes(trace)[trace.lane]] = Phase.DATA_LOADING
    own = np.ascontiguousarray(own, np.int32)
    parent = np.ascontiguousarray(trace.parent, np.int32)
    tree.inherit(parent, own)
    if len(trace.scopes):
        # Last, because a backward operator has its forward operator's scope.
        scoped = (own < 0) & (trace.scope >= 0)
        own[scoped] = scope_phases(trace)[trace.scope[scoped]]
        tree.inherit(parent, own)
    _assume_forward(trace, own)
    launched = (trace.launch >= 0) & (own < 0)
    own[launched] = own[trace.launch[launched]]
    seen = frozenset(Phase(value) for value in distinct(own).tolist() if value >= 0)
    return Phases(own, seen, _notes(seen, marked=len(trace.steps) > 0))


def pipeline_lanes(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return whether each lane is a thread on which TensorFlow runs a ``tf.data`` pipeline.

    Waiting for them is waiting for data.
    """
    return np.array([bool(_PIPELINE.search(lane.thread or "")) for lane in trace.lanes] or [False], bool)


def name_phases(strings: Strings) -> npt.NDArray[np.int32]:
    """Return the phase that each name stands for, -1 for none."""
    return np.array([_phase_of(name) for name in strings.texts()], np.int32)


def _phase_of(name: str) -> int:
    if not _ANY.search(name):
        return -1
    return next(phase for phase, rule in _COMPILED if rule.search(name))


def _ungrouped(rule: str) -> str:
    """Return a rule as one alternation can hold it: without groups and flags of its own."""
    text = re.sub(r"\((?!\?)", "(?:", rule.replace(r"\(", "\0")).replace("\0", r"\(")
    return f"(?i:{text[4:]})" if text.startswith("(?i)") else text


_COMPILED = [(phase, re.compile(rule)) for phase, rule in RULES]
_ANY = re.compile("|".join(_ungrouped(rule) for _, rule in RULES))
"""Whether any rule matches: most names match none, and one search is faster than thirteen."""


def scope_phases(trace: Trace) -> npt.NDArray[np.int32]:
    """Return the phase that each module scope stands for, its outer scopes' if it has none."""
    found = np.ascontiguousarray(name_phases(trace.scopes.strings)[trace.scopes.name], np.int32)
    tree.inherit(np.ascontiguousarray(trace.scopes.parent, np.int32), found)
    return found


def _assume_forward(trace: Trace, phase: npt.NDArray[np.int32]) -> None:
    for rank in distinct(trace.rank[phase == Phase.BACKWARD]):
        mine = (trace.rank == rank) & (phase < 0)
        operators = mine & (trace.kind == Kind.HOST_OP)
        if not (phase[trace.rank == rank] == Phase.OPTIMIZER).any():
            operators &= ~_after_backward(trace, rank, phase)
        phase[operators] = Phase.FORWARD
    # Runtime calls below those operators, and calls of theirs that were recorded without one.
    tree.inherit(np.ascontiguousarray(trace.parent, np.int32), phase)


def _after_backward(trace: Trace, rank: int, phase: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return whether each event begins after the backward passes of its step on one rank."""
    inside = (trace.rank == rank) & (trace.step >= 0) & (trace.device < 0)
    backward = np.flatnonzero(inside & (phase == Phase.BACKWARD))
    number, place = np.unique(trace.step[backward], return_inverse=True)
    if not len(number):
        return np.zeros(len(trace), np.bool_)
    ends = np.zeros(len(number), np.int64)
    np.maximum.at(ends, place.ravel(), trace.end_ns[backward])
    at = np.minimum(np.searchsorted(number, trace.step), len(number) - 1)
    after: npt.NDArray[np.bool_] = inside & (number[at] == trace.step) & (trace.start_ns >= ends[at])
    return after


def _notes(seen: frozenset[Phase], *, marked: bool) -> tuple[str, ...]:
    if Phase.BACKWARD not in seen or Phase.OPTIMIZER in seen:
        return ()
    where = (
        "operators after the backward pass are in no known part"
        if marked
        else ("its operators count as forward, because no steps say where the backward pass ends")
    )
    return (f"no optimizer was recognised: {where}",)
