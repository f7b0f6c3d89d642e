"""The purpose of every event, how it is known, and the activity that holds it.

Frameworks do not record purposes, but kinds, names, stacks and autograd's links show them; the names are in
:mod:`~stepscope.attribute.table`. In this order:

1. The model's parts. An event has the purpose of its nearest ancestor that has one, device work that of the
   call which launched it. If a rank's backward pass was seen, operators without any purpose are its forward
   pass; if no optimizer was recognised, those after the last backward pass of a step have none, because they
   may be its.
2. Activities, such as loading, saving, an evaluation. The outermost one holds everything in it, except work
   of the backward pass or the optimizer that is better known than the activity: a function called
   ``evaluate`` that trains does not evaluate.
3. Waits, exchanges between ranks and copies to a device, each by its own kind or name.

What none of this reaches has the purpose :attr:`Purpose.UNKNOWN`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.attribute.evaluations import modules_without_gradients, programs_without_gradients
from stepscope.attribute.named import named, of_names
from stepscope.attribute.purpose import SOURCE_OF_KIND, Purpose, Source
from stepscope.attribute.spans import Ints
from stepscope.attribute.table import ACTIVITY_NAMES, MODEL_NAMES, OWN_NAMES, STACK_NAMES, TO_DEVICE, Part
from stepscope.kernels import tree
from stepscope.trace.distinct import distinct
from stepscope.trace.model import DEVICE_WORK, Kind, Trace, among

Codes = npt.NDArray[np.int32]
"""A purpose and its source in one number, -1 without a purpose."""

_PIPELINE = re.compile(r"tf_data")
_MODEL_KINDS = (Kind.HOST_OP, Kind.ANNOTATION, Kind.MODULE_SCOPE, *DEVICE_WORK)
_ACTIVITY_KINDS = (
    Kind.HOST_OP, Kind.PYTHON_FRAME, Kind.ANNOTATION, Kind.RUNTIME_CALL, Kind.OTHER, Kind.MODULE_SCOPE,
)  # fmt: skip
_OWN_KINDS = (*_ACTIVITY_KINDS, Kind.SEND_RECV)
_TRAINING = (Purpose.BACKWARD, Purpose.OPTIMIZER, Purpose.GRADIENTS)
_MOST_OPERATORS = 20
"""Operators that starting or stopping a profiler may run."""
_OF_KIND = {
    Kind.COLLECTIVE: Purpose.COLLECTIVE, Kind.SEND_RECV: Purpose.POINT_TO_POINT,
    Kind.OVERHEAD: Purpose.PROFILING,
}  # fmt: skip
"""Kinds that are a purpose, whatever lies around them."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Columns beside those of a trace, one value per event."""

    purpose: npt.NDArray[np.uint8]
    """A :class:`~stepscope.attribute.purpose.Purpose`."""
    source: npt.NDArray[np.uint8]
    """How it is known, a :class:`~stepscope.attribute.purpose.Source`."""
    holder: npt.NDArray[np.int32]
    """Row of the outermost activity around the event, or of the event if it is one; -1 = none."""
    seen: frozenset[Purpose]
    """Purposes that any event has."""
    without_gradients: Ints
    """Calls of modules that are recognized as an evaluation by their content."""
    notes: tuple[str, ...]
    """Caveats about how they were found."""

    def of(self, *purposes: Purpose) -> npt.NDArray[np.bool_]:
        """Return whether each event has one of some purposes."""
        table = np.zeros(len(Purpose), bool)
        table[list(purposes)] = True
        flags: npt.NDArray[np.bool_] = table[self.purpose]
        return flags


def attribution(trace: Trace) -> Attribution:
    """Return the purpose of every event of a trace; it is found once."""
    return trace.derived("attribution", lambda: _found(trace))


def _found(trace: Trace) -> Attribution:
    parent = np.ascontiguousarray(trace.parent, np.int32)
    code, stated = _model(trace, parent)
    notes = _notes(_purposes(code), marked=len(trace.steps) > 0)
    backward = np.flatnonzero((trace.kind == Kind.HOST_OP) & _is(code, Purpose.BACKWARD))
    without_gradients = modules_without_gradients(trace, backward)
    activity = _activities(trace)
    activity[without_gradients] = _code(Purpose.EVALUATING, Source.POSITION)
    holder = _holders(trace, activity, parent)
    within = np.flatnonzero(holder >= 0)
    held = activity[holder[within]]
    keeps = _is(code[within], *_TRAINING) & (code[within] >> 8 > held >> 8)
    keeps &= stated[within] > holder[within]
    # An activity does not make weaker how an event is known to be of the same purpose.
    keeps |= ((code[within] ^ held) & 0xFF == 0) & (code[within] > held)
    code[within] = np.where(keeps, code[within], held)
    programs = programs_without_gradients(trace)
    code[programs] = _code(Purpose.EVALUATING, Source.POSITION)
    copies = (trace.kind == Kind.MEMCPY) & named(trace, TO_DEVICE)[trace.name]
    code[copies & ((code < 0) | (code >> 8 < Source.NAME))] = _code(Purpose.COPYING, Source.NAME)
    for kind, exchange in _OF_KIND.items():
        code[trace.kind == kind] = _code(exchange, Source.RECORDED)
    number = of_names(trace, OWN_NAMES.number_of, np.int32, -1)[trace.name]
    alone = (holder < 0) | among(*_OF_KIND)[trace.kind]
    own = (number >= 0) & alone & among(*_OWN_KINDS)[trace.kind] & (trace.device < 0)
    code[own] = _codes(OWN_NAMES, number[own], trace.kind[own])
    code[trace.kind == Kind.STEP] = -1
    known = np.where(code >= 0, code, _code(Purpose.UNKNOWN, Source.NONE))
    purpose, source = (known & 0xFF).astype(np.uint8), (known >> 8).astype(np.uint8)
    return Attribution(purpose, source, holder, _purposes(code), without_gradients, notes)


def _is(code: Codes, *purposes: Purpose) -> npt.NDArray[np.bool_]:
    return (code >= 0) & np.isin(code & 0xFF, purposes)


def _purposes(code: Codes) -> frozenset[Purpose]:
    return frozenset(Purpose(value & 0xFF) for value in distinct(code).tolist() if value >= 0)


def _code(purpose: Purpose, source: Source) -> int:
    return purpose | source << 8


def _codes(part: Part, number: Ints | Codes, kind: Ints) -> Codes:
    """Return the code of each event by the rule that matches its name and by its kind."""
    purpose = np.array([rule.purpose for rule in part.rules], np.int32)
    source = np.array([-1 if rule.source is None else rule.source for rule in part.rules], np.int32)
    known = np.where(source[number] >= 0, source[number], SOURCE_OF_KIND[kind])
    return np.where(number >= 0, purpose[number] | known << 8, -1).astype(np.int32)


def _model(trace: Trace, parent: Codes) -> tuple[Codes, Codes]:
    """Return the code of each event as a part of the model or as loading, and the row that states it."""
    if not len(trace):
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    number = of_names(trace, MODEL_NAMES.number_of, np.int32, -1)[trace.name]
    code = np.where(among(*_MODEL_KINDS)[trace.kind], _codes(MODEL_NAMES, number, trace.kind), np.int32(-1))
    link = _code(Purpose.BACKWARD, Source.LINK)
    code[(trace.forward >= 0) & ((code < 0) | (code >> 8 < Source.LINK))] = link
    code[pipeline_lanes(trace)[trace.lane]] = _code(Purpose.LOADING, Source.THREAD)
    code[trace.kind == Kind.DATA_LOADING] = _code(Purpose.LOADING, Source.RECORDED)
    code = np.ascontiguousarray(code, np.int32)
    stated = np.empty(len(trace), np.int32)
    own = (code >= 0) & ((parent < 0) | (code != code[parent]))
    tree.nearest(parent, own.astype(np.uint8), stated)
    tree.inherit(parent, code)
    if len(trace.scopes):
        # Last, because a backward operator has its forward operator's scope.
        scoped = (code < 0) & (trace.scope >= 0)
        code[scoped] = _of_scopes(trace)[trace.scope[scoped]]
        tree.inherit(parent, code)
    _from_stacks(trace, code, parent)
    _assume_forward(trace, code, parent)
    launched = (trace.launch >= 0) & (code < 0)
    code[launched], stated[launched] = code[trace.launch[launched]], stated[trace.launch[launched]]
    return code, stated


def _of_scopes(trace: Trace) -> Codes:
    """Return the code that each module scope stands for, its outer scopes' if it has none."""
    texts = trace.scopes.strings.texts()
    number = np.array([MODEL_NAMES.number_of(text) for text in texts], np.int32)[trace.scopes.name]
    code = np.ascontiguousarray(_codes(MODEL_NAMES, number, np.full(len(number), Kind.HOST_OP)), np.int32)
    tree.inherit(np.ascontiguousarray(trace.scopes.parent, np.int32), code)
    return code


def _from_stacks(trace: Trace, code: Codes, parent: Codes) -> None:
    """Give frames, and all below them, the parts of the model that their files and functions are."""
    frames = trace.kind == Kind.PYTHON_FRAME
    if not frames.any():
        return
    number = of_names(trace, STACK_NAMES.number_of, np.int32, -1)[trace.name]
    of_frame = np.where(frames, _codes(STACK_NAMES, number, trace.kind), -1)
    forward = _is(of_frame, Purpose.FORWARD)
    # A forward pass within the backward pass, or a loss within the optimizer's step, is a part of these.
    for mine in ((of_frame >= 0) & ~forward, forward):
        stated = mine & (code < 0)
        code[stated] = of_frame[stated]
        tree.inherit(parent, code)


def _assume_forward(trace: Trace, code: Codes, parent: Codes) -> None:
    backward, optimizer = _is(code, Purpose.BACKWARD), _is(code, Purpose.OPTIMIZER)
    for rank in distinct(trace.rank[backward]):
        mine = trace.rank == rank
        operators = mine & (code < 0) & (trace.kind == Kind.HOST_OP)
        if not optimizer[mine].any():
            operators &= ~_after_backward(trace, rank, backward)
        code[operators] = _code(Purpose.FORWARD, Source.POSITION)
    # Runtime calls below those operators, and calls of theirs that were recorded without one.
    tree.inherit(parent, code)


def _after_backward(trace: Trace, rank: int, backward: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return whether each event begins after the backward passes of its step on one rank."""
    inside = (trace.rank == rank) & (trace.step >= 0) & (trace.device < 0)
    rows = np.flatnonzero(inside & backward)
    number, place = np.unique(trace.step[rows], return_inverse=True)
    if not len(number):
        return np.zeros(len(trace), np.bool_)
    ends = np.zeros(len(number), np.int64)
    np.maximum.at(ends, place.ravel(), trace.end_ns[rows])
    at = np.minimum(np.searchsorted(number, trace.step), len(number) - 1)
    after: npt.NDArray[np.bool_] = inside & (number[at] == trace.step) & (trace.start_ns >= ends[at])
    return after


def _notes(seen: frozenset[Purpose], *, marked: bool) -> tuple[str, ...]:
    if Purpose.BACKWARD not in seen or Purpose.OPTIMIZER in seen:
        return ()
    where = (
        "operators after the backward pass are in no known part"
        if marked
        else ("its operators count as forward, because no steps say where the backward pass ends")
    )
    return (f"no optimizer was recognised: {where}",)


def pipeline_lanes(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return whether each lane is a thread on which TensorFlow runs a ``tf.data`` pipeline.

    Waiting for them is waiting for data.
    """
    return np.array([bool(_PIPELINE.search(lane.thread or "")) for lane in trace.lanes] or [False], bool)


def _activities(trace: Trace) -> Codes:
    """Return the code of the activity that each event of the host begins, -1 for none."""
    number = of_names(trace, ACTIVITY_NAMES.number_of, np.int32, -1)[trace.name]
    code = np.where(among(*_ACTIVITY_KINDS)[trace.kind], _codes(ACTIVITY_NAMES, number, trace.kind), -1)
    code[trace.kind == Kind.DATA_LOADING] = _code(Purpose.LOADING, Source.RECORDED)
    code[trace.kind == Kind.OVERHEAD] = _code(Purpose.PROFILING, Source.RECORDED)
    code[trace.device >= 0] = -1
    return code.astype(np.int32)


def _holders(trace: Trace, activity: Codes, parent: Codes) -> npt.NDArray[np.int32]:
    """Return the row of the outermost activity around each event, -1 = none."""
    rows = np.flatnonzero((activity >= 0) & (trace.duration_ns > 0))
    rows = rows[~_around_steps(trace, rows)]
    profiling = rows[activity[rows] & 0xFF == Purpose.PROFILING]
    rows = np.setdiff1d(rows, profiling[_open(trace, profiling)], assume_unique=True)
    nothing = np.iinfo(np.int32).max
    first = np.full(len(trace), nothing, np.int32)
    first[rows] = rows
    # Rows are in the order of calls: the outermost activity is the first row of all around an event.
    tree.least(parent, first)
    holder = np.where(first < nothing, first, -1).astype(np.int32)
    launched = (trace.launch >= 0) & (trace.device >= 0)
    holder[launched] = holder[trace.launch[launched]]
    return holder


def _around_steps(trace: Trace, rows: Ints) -> npt.NDArray[np.bool_]:
    """Return whether each row contains a whole step: it is a program around the steps, no activity."""
    start, end = np.sort(trace.steps.start_ns), np.sort(trace.steps.end_ns)
    if not len(start):
        return np.zeros(len(rows), bool)
    first = np.searchsorted(start, trace.start_ns[rows], side="left")
    last = np.searchsorted(end, trace.end_ns[rows], side="right") - 1
    return np.asarray(last >= first)


def _open(trace: Trace, rows: Ints) -> npt.NDArray[np.bool_]:
    """Return whether each row is a start of the profiler within which other work ran.

    The end of a frame that runs when recording begins is never seen: recorders let it last until they stop.
    """
    opened = np.zeros(len(rows), bool)
    for lane in distinct(trace.lane[rows]).tolist():
        mine = trace.lane[rows] == lane
        start = np.sort(trace.start_ns[(trace.kind == Kind.HOST_OP) & (trace.lane == lane)])
        here = rows[mine]
        inside = np.searchsorted(start, trace.end_ns[here]) - np.searchsorted(start, trace.start_ns[here])
        opened[mine] = inside > _MOST_OPERATORS
    return opened
