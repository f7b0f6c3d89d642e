"""Causes and effects of an event: launches, backward operators, the file's arrows, other ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from stepscope.serve.profiles.draw import related
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.types import Link
from stepscope.trace.model import Trace
from stepscope.trace.tables import Ints

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
