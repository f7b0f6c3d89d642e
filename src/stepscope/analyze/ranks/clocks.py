"""The clocks of all ranks aligned to one, by collectives that no rank can leave before the last has arrived.

The ranks of such a collective leave it together, so its recorded ends differ by the difference of the clocks
and by a few microseconds. Offsets and the collectives' true ends are fitted in turn by medians (Tukey's
median polish), drift by the median of slopes (Theil and Sen); the rest says how good the fit is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.joint import Joint
from stepscope.trace.model import Trace

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
MIN_JOINT = 5
"""Least number of joint collectives of a rank for its offset to be trusted."""
FEWEST_FOR_DRIFT = 20
ERROR_QUANTILE = 0.9
SMALLEST_JUMP_NS = 100_000
"""A smaller change of a clock cannot be distinguished from noise."""
_ROUNDS = 30
_PAIRS = 20_000
"""Most slopes used for one rank's drift; of more points, pairs at even distances are taken."""


@dataclass(frozen=True, slots=True)
class RankClock:
    """One rank's clock against the reference's."""

    rank: int
    offset_ns: float
    """Lead of its clock over the reference's at the middle of the recording."""
    drift: float
    """How much faster it runs, as a ratio; 1e-6 is a microsecond a second."""
    error_ns: float
    """Nine of ten ends lie nearer than this to the fitted ones."""
    joint: int
    """Collectives that it was fitted on."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks of all ranks, or the reason why they are not known."""

    reference: int
    clocks: dict[int, RankClock]
    middle_ns: float
    """The moment at which the offsets hold, in the trace's time."""
    refused: str | None = None
    """Why they cannot be aligned."""
    one_host: bool = False
    """All ranks are of one host and share its clock."""

    def aligned(self, time_ns: Ints, rank: Ints) -> npt.NDArray[np.int64]:
        """Return recorded times on the reference's clock; as recorded if that is not known.

        That is so if the clocks were refused, and on ranks that no collective joins with the others.
        """
        if self.refused is not None:
            return np.asarray(time_ns, np.int64)
        numbers, at = np.unique(rank, return_inverse=True)  # numbers of ranks may be as large as they like
        offset, drift = np.zeros(len(numbers)), np.zeros(len(numbers))
        for row, number in enumerate(numbers.tolist()):
            if (clock := self.clocks.get(number)) is not None:
                offset[row], drift[row] = clock.offset_ns, clock.drift
        shift = offset[at] + drift[at] * (time_ns - self.middle_ns)
        return np.asarray(time_ns - np.rint(shift).astype(np.int64))

    def recorded(self, time_ns: Ints, rank: int) -> npt.NDArray[np.int64]:
        """Return times on the reference's clock as a rank's own clock recorded them."""
        clock = self.clocks.get(rank)
        if self.refused is not None or clock is None:
            return np.asarray(time_ns, np.int64)
        shift = clock.offset_ns + clock.drift * (time_ns - self.middle_ns)
        return np.asarray(time_ns + np.rint(shift / (1 - clock.drift)).astype(np.int64))

    @property
    def error_ns(self) -> float:
        """The largest error of a clock."""
        return max((clock.error_ns for clock in self.clocks.values()), default=0.0)


def align_clocks(trace: Trace, joint: Joint) -> Clocks:
    """Fit each rank's clock to the lowest rank's; processes of one host share one, and nothing is fitted.

    Refused if the ranks are not all joined by collectives, a rank has fewer than :data:`MIN_JOINT`, a clock
    was set while it ran, or the ends differ by more than the collectives last, so that they cannot be ends of
    the same ones.
    """
    reference = joint.ranks[0]
    use = joint.synchronising
    rows = joint.row[use]
    middle = 0.0

    def refuse(why: str) -> Clocks:
        return Clocks(reference, {}, middle, why)

    if _share_a_clock(trace, rows):
        counts = (rows >= 0).sum(0).tolist()
        same = {
            rank: RankClock(rank, 0.0, 0.0, 0.0, count)
            for rank, count in zip(joint.ranks, counts, strict=True)
        }
        return Clocks(reference, same, middle, one_host=True)
    if not len(rows):
        return refuse("no collective that all ranks leave together was recorded")
    present = rows >= 0
    ends = np.where(present, trace.end_ns[rows], 0).astype(np.float64)
    if apart := _apart(present, joint.ranks):
        return refuse(f"no collective joins {apart[0]} with {apart[1]}")
    few = [
        rank for rank, count in zip(joint.ranks, present.sum(0).tolist(), strict=True) if count < MIN_JOINT
    ]
    if few:
        return refuse(f"fewer than {MIN_JOINT} joint collectives on rank {few[0]}")
    middle = float(np.median(ends[present]))
    times = ends - middle
    drift = np.zeros(len(joint.ranks))
    offset, residual = _polish(times, present)
    if stepped := _stepped(times, residual, present, joint.ranks):
        return refuse(stepped)
    for _ in range(3 if present.sum(0).min() >= FEWEST_FOR_DRIFT else 0):
        drift += _slopes(times, residual, present)
        drift -= drift[0]
        offset, residual = _polish(times * (1 - drift), present)
    clocks = {}
    for number, rank in enumerate(joint.ranks):
        left = np.abs(residual[present[:, number], number])
        error = float(np.quantile(left, ERROR_QUANTILE))
        clocks[rank] = RankClock(
            rank,
            float(offset[number] - offset[0]),
            float(drift[number]),
            error,
            int(present[:, number].sum()),
        )
    durations = np.where(present, trace.duration_ns[rows], 0)[present]
    worst = max(clocks.values(), key=lambda clock: clock.error_ns)
    longest = float(np.quantile(durations, ERROR_QUANTILE))
    if worst.error_ns > longest:
        return refuse(
            f"the ends of joint collectives differ by {worst.error_ns / 1e3:.0f} µs on rank {worst.rank} "
            f"after the fit, more than they last ({longest / 1e3:.0f} µs)"
        )
    return Clocks(reference, clocks, middle)


def _share_a_clock(trace: Trace, rows: Ints) -> bool:
    """Return whether all profiles name one host, and no rank leaves a collective before another arrives.

    Ranks need not leave together, as those of Gloo's rings do not: a fit would move times that can be
    compared as they are. Machines with the same name do not share a clock, which the order shows.
    """
    hosts = {source.host for source in trace.sources}
    if len(hosts) != 1 or "" in hosts or trace.clock != "unix":
        return False
    if not len(rows):
        return True
    present = rows >= 0
    come = np.where(present, trace.start_ns[rows], np.iinfo(np.int64).min).max(1)
    left = np.where(present, trace.end_ns[rows], np.iinfo(np.int64).max).min(1)
    return bool((come <= left).mean() >= ERROR_QUANTILE)


def _apart(present: npt.NDArray[np.bool_], ranks: tuple[int, ...]) -> tuple[str, str] | None:
    """Return two ranks that no chain of collectives joins."""
    component = np.arange(len(ranks))
    for taking in np.unique(present, axis=0):
        members = np.flatnonzero(taking)
        if len(members) > 1:
            joined = np.isin(component, component[members])
            component[joined] = component[members].min()
    other = np.flatnonzero(component != component[0])
    return (f"rank {ranks[0]}", f"rank {ranks[other[0]]}") if len(other) else None


def _polish(times: Floats, present: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Split ends into an offset of each rank and a true end of each collective, by medians in turn."""
    values = np.where(present, times, np.nan)
    offset = np.zeros(values.shape[1])
    for _ in range(_ROUNDS):
        true_end = np.nanmedian(values - offset, axis=1)
        change = np.nanmedian(values - offset - true_end[:, None], axis=0)
        offset += change
        if np.abs(change).max() < 1:
            break
    true_end = np.nanmedian(values - offset, axis=1)
    return offset, np.nan_to_num(values - offset - true_end[:, None])


def _slopes(times: Floats, residual: Floats, present: npt.NDArray[np.bool_]) -> Floats:
    """Return each rank's slope of the rest, by the median over pairs (Theil and Sen)."""
    slopes = np.zeros(times.shape[1])
    for number in range(times.shape[1]):
        at = np.flatnonzero(present[:, number])
        at = at[np.argsort(times[at, number], kind="stable")]
        half = len(at) // 2
        gaps = np.unique(np.linspace(half, len(at) - 1, max(1, min(half, _PAIRS // len(at)))).astype(int))
        pairs = [
            (residual[at[gap:], number] - residual[at[:-gap], number])
            / (times[at[gap:], number] - times[at[:-gap], number])
            for gap in gaps.tolist()
        ]
        all_slopes = np.concatenate(pairs)
        slopes[number] = np.median(all_slopes[np.isfinite(all_slopes)]) if len(all_slopes) else 0.0
    return slopes


def _stepped(
    times: Floats, residual: Floats, present: npt.NDArray[np.bool_], ranks: tuple[int, ...]
) -> str | None:
    """Return whose clock was set during the recording: two levels fit its residuals, and no line does."""
    for number, rank in enumerate(ranks):
        at = np.flatnonzero(present[:, number])
        at = at[np.argsort(times[at, number], kind="stable")]
        left, time = residual[at, number], times[at, number]
        if len(left) < 2 * MIN_JOINT or np.ptp(left) <= SMALLEST_JUMP_NS:  # no two levels are further apart
            continue
        splits = range(MIN_JOINT, len(left) - MIN_JOINT + 1, max(1, len(left) // 200))
        best = min(
            splits, key=lambda cut: _spread(left[:cut]) * cut + _spread(left[cut:]) * (len(left) - cut)
        )
        before, after = left[:best], left[best:]
        jump = float(np.median(after) - np.median(before))
        levels = max(_spread(before), _spread(after))
        half = len(left) // 2
        slope = np.median((left[half:] - left[: len(left) - half]) / (time[half:] - time[: len(left) - half]))
        line = _spread(left - slope * time)
        if abs(jump) > max(20 * levels, SMALLEST_JUMP_NS) and levels < line / 4:
            return f"the clock of rank {rank} was set by about {jump / 1e6:.1f} ms during the recording"
    return None


def _spread(values: Floats) -> float:
    """Return the mean distance from the median."""
    return float(np.abs(values - np.median(values)).mean())
