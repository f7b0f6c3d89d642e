"""Stacks of the training thread that were sampled beside a profile, in the profile's own time.

They lie in ``PROFILE.stacks`` (see ``capture.sampler``), one file for each profile. They have a different
clock; the steps known to both join them.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from stepscope.trace.model import Trace
from stepscope.trace.tables import Ints

ENDING = ".stacks"
SCHEMA = 1
MOST_BYTES = 256 << 20
"""Most bytes of an unpacked file; usual ones have some thousand stacks."""
MOST_SKEW_NS, MOST_SKEW = 5_000_000, 0.25
"""Steps whose beginnings differ by more between the clocks, and by more than this share of the shortest of
them, are not the same."""


@dataclass(frozen=True)
class Places:
    """The places of a recorded process's code.

    Attributes:
        folders: Of the standard library and of installed packages, each with a slash at its end.
        installed: Top-level modules that were loaded from them.
        own: All other files that were loaded.
    """

    folders: tuple[str, ...]
    installed: frozenset[str]
    own: frozenset[str]


@dataclass(frozen=True)
class Holder:
    """A thread that had the interpreter while the sampler waited for it.

    Attributes:
        thread: Its name.
        at_ns: The samples that it made late, by their end, in the trace's time.
        ran_ns: How long it had run since the sample before each.
        stack: Its stack then, as a number into the stacks of the samples.
    """

    thread: str
    at_ns: Ints
    ran_ns: Ints
    stack: Ints


class Made(NamedTuple):
    """An object that a line of the program calls or loops over.

    Attributes:
        name: Its name there.
        places: The lines that made it, as frames, the innermost first.
        set_up: Those that called it to set it up.
        again: Those that do so in a loop, after it was set up before.
    """

    name: str
    places: tuple[str, ...]
    set_up: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


class Needless(NamedTuple):
    """Calls whose work was needless, as the values of two steps after a capture tell.

    Attributes:
        kind: ``again`` in the step, ``before`` in the step before, ``unused``, ``longer`` each time, the
            ``order`` of two products, ``padded``, ``zeros``, ``enlarged``
            before a product, ``ignored`` by the loss, of ``weights`` alone.
        calls: Their numbers in the step that is marked.
        line: The line that makes them, as a frame.
        other: The line that made the same before; empty without.
        name: The function that most of them call, or what is known of the values.
        ratio: The share of their work that was needless.
    """

    kind: str
    calls: tuple[int, ...]
    line: str
    other: str
    name: str
    ratio: float


class Followed(NamedTuple):
    """The values of two steps after a capture.

    Attributes:
        after_ns: The end of the capture's samples, in the trace's time.
        calls: Number of calls of the second step.
        facts: Those that were needless.
        stopped: Why they were not followed to the end; empty if they were.
    """

    after_ns: int
    calls: int
    facts: tuple[Needless, ...]
    stopped: str


@dataclass(frozen=True)
class Looked:
    """A thread by looks at it now and then.

    Attributes:
        looks: Their number, 0 = there were none.
        shares: The share of the time in each line, as a frame.
    """

    looks: int = 0
    shares: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Samples:
    """Samples of one rank's training thread, in order of time.

    Attributes:
        lane: The thread's lane in the trace.
        start_ns: Start of each sample's time, that of the sample before, in the trace's time.
        end_ns: When it was taken.
        runnable_ns: How long the thread ran or waited for a processor in between, -1 = not known.
        queued_ns: How much of that it waited for a processor, None = not known.
        stack: Number into ``stacks``.
        stacks: Numbers into ``frames``, outermost first.
        frames: ``file.py(12): function``, with the line that ran.
        around: Stacks in which steps began.
        interval_ns: How far apart they were meant to be.
        workers: Samples of worker processes that load data, each while it fetched a batch; without a lane.
        called: Samples of threads of this process that ran Python for another runtime, as XLA's callbacks do.
        compiled: Compilations as far as the framework tells: when, function, types and shapes given.
        directory: The program's directory, for shorter names; ``""`` if that is not known.
        steps: Numbers of the steps that were sampled.
        settings: The program's settings when the capture started, by name; see ``capture.settings``.
        setters: The lines that changed them, as frames.
        places: Where its code lay, None if that was not recorded.
        holders: Threads that had the interpreter while the sampler waited for it.
        made: What lines call, by file and line as in a frame.
        looked: What looks at the whole training saw until then.
        followed: The values of the steps after each capture that followed them.
    """

    lane: int
    start_ns: Ints
    end_ns: Ints
    runnable_ns: Ints
    stack: Ints
    stacks: tuple[tuple[int, ...], ...]
    frames: tuple[str, ...]
    directory: str = ""
    around: tuple[int, ...] = ()
    interval_ns: int = 0
    workers: tuple[Samples, ...] = ()
    called: tuple[Samples, ...] = ()
    compiled: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    queued_ns: Ints | None = None
    steps: frozenset[int] = frozenset()
    settings: dict[str, bool | int | str] = field(default_factory=dict)
    places: Places | None = None
    setters: dict[str, str] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    made: dict[str, tuple[Made, ...]] = field(default_factory=dict)
    looked: Looked = Looked()
    followed: tuple[Followed, ...] = ()

    def __len__(self) -> int:
        return len(self.stack)


def load_samples(trace: Trace) -> dict[int, Samples]:
    """Return the samples beside the files of a trace, by rank; without those that cannot be joined."""
    every = (
        (rank, samples_of(trace, rank)) for rank in dict.fromkeys(source.rank for source in trace.sources)
    )
    return {rank: samples for rank, samples in every if samples is not None}


def samples_of(trace: Trace, rank: int) -> Samples | None:
    """Return the samples beside all files of a rank, one after another; None if none can be joined."""
    sampled: list[Samples] = []
    for source in trace.sources:
        path = Path(source.path + ENDING)
        if source.rank != rank or not source.path or not path.is_file():
            continue
        document = _read(path)
        samples = None if document is None else _joined(trace, rank, document)
        if samples is not None:
            sampled.append(samples)
    if not sampled:
        return None
    # A thread whose name was not recorded each time has several lanes: one is judged, that of most captures.
    lanes = [one.lane for one in sampled]
    lane = max(lanes, key=lanes.count)
    return one_after_another([one for one in sampled if one.lane == lane])


def one_after_another(captures: Sequence[Samples]) -> Samples:
    """Return the samples of several captures of one thread as one, in order of time."""
    if len(captures) == 1:
        return captures[0]
    captures = sorted(captures, key=lambda one: int(one.end_ns[0]))
    frames: dict[str, int] = {}
    known = [[frames.setdefault(text, len(frames)) for text in one.frames] for one in captures]
    stack = np.cumsum([0, *(len(one.stacks) for one in captures)]).tolist()
    queued = [one.queued_ns for one in captures if one.queued_ns is not None]
    return Samples(
        captures[0].lane,
        np.concatenate([one.start_ns for one in captures]),
        np.concatenate([one.end_ns for one in captures]),
        np.concatenate([one.runnable_ns for one in captures]),
        np.concatenate([one.stack + first for one, first in zip(captures, stack, strict=False)]),
        tuple(
            tuple(numbers[number] for number in frames)
            for one, numbers in zip(captures, known, strict=True)
            for frames in one.stacks
        ),
        tuple(frames),
        captures[0].directory,
        tuple(number + first for one, first in zip(captures, stack, strict=False) for number in one.around),
        max(one.interval_ns for one in captures),
        tuple(worker for one in captures for worker in one.workers),
        tuple(thread for one in captures for thread in one.called),
        tuple(compilation for one in captures for compilation in one.compiled),
        np.concatenate(queued) if len(queued) == len(captures) else None,
        frozenset().union(*(one.steps for one in captures)),
        captures[-1].settings,
        captures[0].places,
        captures[-1].setters,
        tuple(
            replace(holder, stack=holder.stack + first)
            for one, first in zip(captures, stack, strict=False)
            for holder in one.holders
        ),
        {line: objects for one in captures for line, objects in one.made.items()},
        captures[-1].looked,
        tuple(followed for one in captures for followed in one.followed),
    )


def places_of(trace: Trace) -> Places | None:
    """Return where the code of the first process of a trace lay, None if that was not recorded."""
    for source in trace.sources:
        document = _read(Path(source.path + ENDING)) if source.path else None
        if document is not None and (places := _as(Places, document.get("places"))) is not None:
            return places
    return None


def _read(path: Path) -> dict[str, Any] | None:
    """Return the file's document, None if it is damaged or of another version."""
    try:
        with gzip.open(path) as file:
            data = file.read(MOST_BYTES + 1)
        document = json.loads(data) if len(data) <= MOST_BYTES else None
    except (OSError, ValueError, EOFError, zlib.error, RecursionError):
        return None
    return document if isinstance(document, dict) and document.get("schema") == SCHEMA else None


Ns = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Columns = list[Ns]


class _Thread(msgspec.Struct):
    """A file's samples of one thread: by time the number of a stack, whose frames are numbers, too."""

    times_ns: Columns
    samples: Columns
    frames: tuple[str, ...]
    stacks: tuple[tuple[int, ...], ...]

    def arrays(self) -> tuple[Ints, Ints] | None:
        """Return the times and the stacks' numbers; None if they are too few, or not all in the file."""
        times, number = (np.array(column, np.int64) for column in (self.times_ns, self.samples))
        known = all(0 <= frame < len(self.frames) for stack in self.stacks for frame in stack)
        whole = len(times) == len(number) > 1 and known and self.holds(number)
        return (times, number) if whole else None

    def holds(self, number: Ints) -> bool:
        """Return whether there are stacks of all these numbers."""
        return bool(number.min(initial=0) >= 0 and number.max(initial=-1) < len(self.stacks))


class _Training(_Thread):
    """The same of the training's thread, with how long it ran, and its steps: number, time and stack."""

    runnable_ns: Columns
    steps: list[tuple[int, Ns, Ns]]
    interval_ns: Ns


class _Late(msgspec.Struct):
    """Samples that a thread made late."""

    thread: str
    times_ns: Columns
    ran_ns: Columns
    samples: Columns


Part = TypeVar("Part")


def _as(kind: type[Part], data: object) -> Part | None:
    """Return a part of a document; None if it is damaged or not there."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return None


def _each(kind: type[Part], data: object) -> list[Part]:
    """Return those entries of a list that are not damaged."""
    entries = (_as(kind, entry) for entry in (data if isinstance(data, list) else ()))
    return [entry for entry in entries if entry is not None]


def _joined(trace: Trace, rank: int, document: dict[str, Any]) -> Samples | None:
    thread = _as(_Training, document)
    arrays = None if thread is None else thread.arrays()
    if thread is None or arrays is None:
        return None
    (times, number), runnable = arrays, np.array(thread.runnable_ns, np.int64)
    begun = {step: at_ns for step, at_ns, _ in thread.steps}
    around = tuple(stack for _, _, stack in thread.steps)
    place = _place(trace, rank, begun)
    whole = len(runnable) == len(times) and bool((np.diff(times) >= 0).all())
    if place is None or not whole or not thread.holds(np.array(around, np.int64)):
        return None
    lane, shift = place
    spent, queued = np.diff(runnable), _queued(document.get("queued_ns"), len(times))
    if (runnable < 0).any():
        spent = np.full(len(spent), -1)
    elif queued is not None:
        spent, queued = settled(np.diff(times), spent, queued)
    directory = _as(str, document.get("cwd")) or ""
    shared = {"frames": thread.frames, "stacks": thread.stacks}
    called = [{**one, **shared} for one in _each(dict, document.get("called"))]
    workers = [_worker(one, shift, directory) for one in _each(_Thread, document.get("workers"))]
    threads = [_worker(one, shift, directory, thread.interval_ns) for one in _each(_Thread, called)]
    settings, setters = (_as(dict, document.get(name)) or {} for name in ("settings", "setters"))
    compiled = _as(list[tuple[Ns, str, tuple[str, ...]]], document.get("compiled")) or ()
    held = [
        Holder(one.thread, np.array(one.times_ns, np.int64) + shift, np.array(one.ran_ns, np.int64), stack)
        for one in _each(_Late, document.get("held"))
        if thread.holds(stack := np.array(one.samples, np.int64))
        and len(one.times_ns) == len(one.ran_ns) == len(stack)
    ]
    return Samples(
        lane, times[:-1] + shift, times[1:] + shift, spent, number[1:], thread.stacks, thread.frames,
        directory, around, thread.interval_ns, tuple(filter(None, workers)), tuple(filter(None, threads)),
        tuple((when + shift, name, shapes) for when, name, shapes in compiled), queued, frozenset(begun),
        {name: value for name, value in settings.items() if isinstance(value, bool | int | str)},
        _as(Places, document.get("places")), {str(name): str(line) for name, line in setters.items()},
        tuple(held), _as(dict[str, tuple[Made, ...]], document.get("made")) or {},
        _as(Looked, document.get("looked")) or Looked(),
        _followed(document.get("values"), int(times[-1]) + shift),
    )  # fmt: skip


class _Values(msgspec.Struct):
    """The values of the steps after a capture, as a file has them."""

    calls: int = 0
    facts: tuple[dict[str, Any], ...] = ()
    stopped: str = ""


def _followed(data: object, after_ns: int) -> tuple[Followed, ...]:
    """Return the values that were followed after a capture; none if they were not, or not in whole steps."""
    values = _as(_Values, data)
    if values is None or not (values.calls or values.stopped):
        return ()
    facts = [_as(Needless, [fact.get(name) for name in Needless._fields]) for fact in values.facts]
    known = tuple(one for one in facts if one is not None)
    return (Followed(after_ns, values.calls, known, values.stopped),)


def _queued(data: object, count: int) -> Ints | None:
    """Return how long the thread waited for a processor between samples, None if that is not known."""
    queued = np.array(_as(Columns, data) or [], np.int64)
    return np.diff(queued) if queued.shape == (count,) and (queued >= 0).all() else None


def settled(length: Ints, runnable: Ints, queued: Ints) -> tuple[Ints, Ints]:
    """Return how long a thread was runnable and queued in each sample, a wait counted in its own sample.

    Linux adds a wait for a processor to a thread's account when it is over: samples taken meanwhile see a
    thread that neither runs nor waits, and the one after them more waiting than it is long. The excess
    belongs to earlier ones.

    Args:
        length: Of the samples, ns.
        runnable: How long the thread ran or waited for a processor, by the account, ns.
        queued: How much of that it waited, ns.
    """
    ran, waited = np.maximum(runnable - queued, 0).tolist(), [0] * len(queued)
    room, left = (length - np.array(ran, np.int64)).tolist(), 0
    for at in range(len(waited) - 1, -1, -1):
        left += int(queued[at])
        waited[at] = max(min(left, room[at]), 0)
        left -= waited[at]
    waits = np.array(waited, np.int64)
    return np.array(ran, np.int64) + waits, waits


WORKER_INTERVAL_NS = 5_000_000
"""How far apart the samples of a worker are meant to be."""


def _worker(
    thread: _Thread, shift: int, directory: str, interval_ns: int = WORKER_INTERVAL_NS
) -> Samples | None:
    """Return the samples of one more thread, None if they are damaged or too few."""
    arrays = thread.arrays()
    if arrays is None:
        return None
    times, number = arrays
    order = np.argsort(times, kind="stable")  # Unix time may be set back
    times, number = times[order] + shift, number[order]
    # Between two batches nothing is sampled.
    start = np.maximum(times[:-1], times[1:] - 2 * interval_ns)
    unknown, stacks = np.full(len(times) - 1, -1), thread.stacks
    return Samples(
        -1, start, times[1:], unknown, number[1:], stacks, thread.frames, directory, (), interval_ns
    )


def _place(trace: Trace, rank: int, begun: dict[int, int]) -> tuple[int, int] | None:
    """Return the lane of the steps' marks and the clocks' offset; None if no step is known to both.

    The sampler notes a step just before its mark begins. On a busy machine the thread may have to wait for a
    processor in between, so the least difference is the one of the clocks.
    """
    steps = trace.steps
    mine = np.flatnonzero((steps.rank == rank) & (steps.row >= 0))
    mine = mine[trace.device[steps.row[mine]] < 0]
    both = [int(at) for at in mine if int(steps.number[at]) in begun]
    if not both:
        return None
    shifts = [int(trace.start_ns[steps.row[at]]) - begun[int(steps.number[at])] for at in both]
    shift, shortest = min(shifts), min(np.diff(sorted(begun.values())), default=0)
    if max(shifts) - shift > max(MOST_SKEW_NS, int(MOST_SKEW * shortest)):
        return None
    return int(trace.lane[steps.row[both[0]]]), shift
