"""Structure, computed once and vectorised: from a draft's loose events to a Trace.

Order, nesting and self time, step windows, which host call launched which device work, which forward operator
a backward operator belongs to, module scopes and Python stacks, and the places of allocations.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.kernels import nesting
from stepscope.text import utf8
from stepscope.trace.collectives import complete
from stepscope.trace.compact import without_unused_texts
from stepscope.trace.distinct import distinct
from stepscope.trace.draft import Array, Draft, InstantEvents
from stepscope.trace.model import (
    COLUMNS,
    DEVICE_WORK,
    FEATURES,
    Device,
    Kind,
    Lane,
    ProcessGroup,
    Source,
    Trace,
    among,
)
from stepscope.trace.names import Paths
from stepscope.trace.recorder import recorder_rows
from stepscope.trace.tables import (
    DTYPES,
    Collectives,
    Counters,
    Flows,
    Instructions,
    Kernels,
    Marks,
    Memory,
    Operators,
    StepWindows,
    Syncs,
    Table,
)

LONGEST_NS = 7 * 24 * 3600 * 10**9
"""Longer durations are an overflow of the recorder (CUPTI), not events; HTA draws the same line."""

TAIL_NS = 1_000_000
"""Time without any event at the end of a step that is not unusual."""

Int32 = npt.NDArray[np.int32]


def build(draft: Draft) -> Trace:
    """Give a draft its structure."""
    return without_unused_texts(_Build(draft).trace())


NAMELESS = "(no name)"


def sound(draft: Draft) -> Draft:
    """Give every event a name, and let all texts be ones that can be written.

    Files of others lack names and have halves of characters, in whichever field. Analyses count by name, and
    tables and JSON hold whole characters.
    """
    nameless = (draft.name < 0) | (draft.name >= len(draft.strings))
    if nameless.any():
        draft.strings, numbers = draft.strings.extended([NAMELESS])
        draft.name = np.where(nameless, numbers[0], draft.name).astype(np.int32)
    for name in ("lanes", "devices", "process_groups", "host", "facts", "not_recorded", "notes"):
        setattr(draft, name, _whole(getattr(draft, name)))
    return draft


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else utf8(value).decode()
    if isinstance(value, dict):
        return {_whole(name): _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, (Lane, Device, ProcessGroup)):
        return replace(value, **{field.name: _whole(getattr(value, field.name)) for field in fields(value)})
    return value


class _Build:
    """Working columns of one draft, sorted; the names are those of the Trace."""

    def __init__(self, draft: Draft) -> None:
        self.draft = sound(draft)
        self.dropped = dict(draft.dropped)
        self.sort()
        self.nest()

    def trace(self) -> Trace:
        draft = self.draft
        operators = self.table(Operators, draft.operators)
        self.find_launches(operators)
        self.find_forward(operators)
        collectives, self.strings = complete(
            self.table(Collectives, draft.collectives),
            self.kind,
            self.name,
            self.parent,
            self.launch,
            operators,
            draft.strings,
        )
        steps = self.find_steps()
        scopes = self.find_scopes()
        stacks = self.find_stacks()
        moved = self.taken(draft.bytes, np.int64)
        moved[collectives.row] = np.where(collectives.bytes >= 0, collectives.bytes, moved[collectives.row])
        fixed = {
            "bytes": moved,
            "flops": self.taken(draft.flops, np.int64),
            "rank": np.full(len(self.name), draft.rank, np.int32),
            "correlation": self.correlation,
        }
        columns = {key: fixed.get(key, getattr(self, key, None)) for key in COLUMNS}
        ranked = [replace(lane, rank=draft.rank) for lane in draft.lanes]
        trace = Trace(
            **columns,  # type: ignore[arg-type]
            strings=self.strings,
            scopes=scopes,
            stacks=stacks,
            format=draft.format,
            sources=(source_of(draft, len(self.name)),),
            lanes=tuple(ranked),
            devices=tuple(draft.devices),
            process_groups=tuple(draft.process_groups),
            origin_ns=draft.origin_ns,
            clock=draft.clock,
            resolution_ns=draft.resolution_ns,
            dropped=self.dropped,
            notes=tuple(draft.notes),
            steps=steps,
            operators=operators,
            kernels=self.table(Kernels, draft.kernels),
            instructions=self.table(Instructions, draft.instructions),
            collectives=collectives,
            memory=self.memory(),
            syncs=self.table(Syncs, draft.syncs),
            flows=self.flows(),
            counters=instants(Counters, draft.counters),
            marks=instants(Marks, draft.marks),
        )
        recorded = found_features(trace) | draft.recorded
        if draft.untimed:
            recorded -= {"timeline", "steps"}
        reasons = {key: draft.not_recorded.get(key, "") for key in FEATURES if key not in recorded}
        return replace(
            trace,
            recorded=frozenset(recorded),
            not_recorded={
                key: reason or f"no {FEATURES[key]} in the file" for key, reason in reasons.items()
            },
        )

    # --- order and nesting ---

    def sort(self) -> None:
        draft = self.draft
        duration = draft.duration_ns
        keep = (duration <= LONGEST_NS) & (draft.start_ns != -(1 << 63))
        self.count("overflowed_durations", int(np.count_nonzero(duration > LONGEST_NS)))
        self.count("negative_durations", int(np.count_nonzero(duration < 0)))
        rows = np.flatnonzero(keep) if not keep.all() else None
        lane, start = draft.lane.astype(np.int32, copy=False), draft.start_ns
        duration = np.maximum(duration, 0)
        if rows is not None:
            lane, start, duration = lane[rows], start[rows], duration[rows]
        order = timeline_order(lane, start, duration)
        self.lane, self.start_ns, self.duration_ns = lane[order], start[order], duration[order]
        self.order = order if rows is None else rows[order]
        self.place = np.full(len(draft.name), -1, np.int32)
        """Sorted row of each row of the draft, -1 if it was dropped."""
        self.place[self.order] = np.arange(len(order), dtype=np.int32)
        self.name = draft.name[self.order].astype(np.int32, copy=False)
        self.kind = draft.kind[self.order].astype(np.uint8, copy=False)
        devices = np.array([lane.device for lane in draft.lanes] or [-1], np.int16)
        self.device = devices[self.lane]
        self.correlation = self.taken(draft.correlation, np.int64)

    def nest(self) -> None:
        n = len(self.name)
        self.parent, self.depth = np.empty(n, np.int32), np.empty(n, np.int16)
        self.self_ns, self.closes = np.empty(n, np.int64), np.empty(n, np.int64)
        slack = self.draft.resolution_ns if self.draft.resolution_ns > 1 else 0
        # A range begins within the call that opens it and ends within the one that closes it; where these
        # calls are recorded as frames, operators that are recorded by such calls do, too.
        layer = np.where(self.kind == Kind.PYTHON_FRAME, 1, 2).astype(np.uint8)
        layer[among(Kind.STEP, Kind.ANNOTATION, Kind.DATA_LOADING)[self.kind]] = 0
        overlaps = nesting.nest(
            self.lane, self.start_ns, self.duration_ns, slack, layer, self.parent, self.depth, self.self_ns,
            self.closes, np.empty(n, np.int64),
        )  # fmt: skip
        self.count("overlapping_siblings", overlaps)
        if self.draft.untimed:
            self.duration_ns = self.self_ns = np.zeros(n, np.int64)

    def count(self, what: str, number: int) -> None:
        if number:
            self.dropped[what] = self.dropped.get(what, 0) + number

    def taken(self, column: Array | None, dtype: Any) -> Array:
        if column is None:
            return np.full(len(self.order), -1, dtype)
        return column[self.order].astype(dtype, copy=False)

    def table(self, kind: type[Table], columns: dict[str, Array] | None) -> Any:
        """Return a table of the draft with its rows in order."""
        if not columns:
            return kind.empty()
        row = self.place[columns["row"]]
        order = np.argsort(row, kind="stable")
        order = order[np.searchsorted(row[order], 0) :]
        values = {name: columns[name][order].astype(DTYPES[name], copy=False) for name in columns}
        for name in kind.optional:
            values.setdefault(name, np.full(len(order), -1, DTYPES[name]))
        return kind(**{**values, "row": row[order]})

    def rows_at(self, points: InstantEvents, *, before: bool = False) -> Int32:
        """Return the innermost event open at each point of a lane, -1 for none.

        Args:
            points: Lanes and times.
            before: Prefer an event that ends at the time to one that starts then.
        """
        row = lane_search(
            self.lane, self.start_ns, points.lane, points.time_ns, "left" if before else "right"
        )
        nesting.innermost(np.ascontiguousarray(points.time_ns, np.int64), row, self.parent, self.closes)
        return row

    # --- links ---

    def find_launches(self, operators: Operators) -> None:
        on_device = (self.device >= 0) & among(*DEVICE_WORK, Kind.SYNC)[self.kind]
        work = np.flatnonzero(on_device & (self.correlation >= 0))
        calls = np.flatnonzero((self.kind == Kind.RUNTIME_CALL) & (self.correlation >= 0))
        self.launch = np.full(len(self.name), -1, np.int32)
        self.launch[work] = match(self.correlation[calls], calls, self.correlation[work])
        if self.draft.external is not None:
            self.launch_by_external(on_device, operators)

    def launch_by_external(self, on_device: Array, operators: Operators) -> None:
        external = self.taken(self.draft.external, np.int64)
        work = np.flatnonzero(on_device & (self.launch < 0) & (external > 0))
        ops = np.flatnonzero((self.kind == Kind.HOST_OP) & (external > 0))
        if len(work) and len(ops):
            self.launch[work] = match(external[ops], ops, external[work])

    def find_forward(self, operators: Operators) -> None:
        """Link backward operators to forward ones: by sequence numbers, else by the file's arrows."""
        self.forward = np.full(len(self.name), -1, np.int32)
        self.forward_by_sequence(operators)
        self.forward_by_arrows()
        nesting.inherit(self.parent, self.forward)
        launched = np.flatnonzero(self.launch >= 0)
        self.forward[launched] = self.forward[self.launch[launched]]

    def forward_by_sequence(self, operators: Operators) -> None:
        row, sequence, thread = operators.row, operators.sequence, operators.forward_thread
        backward, ahead = (sequence >= 0) & (thread > 0), (sequence >= 0) & (thread <= 0)
        if not backward.any() or not ahead.any():
            return
        lanes = self.lane[row]
        forward_lanes = distinct(lanes[ahead])
        for number in distinct(thread[backward]).tolist():
            wanted = np.flatnonzero(backward & (thread == number))
            best = _thread_lane(sequence[wanted], sequence, lanes, ahead, forward_lanes)
            candidates = np.flatnonzero(ahead & (lanes == best))
            partner = match_latest(sequence[candidates], row[candidates], self.start_ns, sequence[wanted])
            rows = row[wanted]
            early = (partner >= 0) & (self.start_ns[partner] <= self.start_ns[rows])
            self.forward[rows[early]] = partner[early]

    def forward_by_arrows(self) -> None:
        arrows = self.draft.forward_arrows
        if arrows is None or not len(arrows):
            return
        source, target = self.arrow_ends(arrows)
        fresh = (source >= 0) & (target >= 0)
        fresh[fresh] = self.forward[target[fresh]] < 0
        self.forward[target[fresh]] = source[fresh]

    def arrow_ends(self, arrows: InstantEvents) -> tuple[Int32, Int32]:
        """Join the two ends of arrows by id; an arrow may have several targets."""
        begins = arrows.columns["begins"].astype(bool)
        first = np.flatnonzero(begins)
        last = np.flatnonzero(~begins)
        rows = np.where(begins, self.rows_at(arrows, before=True), self.rows_at(arrows)).astype(np.int32)
        again = self.rows_at(arrows)
        rows = np.where(rows < 0, again, rows)
        joined = match(arrows.columns["id"][first], first, arrows.columns["id"][last])
        known = joined >= 0
        return rows[joined[known]], rows[last[known]]

    # --- steps ---

    def find_steps(self) -> StepWindows:
        draft = self.draft
        rows = np.flatnonzero(self.kind == Kind.STEP)
        host = rows[self.device[rows] < 0]
        rows = host if len(host) else rows
        numbers = self.taken(draft.step_number, np.int64)[rows]
        start, end = self.start_ns[rows], self.start_ns[rows] + self.duration_ns[rows]
        if not len(rows) and draft.steps is not None:
            numbers, start, end = (draft.steps[key] for key in ("number", "start_ns", "end_ns"))
            rows = np.full(len(numbers), -1)
        order = np.argsort(start, kind="stable")
        steps = StepWindows(
            row=rows[order].astype(np.int32), rank=np.full(len(order), draft.rank, np.int32),
            number=numbers[order].astype(np.int64), start_ns=start[order], end_ns=end[order],
        )  # fmt: skip
        steps = self.without_tails(steps)
        self.assign_steps(steps)
        return steps

    def without_tails(self, steps: StepWindows) -> StepWindows:
        """End the last step with its last event if much more time without any follows than in the others.

        The recorder stops within the last step: its collecting and writing is not training.
        """
        if not len(steps) or self.draft.untimed:
            return steps
        ends = self.last_events(steps)
        tails = np.where(ends >= 0, steps.end_ns - ends, 0)
        last = int(np.argmax(steps.end_ns))
        others = np.delete(tails, last)
        if tails[last] <= max(TAIL_NS, 2 * int(others.max(initial=0))):
            return steps
        spent = tails[last] / 1e6
        number = int(steps.number[last])
        self.draft.notes.append(
            f"step {number} ends with its last event: the {spent:.1f} ms without any after it are the "
            "profiler's"
        )
        end = steps.end_ns.copy()
        end[last] = ends[last]
        return replace(steps, end_ns=end)

    def last_events(self, steps: StepWindows) -> Array:
        """Return i8[steps]: when the last event ended that began in the step, -1 if nothing did.

        Events around steps, the recorder's own work and frames of other threads, which wait, do not count.
        If steps are marked on a lane of their own, as beside sampled frames, those are the steps' own.
        """
        tells = ~among(Kind.STEP, Kind.OVERHEAD, Kind.SYNC)[self.kind]
        tells &= ~recorder_rows(self.strings, self.name, self.kind, self.parent)
        stepping = distinct(self.lane[steps.row[steps.row >= 0]])
        on_step = np.isin(self.lane, stepping)
        beside = bool(among(Kind.STEP, Kind.DATA_LOADING)[self.kind[on_step]].all())
        tells &= (self.kind != Kind.PYTHON_FRAME) | on_step | beside
        rows = np.flatnonzero(tells)
        start, end = self.start_ns[rows], self.start_ns[rows] + self.duration_ns[rows]
        numbers = np.full(len(steps), -1, np.int64)
        for n in range(len(steps)):
            inside = (start >= steps.start_ns[n]) & (start < steps.end_ns[n])
            if inside.any():
                numbers[n] = min(int(end[inside].max()), int(steps.end_ns[n]))
        return numbers

    def assign_steps(self, steps: StepWindows) -> None:
        if self.draft.step is not None:
            self.step = self.taken(self.draft.step, np.int32)
        elif len(steps):
            window = np.searchsorted(steps.start_ns, self.start_ns, "right") - 1
            inside = (window >= 0) & (self.start_ns < steps.end_ns[np.maximum(window, 0)])
            self.step = np.where(inside, steps.number[window], -1).astype(np.int32)
        else:
            self.step = np.full(len(self.name), -1, np.int32)
        launched = np.flatnonzero(self.launch >= 0)
        self.step[launched] = self.step[self.launch[launched]]
        if self.draft.step is None and len(launched):
            self.follow_launches()

    def follow_launches(self) -> None:
        """Give device work without a launch to the step of the launched work ahead of it on its stream.

        A stream runs its work in order. Work ahead of the first launched work was launched before
        the recording began, or at an unknown time: it belongs to no step.
        """
        work = np.flatnonzero((self.device >= 0) & among(*DEVICE_WORK)[self.kind])
        if (self.launch[work] >= 0).all():
            return
        lane = self.lane[work]
        last = np.maximum.accumulate(np.where(self.launch[work] >= 0, np.arange(len(work)), -1))
        known = (last >= 0) & (lane[np.maximum(last, 0)] == lane)
        self.step[work] = np.where(known, self.step[work[np.maximum(last, 0)]], -1)

    # --- scopes and stacks ---

    def find_scopes(self) -> Paths:
        if self.draft.scope is not None and self.draft.scopes is not None:
            self.scope = self.taken(self.draft.scope, np.int32).copy()
            nesting.inherit(self.parent, self.scope)
            scopes = self.draft.scopes
        else:
            members = among(Kind.MODULE_SCOPE, Kind.ANNOTATION)[self.kind] & (self.device < 0)
            self.scope, scopes = self.paths(members)
        self.pass_on(self.scope, overrule=True)
        return scopes

    def find_stacks(self) -> Paths:
        draft = self.draft
        if draft.stack is not None and draft.stacks is not None:
            self.stack = self.taken(draft.stack, np.int32).copy()
            stacks = draft.stacks
            if stacks.strings is draft.strings:
                framed, frames = self.paths(self.kind == Kind.PYTHON_FRAME)
                stacks = joined(frames, stacks)
                self.stack = np.where(self.stack >= 0, self.stack + len(frames), framed).astype(np.int32)
            nesting.inherit(self.parent, self.stack)
        else:
            self.stack, stacks = self.paths(self.kind == Kind.PYTHON_FRAME)
        self.pass_on(self.stack, overrule=False)
        return stacks

    def pass_on(self, path: Int32, *, overrule: bool) -> None:
        """Give backward operators their forward's path, and device work its launch's."""
        known = self.forward >= 0
        known[known] = path[self.forward[known]] >= 0
        if not overrule:
            known &= path < 0
        host = known & (self.launch < 0)
        path[host] = path[self.forward[host]]
        launched = np.flatnonzero((self.launch >= 0) & (path < 0))
        path[launched] = path[self.launch[launched]]

    def paths(self, members: npt.NDArray[np.bool_]) -> tuple[Int32, Paths]:
        n, count = len(self.name), int(np.count_nonzero(members))
        path = np.full(n, -1, np.int32)
        if not count:
            return path, Paths(np.zeros(0, np.int32), np.zeros(0, np.int32), self.strings)
        parent, name = np.empty(count, np.int32), np.empty(count, np.int32)
        slots = np.full(1 << int(2 * count).bit_length(), -1, np.int32)
        used = nesting.paths(self.parent, members.view(np.uint8), self.name, path, parent, name, slots)
        return path, Paths(parent[:used].copy(), name[:used].copy(), self.strings)

    # --- points ---

    def memory(self) -> Memory:
        points = self.draft.memory
        if points is None or not len(points):
            empty: Memory = Memory.empty()
            return empty
        columns = points.columns
        order = np.lexsort((points.time_ns, columns["device"]))
        row = self.place[columns["row"]] if "row" in columns else self.rows_at(points)
        if "row" in columns:
            row = np.where(columns["row"] >= 0, row, -1).astype(np.int32)
        stack = columns.get("stack")
        optional = {
            key: columns[key][order].astype(DTYPES[key], copy=False)
            if key in columns
            else np.full(len(order), -1, DTYPES[key])
            for key in ("allocated_bytes", "reserved_bytes", "category")
        }
        return Memory(
            rank=np.full(len(order), self.draft.rank, np.int32),
            time_ns=points.time_ns[order],
            device=columns["device"][order].astype(np.int16),
            action=columns["action"][order].astype(np.uint8),
            address=columns["address"][order].astype(np.uint64, copy=False),
            bytes=columns["bytes"][order].astype(np.int64, copy=False),
            row=row[order],
            stack=np.full(len(order), -1, np.int32) if stack is None else stack[order].astype(np.int32),
            **optional,
        )

    def flows(self) -> Flows:
        arrows = self.draft.arrows
        if arrows is None or not len(arrows):
            empty: Flows = Flows.empty()
            return empty
        begins = arrows.columns["begins"].astype(bool)
        last = np.flatnonzero(~begins)
        joined = match(arrows.columns["id"][begins], np.flatnonzero(begins), arrows.columns["id"][last])
        names = arrows.columns["name"][last[joined >= 0]]
        source, target = self.arrow_ends(arrows)
        good = (source >= 0) & (target >= 0) & (source != target)
        self.count("loose_arrows", int(len(last) - np.count_nonzero(good)))
        return Flows(source=source[good], target=target[good], name=names[good].astype(np.int32))


def timeline_order(lane: Array, start: Array, duration: Array) -> Array:
    """Return the order by (lane, start, longest first); events alike in all three keep theirs."""
    if not len(lane):
        return np.zeros(0, np.int64)
    low, span = int(start.min()), int(start.max()) - int(start.min()) + 1
    if (int(lane.max()) + 1) * span >= 1 << 62:
        return np.lexsort((-duration, start, lane))
    key = lane.astype(np.int64) * span
    key += start
    key -= low
    order = np.argsort(key, kind="stable")
    key = key[order]
    same = key[1:] == key[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        rows = order[tied]
        order[tied] = rows[np.lexsort((-duration[rows], key[tied]))]
    return order


def match(keys: Array, rows: Array, wanted: Array) -> Int32:
    """Return for each wanted key the first row that has it, -1 for none."""
    result = np.full(len(wanted), -1, np.int32)
    if not len(keys) or not len(wanted):
        return result
    low, high = int(keys.min()), int(keys.max())
    if high - low < 8 * (len(keys) + len(wanted)) + 1024:
        table = np.full(high - low + 1, -1, np.int32)
        table[keys[::-1] - low] = rows[::-1]
        inside = (wanted >= low) & (wanted <= high)
        result[inside] = table[wanted[inside] - low]
        return result
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    hit = keys[order[at]] == wanted
    result[hit] = rows[order[at[hit]]]
    return result


def match_latest(keys: Array, rows: Array, start: Array, wanted: Array) -> Int32:
    """Return for each wanted key the row that starts last among those that have it, -1 for none."""
    order = np.argsort(start[rows], kind="stable")[::-1]
    return match(keys[order], rows[order], wanted)


def lane_search(lanes: Array, starts: Array, lane: Array, time: Array, side: Any) -> Int32:
    """Return the last row of a lane that starts at or before a time, with "left" before it; -1 for none."""
    row = np.full(len(time), -1, np.int32)
    for number in distinct(lane).tolist():
        first, last = np.searchsorted(lanes, [number, number + 1]) if number >= 0 else (0, 0)
        which = np.flatnonzero(lane == number)
        place = np.searchsorted(starts[first:last], time[which], side) - 1
        row[which] = np.where(place >= 0, place + first, -1)
    return row


def _thread_lane(wanted: Array, sequence: Array, lanes: Array, ahead: Array, forward_lanes: Array) -> int:
    """Return the lane of a forward thread, whose number is not a thread id: the one that knows most of it."""
    if len(forward_lanes) == 1:
        return int(forward_lanes[0])
    known = [np.count_nonzero(np.isin(wanted, sequence[ahead & (lanes == lane)])) for lane in forward_lanes]
    return int(forward_lanes[int(np.argmax(known))])


def joined(first: Paths, second: Paths) -> Paths:
    """Return the paths of two tables over the same names, those of the second numbered after the first's."""
    parent = np.where(second.parent >= 0, second.parent + len(first), -1)
    return Paths(
        np.concatenate([first.parent, parent]).astype(np.int32),
        np.concatenate([first.name, second.name]).astype(np.int32),
        first.strings,
    )


def instants(kind: type[Any], points: InstantEvents | None) -> Any:
    """Return counters or marks, by lane and time."""
    if points is None:
        return kind.empty()
    order = np.lexsort((points.time_ns, points.lane))
    types = {"name": np.int32, "value": np.float64}
    columns = {name: column[order].astype(types[name]) for name, column in points.columns.items()}
    return kind(lane=points.lane[order].astype(np.int32), time_ns=points.time_ns[order], **columns)


def source_of(draft: Draft, events: int) -> Source:
    """Return the source of a draft."""
    same = {field.name for field in fields(Source)} - {"events", "origin_ns"}
    origin = draft.origin_ns if draft.clock == "unix" else 0
    return Source(events=events, origin_ns=origin, **{name: getattr(draft, name) for name in same})


def found_features(trace: Trace) -> set[str]:
    """Return the features that rows and tables show."""
    work = trace.device_work()
    shown = {
        "timeline": len(trace) > 0,
        "steps": len(trace.steps) > 0,
        "device": len(work) > 0,
        "launches": bool((trace.launch >= 0).any()),
        "backward": bool((trace.forward >= 0).any()),
        "modules": bool((trace.kind == Kind.MODULE_SCOPE).any()),
        "stacks": bool((trace.stack >= 0).any()),
        "shapes": bool((trace.operators.shapes >= 0).any() or (trace.instructions.shapes >= 0).any()),
        "flops": bool((trace.flops >= 0).any()),
        "bytes": bool((trace.bytes >= 0).any()),
        "memory": len(trace.memory) > 0,
        "collectives": bool(among(Kind.COLLECTIVE, Kind.SEND_RECV)[trace.kind].any()),
        "syncs": len(trace.syncs) > 0,
        "occupancy": bool(np.isfinite(trace.kernels.occupancy).any()),
        "counters": len(trace.counters) > 0,
    }
    return {feature for feature, there in shown.items() if there}
