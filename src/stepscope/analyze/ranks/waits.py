"""Waiting separated from transfer: each rank's loss in each collective because others came later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.peaks import DeviceLink, link_of
from stepscope.analyze.ranks.clocks import Clocks
from stepscope.analyze.ranks.joint import Joint
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n}
_FACTORS |= dict.fromkeys(("reduce_scatter", "all_to_all"), _FACTORS["all_gather"])
"""Bus bytes per message byte for n ranks, as nccl-tests defines them (doc/PERFORMANCE.md)."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Arrival, waiting and transfer of the joint collectives; ``C`` collectives, ``R`` ranks.

    Attributes:
        joint: Which rows they are.
        arrival_ns: Start on the common clock, shape ``(C, R)``; meaningless if a rank took no part.
        wait_ns: From a rank's arrival to the last rank's, ``(C, R)``; 0 if it took no part. A lower bound
            if not all members were recorded.
        transfer_ns: From the last arrival to a rank's end, ``(C, R)``.
        last: Index of the rank that came last, ``(C,)``.
        margin_ns: How much later it came than the second-to-last, ``(C,)``.
        kept_ns: How long before its arrival its work counts as the cause, ``(C,)``: from the arrival since
            which at least half of the waiting came about. That is the second-to-last one's, unless some came
            together with the last, as those do whom a collective of their own has held up.
    """

    joint: Joint
    arrival_ns: Ints
    wait_ns: Ints
    transfer_ns: Ints
    last: Ints
    margin_ns: Ints
    kept_ns: Ints

    @property
    def total_ns(self) -> int:
        """Waiting of all ranks together."""
        return int(self.wait_ns.sum())

    @property
    def share_of_communication(self) -> float:
        """Waiting as a share of the time spent in joint collectives."""
        spent = self.wait_ns.sum() + self.transfer_ns.sum()
        return float(self.wait_ns.sum() / spent) if spent else 0.0


def measure_waits(trace: Trace, joint: Joint, clocks: Clocks) -> Waits:
    """Divide each rank's time in each collective into waiting and transfer.

    A rank waits from its own arrival to the last one's, and never beyond its own end: if clocks are not
    aligned a wait that is longer than the collective would be the clocks' doing.
    """
    present = joint.row >= 0
    at = np.broadcast_to(np.array(joint.ranks), joint.row.shape)
    start = np.where(present, clocks.aligned(trace.start_ns[joint.row], at), np.iinfo(np.int64).min)
    length = np.where(present, trace.duration_ns[joint.row], 0)
    latest = start.max(1)
    last = start.argmax(1)
    wait = np.where(present, np.clip(latest[:, None] - start, 0, length), 0)
    second = np.sort(start, axis=1)[:, -2]
    margin = np.where(second > np.iinfo(np.int64).min, latest - second, 0)
    longest_ns = _kept(np.where(present, latest[:, None] - start, 0))
    return Waits(joint, start, wait, np.where(present, length - wait, 0), last, margin, longest_ns)


def _kept(lag: Ints) -> Ints:
    """Return the shortest time before the last arrival, back to another one, that holds half of the waiting.

    Args:
        lag: How long before the last arrival each rank came, shape ``(C, R)``.
    """
    lag = np.sort(lag, axis=1)
    ranks = np.arange(lag.shape[1])
    since = np.cumsum(lag, axis=1) + (lag.shape[1] - 1 - ranks) * lag
    first = (2 * since >= lag.sum(axis=1, keepdims=True)).argmax(axis=1)
    return np.asarray(np.take_along_axis(lag, first[:, None], axis=1)[:, 0])


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Joint collectives of one operation in one group."""

    operation: str
    group: str
    ranks: int
    count: int
    bytes: int
    """Of one message, the median; -1 if no sizes were recorded."""
    transfer_ns: int
    """Median from the last arrival to the last end."""
    wait_ns: int
    """Waiting of all ranks in all of them."""
    algorithm_bytes_per_s: float | None
    """Median message bytes by median transfer; None without sizes."""
    bus_bytes_per_s: float | None
    """The same in bytes that each link carries; None for operations whose factor is not defined."""
    link: str = ""
    """The link between the ranks, such as ``NVLink 4`` or ``network``; empty if that is not known."""
    link_bytes_per_s: float | None = None
    """The most that it carries in one direction; None if that is not known."""
    link_ratio: float | None = None
    """Part of it that the transfers use; short messages never come near to 1."""


def bandwidths(
    trace: Trace, waits: Waits, *, network_bytes_per_s: float | None = None
) -> tuple[Bandwidth, ...]:
    """Sum up transfers by operation and group, most waiting first, with the rate of their links.

    Args:
        trace: The ranks' profiles.
        waits: The waits in them.
        network_bytes_per_s: Rate of a rank's network in one direction, for groups of several machines.
    """
    links = RankLinks(trace, network_bytes_per_s)
    joint, message = waits.joint, _messages(trace, waits.joint)
    longest = waits.transfer_ns.max(1)
    rows = []
    for key in dict.fromkeys(zip(joint.operation, joint.group, strict=True)):
        at = np.array([pair == key for pair in zip(joint.operation, joint.group, strict=True)])
        known = message[at][message[at] > 0]
        size = int(np.median(known)) if len(known) else -1
        ranks = int(max((joint.row[at] >= 0).sum(1).max(), np.array(joint.expected)[at].max()))
        seconds = float(np.median(longest[at])) / 1e9
        algorithm = size / seconds if size > 0 and seconds > 0 else None
        factor = _FACTORS.get(key[0])
        bus = algorithm * factor(ranks) if algorithm is not None and factor is not None else None
        taking = np.flatnonzero((joint.row[at] >= 0).any(axis=0)).tolist()
        whole = len(taking) >= ranks
        link = links.of([joint.ranks[column] for column in taking]) if whole else None
        rows.append(
            Bandwidth(
                key[0], key[1], ranks, int(at.sum()), size, int(np.median(longest[at])),
                int(waits.wait_ns[at].sum()), algorithm, bus, link.name if link else "",
                link.bytes_per_second if link else None,
                bus / link.bytes_per_second if link and bus is not None else None,
            )
        )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: -row.wait_ns))


def _messages(trace: Trace, joint: Joint) -> Ints:
    """Return the bytes of each joint collective's message, -1 if none was recorded."""
    sizes = np.full(len(trace), -1, np.int64)
    sizes[trace.collectives.row] = trace.collectives.bytes
    return np.asarray(np.where(joint.row >= 0, sizes[joint.row], -1).max(1))


class RankLinks:
    """The links between ranks: that of their devices on one machine, else the network, if its rate is given.

    Ranks are on one machine if their profiles name one host. If no profile names any, they are if each saw as
    many devices as the job has ranks, and each worked on another one of them.
    """

    def __init__(self, trace: Trace, network_bytes_per_s: float | None) -> None:
        self._network = None
        if network_bytes_per_s is not None:
            self._network = DeviceLink("network", network_bytes_per_s, "as given")
        self._hosts = {source.rank: source.host for source in trace.sources if source.host}
        self._names: dict[int, set[str]] = {}
        seen: dict[int, int] = {}
        for source in trace.sources:
            known = source.facts.get("deviceProperties")
            seen[source.rank] = len(known) if isinstance(known, list) else 0
        names = {(device.rank, device.index): device.name for device in trace.devices}
        rows = trace.collectives.row
        rows = rows[trace.device[rows] >= 0]
        used: dict[int, set[int]] = {}
        for rank, index in set(zip(trace.rank[rows].tolist(), trace.device[rows].tolist(), strict=True)):
            used.setdefault(rank, set()).add(index)
            self._names.setdefault(rank, set()).add(names.get((rank, index), ""))
        size = max((source.world_size for source in trace.sources), default=0)
        size = max(size, len(trace.ranks))
        apart = [index for indices in used.values() for index in indices]
        self._one_machine = (
            not self._hosts
            and len(used) == len(trace.ranks)
            and min(seen.get(rank, 0) for rank in trace.ranks) >= size
            and len(set(apart)) == len(apart)
        )

    def of(self, ranks: Sequence[int]) -> DeviceLink | None:
        """Return the link between some ranks, None if unknown."""
        hosts = {self._hosts.get(rank, "") for rank in ranks}
        if len(hosts - {""}) > 1:
            return self._network
        if not self._one_machine and (len(hosts) > 1 or "" in hosts):
            return None
        kinds = {name for rank in ranks for name in self._names.get(rank, {""})}
        return link_of(kinds.pop()) if len(kinds) == 1 else None


@dataclass(frozen=True, slots=True)
class SlowGroup:
    """A process group whose transfers take longer than those of all similar groups."""

    operation: str
    group: str
    ranks: tuple[int, ...]
    """Its members that were recorded."""
    transfer_ns: int
    """Median, from the last arrival to the last end."""
    usual_ns: int
    """The same in the other groups."""
    others: int
    """Groups that it was compared with: of as many ranks, for the same operation and size of message."""


SLOWER, FEWEST_GROUPS, FEWEST_TRANSFERS = 1.5, 3, 8


def slow_groups(trace: Trace, waits: Waits) -> tuple[SlowGroup, ...]:
    """Name the groups whose transfers take :data:`SLOWER` times as long as those of others that do the same.

    At least :data:`FEWEST_GROUPS` groups are compared, each with :data:`FEWEST_TRANSFERS` transfers or more,
    and nine of ten of the slow one's are longer than nine of ten of the others'. The slowest comes first.
    """
    joint, message = waits.joint, _messages(trace, waits.joint).tolist()
    longest, present = waits.transfer_ns.max(1), joint.row >= 0
    alike: dict[tuple[str, int, int], dict[str, list[int]]] = {}
    for number in np.flatnonzero(joint.whole).tolist():
        key = (joint.operation[number], int(present[number].sum()), message[number])
        alike.setdefault(key, {}).setdefault(joint.group[number], []).append(number)
    slow = []
    for (operation, _, _), groups in alike.items():
        usable = {group: at for group, at in groups.items() if len(at) >= FEWEST_TRANSFERS}
        if len(usable) < FEWEST_GROUPS:
            continue
        for group, at in usable.items():
            rest = [np.median(longest[other]) for name, other in usable.items() if name != group]
            usual, own = float(np.median(rest)), float(np.median(longest[at]))
            others = np.concatenate([longest[other] for name, other in usable.items() if name != group])
            if own > SLOWER * usual and np.quantile(longest[at], 0.1) > np.quantile(others, 0.9):
                taking = np.flatnonzero(present[at].any(axis=0))
                members = tuple(joint.ranks[column] for column in taking.tolist())
                slow.append(SlowGroup(operation, group, members, int(own), int(usual), len(rest)))
    return tuple(sorted(slow, key=lambda row: row.usual_ns - row.transfer_ns))


@dataclass(frozen=True, slots=True)
class StepRun:
    """Steps that follow each other; times are on the common clock, of shape ``(R,)``.

    Attributes:
        numbers: Of the steps.
        begin_ns: Each rank's beginning of the first.
        end_ns: Its end of the last.
    """

    numbers: tuple[int, ...]
    begin_ns: Ints
    end_ns: Ints


def runs_of_steps(trace: Trace, waits: Waits, clocks: Clocks) -> tuple[list[StepRun], str | None]:
    """Return the steps that all ranks recorded once, in order, in runs without a gap; or why there are none.

    Args:
        trace: The profiles of all ranks.
        waits: Their collectives.
        clocks: Their clocks.
    """
    if clocks.refused is not None:
        return [], f"the clocks cannot be aligned: {clocks.refused}"
    if not waits.joint.whole.all():
        return [], "not all ranks of the process groups were recorded"
    ranks, table = waits.joint.ranks, trace.steps
    begin = clocks.aligned(table.start_ns, table.rank)
    end = clocks.aligned(table.end_ns, table.rank)
    runs: list[StepRun] = []
    for number in distinct(table.number).tolist():
        mine = np.flatnonzero((table.number == number) & np.isin(table.rank, ranks))
        if len(mine) != len(ranks) or len(distinct(table.rank[mine])) != len(ranks):
            continue
        mine = mine[np.argsort(table.rank[mine])]
        if runs and runs[-1].numbers[-1] == number - 1:
            before = runs.pop()
            runs.append(StepRun((*before.numbers, number), before.begin_ns, end[mine]))
        else:
            runs.append(StepRun((number,), begin[mine], end[mine]))
    return runs, None if runs else "no step was recorded on all ranks"
