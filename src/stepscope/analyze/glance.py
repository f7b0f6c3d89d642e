"""A profile at a glance: the parts of the steps' time, the largest operations, memory at its peak, advice.

Everything is over all profiled steps, as tfprof aggregated them: mean, minimum, median, maximum. Unknown
facts are missing, with the reason next to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import fmean, median
from typing import Any

import numpy as np

from stepscope.analyze.advise import Abstain, Advice, Facts, advise
from stepscope.analyze.critical_path import BOUNDS, CriticalPath, critical_paths
from stepscope.analyze.groups import Groups
from stepscope.analyze.memory import PeakHolder
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import losses, view
from stepscope.attribute.activity import WRAPPERS
from stepscope.attribute.device import executor_lanes
from stepscope.attribute.purpose import BRANCH_OF, Branch, Purpose
from stepscope.attribute.spans import Ints, Spans, Times
from stepscope.attribute.step_tree import PARTS, innermost
from stepscope.errors import StepscopeError
from stepscope.trace.model import Kind, Trace

SCHEMA = 1
_VERDICT = ("abstained", "judged", "caveats", "verdict")
_STEPS = re.compile(r"^(?:ProfilerStep#|PyTorch Profiler)")
"""Marks around everything, whose names say nothing."""
_BETWEEN = ("host_gap", "unknown")
"""Limits of stretches of a path whose operator or call is unknown."""
TOP = 10
"""Operations, scopes and holders of memory that are named."""


def glance(facts: Facts) -> dict[str, Any]:
    """Summarise a profile in JSON types; times in ns, ratios 0 to 1, null if not recorded.

    Args:
        facts: The trace, or tfprof's data if there is no timeline.
    """
    answer: dict[str, Any] = {"schema": SCHEMA}
    trace = facts.trace
    if trace is not None:
        answer |= {
            "format": trace.format,
            "ranks": sorted({source.rank for source in trace.sources}),
            "events": len(trace),
            "recorded": sorted(trace.recorded),
            "not_recorded": dict(trace.not_recorded),
            "dropped": dict(trace.dropped),
            "notes": list(losses(trace)),
            **step_facts(facts),
            "waited_for": waited_for(facts),
            "operations": rows_of(facts, "op"),
            "kernels": rows_of(facts, "kernel"),
            "scopes": rows_of(facts, "scope", max_depth=3),
            "memory": memory_of(facts),
        }
    return answer | advice_of(advise(facts))


def step_facts(facts: Facts) -> dict[str, Any]:
    """Return the steps' durations and parts.

    ``count`` is how many steps there are, whichever number of ranks ran each; 0 if none was marked, and the
    durations are then those of all that each rank did. ``between_steps`` is the time between the end of one
    and the beginning of the next, such as callbacks: it is part of no step.
    """
    if facts.trace is None or not facts.trace.duration_ns.any():
        return {
            "steps": {"numbers": [], "count": 0, "ranks": 0, **spread(())},
            "between_steps": spread(()),
            "parts": [],
            "purposes": [],
            "parts_missing": {},
        }
    whole = facts.breakdown
    walls = [step.wall_ns for step in whole.steps]
    parts = []
    for part in PARTS:
        values = [value for step in whole.steps if (value := step.parts_ns[part]) is not None]
        if values:
            parts.append({"part": part, **spread(values), "ratio": whole.ratio(part)})
    steps = facts.step_tree.windows.steps
    return {
        "steps": {
            "numbers": list(steps),
            "count": sum(steps.values()),
            "ranks": len({step.rank for step in whole.steps}),
            **spread(walls),
        },
        "between_steps": spread([step.after_ns for step in whole.steps if step.after_ns is not None]),
        "parts": parts,
        "purposes": _purposes(facts),
        "parts_missing": whole.missing,
    }


def _purposes(facts: Facts) -> list[dict[str, Any]]:
    """Return the time of the steps by purpose, largest first; together they are the steps."""
    spent = facts.step_tree.purposes_ns(facts.timeline)
    total = spent.sum(axis=0)
    return [
        {
            "purpose": Purpose(number).name.lower(), "branch": Branch(BRANCH_OF[number]).name.lower(),
            **spread(spent[:, number].tolist()), "ratio": int(total[number]) / max(int(total.sum()), 1),
        }
        for number in np.argsort(-total, kind="stable").tolist()
        if total[number]
    ]  # fmt: skip


def waited_for(facts: Facts) -> list[dict[str, Any]] | None:
    """Return the waits of the steps by their critical paths, largest first; times are means per step.

    The parts of a path add up to it, so that these are shares of one whole; None if no operator was
    recorded.
    """
    try:
        paths = critical_paths(facts.timeline, top=1000, graphs=facts.graphs)
    except (StepscopeError, Abstain):
        return None
    whole = sum(path.length_ns for path in paths)
    sums: dict[tuple[str, str], list[int]] = {}
    for path in paths:
        for name, bound, time_ns, pieces in _named_pieces(facts, path):
            entry = sums.setdefault((name, bound), [0, 0])
            entry[0] += time_ns
            entry[1] += pieces
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])[:TOP]
    return [
        {
            "name": name or "not recorded", "bound": bound, "ns": round(ns / len(paths)),
            "ratio": ns / whole if whole else None, "pieces": pieces / len(paths),
        }
        for (name, bound), (ns, pieces) in ordered
    ]  # fmt: skip


def _named_pieces(facts: Facts, path: CriticalPath) -> Iterator[tuple[str, str, int, int]]:
    """Yield name, bound, time and count of a path's parts.

    Time between operators of the main thread is named by its innermost event in each instant, whatever
    it is: one stretch may hold several.
    """
    trace = facts.timeline
    for piece in path.top:
        if piece.bound not in _BETWEEN:
            yield _own_time(piece.name), piece.bound, piece.time_ns, piece.pieces
    lane = facts.graphs.of(path.rank).main_lane
    pieces = path.pieces
    between = np.isin(pieces.bound, [BOUNDS.index(bound) for bound in _BETWEEN])
    elsewhere = between & (pieces.row >= 0)
    elsewhere[elsewhere] = trace.lane[pieces.row[elsewhere]] != lane
    for row, ns in zip(pieces.row[elsewhere].tolist(), pieces.duration_ns[elsewhere].tolist(), strict=True):
        yield _own_time(trace.name_of(row)), "host_gap", ns, 1
    between &= ~elsewhere
    for bound in _BETWEEN:
        mine = between & (pieces.bound == BOUNDS.index(bound))
        left = Spans.of(pieces.start_ns[mine], pieces.start_ns[mine] + pieces.duration_ns[mine])
        # A host that is XLA's device waits there for what it runs; else the thread's own events tell.
        for kind, stretches in (("host", _executed(facts, path.rank)), ("host_gap", _on_lane(trace, lane))):
            begin, end, row = stretches
            first, last = np.searchsorted(end, path.start_ns), np.searchsorted(begin, path.end_ns)
            begin, end, row = begin[first:last], end[first:last], row[first:last]
            covered = left.within(begin, end)
            held = covered > 0
            groups = Groups.by(trace.name[row[held]].astype(np.int64))
            for number, ns, count in zip(
                groups.key.tolist(), groups.sum(covered[held]).tolist(), groups.count().tolist(), strict=True
            ):
                yield _own_time(trace.strings[number]), kind, int(ns), count
            left = left.minus(Spans.of(begin, end))
        if len(left):
            yield "", bound, left.measure_ns, len(left)


def _executed(facts: Facts, rank: int) -> tuple[Times, Times, Ints]:
    """Return start, end and row of the work of XLA's or TensorFlow's threads if a host is their device."""
    trace, tree = facts.timeline, facts.step_tree

    def found() -> tuple[Times, Times, Ints]:
        mine = np.isin(trace.lane[tree.row], executor_lanes(trace, rank))
        mine &= trace.kind[tree.row] == Kind.HOST_OP
        work = trace.device_work()
        rows = np.flatnonzero(mine) if not (trace.rank[work] == rank).any() else np.zeros(0, np.int64)
        rows = rows[np.argsort(tree.start_ns[rows], kind="stable")]
        return tree.start_ns[rows], tree.end_ns[rows], tree.row[rows]

    return trace.derived(f"executed on rank {rank}", found)


def _on_lane(trace: Trace, lane: int) -> tuple[Times, Times, Ints]:
    """Return start, end and row of the stretches in which an event of a lane is the innermost."""

    def found() -> tuple[Times, Times, Ints]:
        rows = np.flatnonzero((trace.lane == lane) & (trace.kind != Kind.STEP) & (trace.duration_ns > 0))
        begin, end, place = innermost(trace, rows, trace.lane[rows])
        return begin, end, rows[place]

    return trace.derived(f"innermost on lane {lane}", found)


def _own_time(name: str) -> str:
    """Return the name of an event's own time: mere containers do not name their work."""
    if not WRAPPERS.match(name):
        return name
    return "" if _STEPS.match(name) else f"nothing recorded within {name}"


def spread(values: Sequence[int]) -> dict[str, float | int | None]:
    """Return mean, minimum, median and maximum of times in ns."""
    if not values:
        return {"mean_ns": None, "min_ns": None, "median_ns": None, "max_ns": None}
    return {
        "mean_ns": round(fmean(values)), "min_ns": min(values), "median_ns": round(median(values)),
        "max_ns": max(values),
    }  # fmt: skip


def rows_of(facts: Facts, name: str, *, max_depth: int = TOP) -> dict[str, Any] | None:
    """Return the first rows of a view by their part of the step; None if it does not apply.

    Kernels are in the order of the device's time.
    """
    options = ViewOptions(order_by="micros", max_depth=max_depth, select=("micros", "occurrence"))
    try:
        answer = view(name, facts.timeline, options, measures=facts.measures).as_dict()
    except (StepscopeError, Abstain):
        return None
    rows = answer["rows"]
    if name == "scope":
        rows = [rows[0], *sorted(rows[1:], key=lambda row: -(row.get("step_total_ns") or 0))]
    return {"denominator": answer["denominator"], "rows": rows[: TOP + 1]}


def memory_of(facts: Facts) -> list[dict[str, Any]]:
    """Return level and peak of each device per step, and the peak's holders, by module scope if known."""
    try:
        devices = facts.memory
    except (StepscopeError, Abstain):
        return []
    return [
        {
            "rank": device.rank,
            "device": device.device,
            "peak_bytes": device.peak.bytes,
            "peak_step": device.peak.step,
            "peak_reserved_bytes": device.peak_reserved_bytes,
            "capacity_bytes": device.capacity_bytes,
            "before_bytes": device.peak.before_bytes,
            "steps": [asdict(step) for step in device.steps],
            "by_scope": holders(device.peak.by_scope),
            "by_operator": holders(device.peak.by_operator),
            "by_phase": holders(device.peak.by_phase),
        }
        for device in devices
    ]


def holders(at_peak: Sequence[PeakHolder] | None) -> list[dict[str, Any]] | None:
    """Return the largest holders of memory."""
    if at_peak is None:
        return None
    return [asdict(holder) for holder in at_peak[:TOP]]


def advice_of(advice: Advice) -> dict[str, Any]:
    """Return findings, the rules that could and could not judge, and the verdict over all of them."""
    answer = advice.as_dict()
    return {"advice": answer["findings"], **{name: answer[name] for name in _VERDICT}}
