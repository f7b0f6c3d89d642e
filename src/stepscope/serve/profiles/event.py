"""Everything that is known of one event, with its causes and effects.

These are launches, backward operators, the file's arrows, and what other ranks did together with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from stepscope.attribute.spans import Spans
from stepscope.serve.profiles.category import CATEGORIES
from stepscope.serve.profiles.draw import related
from stepscope.serve.profiles.open_profiles import Number, OpenProfile
from stepscope.serve.profiles.types import Link, ProfileEvent, Related, SampledLine, Spread
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import get
from stepscope.trace.model import Kind, Trace
from stepscope.trace.tables import Ints, Table

BUCKETS = 24
DEEPEST = 24
"""Levels below an event that are followed."""
_TEXTS = {"shapes", "values", "types", "outputs"}


@get("event")
def event(
    profile: OpenProfile, row: Annotated[Number, Meta(description="number of an event")]
) -> ProfileEvent:
    """Return one event.

    Raises:
        Refusal: There is no such row.
    """
    trace = profile.trace
    if not 0 <= row < len(trace):
        raise Refusal(404, f"no event {row}: the profile has {len(trace)}", "ask api/v1/timeline for rows")
    same = trace.named(trace.name_of(row))
    at = int(np.searchsorted(same, row))
    before, after = predecessors(profile, row), successors(profile, row)
    return ProfileEvent(
        row=row,
        name=trace.name_of(row),
        kind=Kind(int(trace.kind[row])).name.lower(),
        category=CATEGORIES[int(profile.category[row])],
        rank=int(trace.rank[row]),
        lane=int(trace.lane[row]),
        depth=int(trace.depth[row]),
        step=recorded(trace.step[row]),
        start_ns=int(trace.start_ns[row]),
        duration_ns=int(trace.duration_ns[row]),
        self_ns=int(trace.self_ns[row]),
        scope=trace.scopes.text(int(trace.scope[row])) or None,
        stack=trace.stacks.parts(int(trace.stack[row])) or frames(trace, row),
        lines=sampled_lines(profile, row),
        bytes=recorded(trace.bytes[row]),
        flops=recorded(trace.flops[row]),
        details=details(trace, row),
        ancestors=ancestors(profile, row),
        heaviest=heaviest(profile, row),
        predecessors=before.shown,
        successors=after.shown,
        predecessors_total=before.total,
        successors_total=after.total,
        previous=int(same[at - 1]) if at > 0 else None,
        next=int(same[at + 1]) if at + 1 < len(same) else None,
        spread=spread(trace, same),
    )


def sampled_lines(profile: OpenProfile, row: int) -> list[SampledLine] | None:
    """Return the lines of the program's own code that its thread stood in, None if it was not sampled."""
    trace = profile.trace
    sampled = profile.sampled.get(int(trace.rank[row]))
    if sampled is None or sampled.lane != int(trace.lane[row]):
        return None
    begin = int(trace.start_ns[row])
    spans = Spans.window(begin, begin + int(trace.duration_ns[row]))
    return [
        SampledLine(one.line.file, one.line.line, one.line.function, one.time_ns, one.rows)
        for one in sampled.lines(spans)
    ]


def recorded(value: Any) -> int | None:
    """Return a number of a column, None if it was not recorded."""
    return int(value) if value >= 0 else None


def ancestors(profile: OpenProfile, row: int) -> list[Related]:
    """Return the events around an event, the innermost first."""
    rows, parent = [], int(profile.trace.parent[row])
    while parent >= 0:
        rows.append(related(profile, parent))
        parent = int(profile.trace.parent[parent])
    return rows


def heaviest(profile: OpenProfile, row: int) -> list[Related]:
    """Return the longest child, that one's longest child, and so on."""
    trace = profile.trace
    rows: list[Related] = []
    while len(rows) < DEEPEST:
        children = np.flatnonzero(trace.parent == row)
        if not len(children):
            break
        row = int(children[np.argmax(trace.duration_ns[children])])
        rows.append(related(profile, row))
    return rows


def frames(trace: Trace, row: int) -> list[str] | None:
    """Return the Python frames around an event, if they are events themselves."""
    names, at = [], row
    launch = int(trace.launch[row])
    at = launch if launch >= 0 else row
    while at >= 0:
        if trace.kind[at] == Kind.PYTHON_FRAME:
            names.append(trace.name_of(at))
        at = int(trace.parent[at])
    return names[::-1] or None


def details(trace: Trace, row: int) -> dict[str, Any]:
    """Return the small tables' values of an event, under their columns' names."""
    facts: dict[str, Any] = {}
    for table in (trace.operators, trace.kernels, trace.collectives):
        facts.update(_details(trace, table, row))
    return facts


def _details(trace: Trace, table: Table, row: int) -> dict[str, Any]:
    columns = table.columns()
    at = np.flatnonzero(columns["row"] == row)
    if not len(at):
        return {}
    facts: dict[str, Any] = {}
    for name, column in columns.items():
        value = column[at[0]].item()
        if name == "row" or value != value or value == -1:
            continue
        facts[name] = _text(name, trace.strings[value]) if name in type(table).names else value
    return facts


def _text(name: str, text: str) -> Any:
    if name not in _TEXTS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def spread(trace: Trace, rows: Any) -> Spread:
    """Return how long these events take."""
    durations = trace.duration_ns[rows]
    low, high = int(durations.min()), int(durations.max())
    counts, edges = np.histogram(durations, bins=BUCKETS, range=(low, max(high, low + 1)))
    return Spread(
        calls=len(rows),
        total_ns=int(durations.sum()),
        min_ns=low,
        median_ns=float(np.median(durations)),
        p95_ns=float(np.percentile(durations, 95)),
        max_ns=high,
        edges_ns=edges.tolist(),
        counts=counts.tolist(),
    )


MAX_LINKS = 20
"""Links of one kind and direction in an answer."""
SENDS, RECEIVES = ("send", "send_recv"), ("recv", "send_recv")
How = Literal["launch", "backward", "flow", "peer"]


@dataclass
class Links:
    """Links in one direction, and how many there are in all."""

    profile: OpenProfile
    shown: list[Link] = field(default_factory=list)
    total: int = 0

    def add(self, how: How, rows: Ints | list[int], notes: Iterable[str] | None = None) -> None:
        """Add links of one kind."""
        self.total += len(rows)
        texts = [""] * MAX_LINKS if notes is None else list(notes)
        for row, note in zip([int(row) for row in rows[:MAX_LINKS]], texts, strict=False):
            self.shown.append(Link(how, note, related(self.profile, row)))


def predecessors(profile: OpenProfile, row: int) -> Links:
    """Return the links that led to an event."""
    trace, links = profile.trace, Links(profile)
    for how, column in (("launch", trace.launch), ("backward", trace.forward)):
        if column[row] >= 0:
            links.add(how, [int(column[row])])  # type: ignore[arg-type]
    mine = np.flatnonzero(trace.flows.target == row)
    links.add("flow", trace.flows.source[mine], flow_names(trace, mine))
    sent, what = peers(trace, row, sent=False)
    links.add("peer", sent, [what] * len(sent))
    return links


def successors(profile: OpenProfile, row: int) -> Links:
    """Return the links from an event to later ones."""
    trace, links = profile.trace, Links(profile)
    links.add("launch", np.flatnonzero(trace.launch == row))
    backward = np.flatnonzero((trace.forward == row) & (trace.device < 0))
    above = trace.parent[backward]
    outermost = (above < 0) | (trace.forward[above] != row)
    links.add("backward", backward[outermost])
    mine = np.flatnonzero(trace.flows.source == row)
    links.add("flow", trace.flows.target[mine], flow_names(trace, mine))
    received, what = peers(trace, row, sent=True)
    links.add("peer", received, [what] * len(received))
    return links


def flow_names(trace: Trace, rows: Ints) -> list[str]:
    """Return the names of the file's own arrows."""
    return [trace.strings[number] for number in trace.flows.name[rows[:MAX_LINKS]].tolist()]


def peers(trace: Trace, row: int, *, sent: bool) -> tuple[Ints, str]:
    """Return the events of other ranks that are the other side of a transfer, and its kind.

    A send and a receive belong together if they have the same group and sequence number and name each
    other's ranks. The parts of a collective have no direction: the one that begins last lets the others go
    on, so it led to them.

    Args:
        trace: Of several ranks.
        row: The event.
        sent: Whether those are wanted that the event led to, else those that led to it.
    """
    table, nothing = trace.collectives, np.zeros(0, np.int64)
    at = np.flatnonzero(table.row == row)
    if not len(at) or len(trace.ranks) < 2 or table.sequence[at[0]] < 0:
        return nothing, ""
    one = int(at[0])
    what = trace.strings[int(table.operation[one])] if table.operation[one] >= 0 else "unknown"
    same = (table.sequence == table.sequence[one]) & (table.group == table.group[one])
    same &= trace.rank[table.row] != trace.rank[row]
    if table.peer[one] >= 0:
        wanted = RECEIVES if sent else SENDS
        if what not in (SENDS if sent else RECEIVES):
            return nothing, ""
        names = np.array([trace.strings[max(int(number), 0)] in wanted for number in table.operation])
        same &= names & (trace.rank[table.row] == table.peer[one]) & (table.peer == trace.rank[row])
        return table.row[same], what
    same &= table.operation == table.operation[one]
    others = table.row[same]
    if not len(others):
        return nothing, ""
    last = others[int(np.argmax(trace.start_ns[others]))]
    is_last = trace.start_ns[row] > trace.start_ns[last]
    if sent:
        return (others, what) if is_last else (nothing, "")
    return (nothing, "") if is_last else (np.array([last]), what)
