"""The packed statistics of many tensors: one row each, made so that the rows of parts add up.

A row has sums, which add up over ranks, and maxima, of which the largest counts; the least value is kept as
the maximum of the negated ones. All ranks together need one SUM and one MAX however many tensors there are.

The tables of all ranks are added up on a thread of its own: training never waits for another rank. A round is
the measurements of one rank at one step. The thread takes rounds in order; every rank's thread does the same
with its own. It first exchanges the maxima, whose head says which step and kind of round each rank is at.
Only if all agree come the sums, and then the counts, so exchanges of different sizes never meet. A rank that
missed a step is noticed there: the round is dropped on all ranks, reported once, and each rank goes on with
its first round after the last step that anyone had reached. The head also carries the inputs of common
decisions: the cost of measuring and the wish for a new layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from stepscope.events.kinds.histogram import summary
from stepscope.events.messages import Event
from stepscope.kernels import moments
from stepscope.record.edges import BUCKET_OF_KEY, BUCKETS, EDGES
from stepscope.record.problems import pass_on
from stepscope.record.worker import Worker

if TYPE_CHECKING:
    from stepscope.record.run import Run

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

SUMS = ("count", "sum", "squares", "zeros", "nonfinite")
MAXIMA = ("most", "negated_least")
COUNT, SUM, SQUARES, ZEROS, NONFINITE, LEAST, LARGEST = range(7)
"""Columns of a table's ``moments``, which are those of the kernel."""


class StatisticsTable:
    """Rows of moments, and of bucket counts if a histogram is wanted.

    Args:
        rows: How many.
        histograms: Whether to count buckets.

    Attributes:
        moments: float64 [rows, 7]: count, sum, sum of squares, zeros, non-finite, least, most.
        counts: int64 [rows, BUCKETS + 1], the last column for non-finite values; [0, 0] without histograms.
    """

    def __init__(self, rows: int, *, histograms: bool = False) -> None:
        self.moments: Array = np.zeros((rows, len(moments.COLUMNS)))
        self.moments[:, LEAST], self.moments[:, LARGEST] = np.inf, -np.inf
        self.counts: Counts = np.zeros((rows, BUCKETS + 1) if histograms else (0, 0), np.int64)

    def __len__(self) -> int:
        return len(self.moments)

    def add(self, row: int, values: npt.NDArray[np.generic]) -> None:
        """Add numbers to a row.

        Args:
            row: Its number.
            values: Floats of any shape; uint16 stands for the bits of bfloat16.
        """
        kind = "bf16" if values.dtype == np.uint16 else f"f{values.dtype.itemsize}"
        values = np.ascontiguousarray(values)
        columns = ([values.ctypes.data], [values.size], [moments.TYPES.index(kind)], [row])
        self.add_parts(*(np.array(column, np.int64) for column in columns))

    def add_parts(
        self, addresses: Counts, sizes: Counts, types: Counts, rows: Counts, *, squares_only: bool = False
    ) -> None:
        """Add parts of memory to rows: see ``kernels.moments.add``."""
        counts = self.counts[:0] if squares_only else self.counts
        moments.add(addresses, sizes, types, rows, self.moments, counts, BUCKET_OF_KEY, squares_only)

    def add_zeros(self, row: int, number: int) -> None:
        """Add the zeros of a sparse tensor, which are not stored."""
        if number:
            self.moments[row, [COUNT, ZEROS]] += number
            self.moments[row, LEAST] = min(self.moments[row, LEAST], 0.0)
            self.moments[row, LARGEST] = max(self.moments[row, LARGEST], 0.0)
            if len(self.counts):
                self.counts[row, BUCKETS // 2] += number

    def merge(self, other: StatisticsTable) -> None:
        """Add another table of the same rows."""
        self.add_rows(np.arange(len(self)), other.moments, other.counts)

    def add_rows(self, rows: Counts, moments: Array, counts: Counts) -> None:
        """Add moments, and counts unless there are none, to rows, each named once."""
        self.moments[rows, :LEAST] += moments[:, :LEAST]
        self.moments[rows, LEAST] = np.minimum(self.moments[rows, LEAST], moments[:, LEAST])
        self.moments[rows, LARGEST] = np.maximum(self.moments[rows, LARGEST], moments[:, LARGEST])
        if len(self.counts) and len(counts):
            self.counts[rows] += counts

    def packed(self) -> tuple[Array, Array]:
        """Return the arrays that ranks exchange: sums [rows * 5] and maxima [rows * 2]."""
        maxima = np.stack([self.moments[:, LARGEST], -self.moments[:, LEAST]], 1)
        return self.moments[:, :LEAST].ravel(), maxima.ravel()

    def unpack(self, sums: Array, maxima: Array) -> None:
        """Replace the rows by the result over all ranks."""
        self.moments[:, :LEAST] = sums.reshape(-1, len(SUMS))
        pairs = maxima.reshape(-1, len(MAXIMA))
        self.moments[:, LARGEST], self.moments[:, LEAST] = pairs[:, 0], -pairs[:, 1]


def table(sizes: Sequence[int], floats: Array, integers: Counts, counts: Counts | None) -> StatisticsTable:
    """Return packed statistics of arrays as a table.

    Args:
        sizes: Elements of each array.
        floats: [n, 4]: sum, sum of squares, least, most.
        integers: [n, 3]: zeros, non-finite, whether there was such an array.
        counts: [n, BUCKETS + 1]; None without histograms.
    """
    table = StatisticsTable(len(sizes), histograms=counts is not None)
    there = np.flatnonzero(integers[:, 2])
    moments = np.column_stack([sizes, floats[:, :2], integers[:, :2], floats[:, 2:]])
    rows = np.zeros((0, 0), np.int64) if counts is None else np.asarray(counts, np.int64)[there]
    table.add_rows(there, np.asarray(moments, np.float64)[there], rows)
    return table


OFF, NORM, FULL, HISTOGRAMS = range(4)
"""Levels of measuring in a compiled step."""
NOTHING_CLIPS = -1.0
"""Norm of the clipped gradient if nothing clips: a compiled program returns numbers alone."""


@dataclass(frozen=True)
class StepResult:
    """The measurements of a compiled step; reading them may wait for the device.

    Attributes:
        read: Returns an array of the device as one of numpy.
        sizes: Elements of each row.
        made: Count of steps that were measured until then.
        both_norms: [2], of the gradient, and after clipping.
        parts: Floats, integers and counts by kind, as of ``table``.
    """

    read: Callable[[Any], Any]
    sizes: Sequence[int]
    made: Any
    both_norms: Any
    parts: Mapping[str, Sequence[Any]]

    def number(self) -> int:
        """Return the count of steps that were measured until then."""
        return int(self.read(self.made))

    def norms(self) -> tuple[float, float | None]:
        """Return the norm of the gradient, and that after clipping if something clips."""
        before, after = self.read(self.both_norms).tolist()
        return before, None if after == NOTHING_CLIPS else after

    def tables(self) -> dict[str, StatisticsTable]:
        """Return the tables by kind."""
        return {kind: table(self.sizes, *map(self._here, arrays)) for kind, arrays in self.parts.items()}

    def _here(self, array: Any) -> Any:
        return None if array is None else self.read(array)


STATISTICS = ("norm", "mean", "std", "min", "max", "zero_ratio", "nonfinite_count")


def finish(moments: Array) -> Mapping[str, Array]:
    """Return each statistic of each row; NaN for all of a row of nothing.

    - ``norm``: square root of the sum of squares.
    - ``mean``: sum / count.
    - ``std``: of the population, sqrt(sum of squares / count - mean**2).
    - ``zero_ratio``: zeros / count.

    Args:
        moments: float64 [rows, 7], the columns of ``StatisticsTable``.
    """
    with np.errstate(all="ignore"):
        empty = moments[:, COUNT] == 0
        count = np.where(empty, np.nan, moments[:, COUNT])
        mean = moments[:, SUM] / count
        variance = moments[:, SQUARES] / count - mean * mean
        return {
            "norm": np.where(empty, np.nan, np.sqrt(moments[:, SQUARES])),
            "mean": mean,
            "std": np.sqrt(np.maximum(variance, 0.0)),
            "min": np.where(np.isinf(moments[:, LEAST]) & (moments[:, LEAST] > 0), np.nan, moments[:, LEAST]),
            "max": np.where(
                np.isinf(moments[:, LARGEST]) & (moments[:, LARGEST] < 0), np.nan, moments[:, LARGEST]
            ),
            "zero_ratio": moments[:, ZEROS] / count,
            "nonfinite_count": np.where(empty, np.nan, moments[:, NONFINITE]),
        }


def noise_scale(local: float, reduced: float, ranks: int) -> tuple[float, float]:
    """Return unbiased estimates of the gradient's variance and of its squared norm, per rank's batch.

    With the batch of one rank as unit, the small batch is 1 and the large one is ``ranks``; the simple noise
    scale is the ratio of running means of both. Source: McCandlish et al., "An Empirical Model of Large-Batch
    Training", 2018, appendix A.1.

    Args:
        local: Squared norm of a rank's own gradient, mean over the ranks.
        reduced: Squared norm of the mean of the ranks' gradients.
        ranks: How many.

    Returns:
        S, the trace of the covariance, and |G|^2.
    """
    squared = (ranks * reduced - local) / (ranks - 1)
    trace = (local - reduced) / (1 - 1 / ranks)
    return trace, squared


MOST_KEPT = 64
"""Lists of tags kept; there are more if layers rotate or models change."""


class StatisticsWriter:
    """Records statistics of named tensors in a run.

    Args:
        run: The run.
        stats: Which statistics.
    """

    def __init__(self, run: Run, stats: Sequence[str]) -> None:
        self.run, self.stats = run, tuple(stats)
        self._tags: dict[tuple[str, tuple[str, ...]], list[list[str]]] = {}

    def rows(self, prefix: str, names: Sequence[str], moments: Array, step: int) -> Mapping[str, Array]:
        """Record each statistic of each row that is not empty, as ``prefix/name/statistic``.

        Returns:
            All statistics, by name.
        """
        values = finish(moments)
        stats = [values[stat] for stat in self.stats if stat in values]
        if stats:
            tags, there = self._tags_of(prefix, tuple(names)), np.flatnonzero(moments[:, COUNT])
            wanted = chain.from_iterable(tags[row] for row in there.tolist())
            self.numbers(dict(zip(wanted, np.stack(stats, 1)[there].ravel().tolist(), strict=True)), step)
        return values

    def _tags_of(self, prefix: str, names: tuple[str, ...]) -> list[list[str]]:
        """Return the tags of each row, made once: they are the same at each sample."""
        tags = self._tags.get((prefix, names))
        if tags is None:
            if len(self._tags) >= MOST_KEPT:
                self._tags.clear()
            stats = [stat for stat in self.stats if stat in STATISTICS]
            tags = [[f"{prefix}/{name}/{stat}" for stat in stats] for name in names]
            self._tags[prefix, names] = tags
        return tags

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Record single numbers."""
        if numbers:
            self.run.scalars(numbers, step)

    def histograms(self, prefix: str, names: Sequence[str], counts: Counts, step: int) -> None:
        """Record the histogram of each row that is not empty, as ``prefix/name/histogram``."""
        if not len(counts) or "histogram" not in self.stats:
            return

        def make() -> Event | None:
            message = summary([f"{prefix}/{name}/histogram" for name in names], counts, EDGES)
            return Event(summary=message) if message.unknown else None

        self.run.event(make, step, nbytes=counts.nbytes, tag=f"{prefix}/histogram")


def total_norm(moments: Array) -> float:
    """Return the norm of all rows together; NaN if nothing was counted."""
    if not moments[:, COUNT].any():
        return float("nan")
    return float(np.sqrt(moments[:, SQUARES].sum()))


# --- the sum over ranks -----------------------------------------------------------------------------


HEAD = 12
ALONE = 8
"""Places in a head whose numbers may differ between ranks."""
MAX_WAITING = 64
"""Number of rounds that may wait for other ranks; beyond it, nothing is measured until they answer."""


class Exchange(Protocol):
    """All ranks of the job; each method is called by all of them in the same order, and may take its time."""

    ranks: int

    def add(self, values: Array | Counts) -> None:
        """Replace values by their sum over the ranks."""

    def largest(self, values: Array) -> None:
        """Replace values by the largest over the ranks."""


@dataclass
class Round:
    """The measurements of one rank at one step.

    Attributes:
        step: Its number.
        table: The rows; filled once ``wait`` has returned.
        full: Whether all statistics were measured, or only norms.
        version: Number of the layout that the rows follow.
        shape: Number of whatever else must be the same on all ranks, such as the length of ``raw``.
        loose: Further sums, whose meaning is the integration's, and which reach it by ``done``.
        raw: Gradients that are complete only as the sum over ranks, one after the other.
        cost_seconds: Duration of measuring; 0 if unknown.
        step_seconds: How long a step takes; 0 if it is not known.
        relayout: Whether this rank's parameters are no longer those of the layout.
        wait: Waits until a device has finished the table.
        alone: Whether the other ranks are not needed.
        done: The integration's function for the finished round, for ``Rounds``' own ``done`` to call.
    """

    step: int
    table: StatisticsTable
    full: bool
    version: int = 0
    shape: int = 0
    loose: Array = field(default_factory=lambda: np.zeros(0))
    raw: Array = field(default_factory=lambda: np.zeros(0))
    cost_seconds: float = 0.0
    step_seconds: float = 0.0
    relayout: bool = False
    wait: Callable[[], None] | None = None
    alone: bool = False
    done: Callable[[], None] | None = None

    def head(self) -> Array:
        """Return the values that ranks compare: a number and its negative, which cancel out if all agree."""
        kind = 2 * self.full + (len(self.table.counts) > 0)
        pairs = (self.step, kind, self.version, self.shape)
        alone = (float(self.relayout), self.cost_seconds, self.step_seconds)
        head = np.zeros(HEAD)
        head[: 2 * len(pairs)] = [number for one in pairs for number in (one, -one)]
        head[ALONE : ALONE + len(alone)] = alone
        return head


class Rounds:
    """Exchanges rounds and hands them on.

    Args:
        done: Called on this thread with each round that all ranks agree on, its table now that of all ranks.
        exchange: The ranks; None for a single one.
        relayout: Called on this thread, on all ranks after the same round, if one wished for a new layout.
        failed: Called on this thread with a failure: reason, words, hint, whether all is over.
    """

    def __init__(
        self,
        done: Callable[[Round], None],
        exchange: Exchange | None = None,
        *,
        relayout: Callable[[], None] | None = None,
        failed: Callable[[str, str, str, bool], None],
    ) -> None:
        self._done, self._exchange, self._relayout, self._failed = done, exchange, relayout, failed
        self._worker: Worker[Round] = Worker("stepscope-statistics", self._try)
        self._resume = -1
        self.version = 0
        self.over = False

    @property
    def full(self) -> bool:
        """True if no more should be measured that other ranks are needed for."""
        return self.over or self.stuck

    @property
    def stuck(self) -> bool:
        """True if as many rounds wait as may."""
        return self._worker.waiting >= MAX_WAITING

    @property
    def idle(self) -> bool:
        """True if every round that was put is done, so that values recorded now come after them."""
        return self._worker.pending == 0

    def put(self, round_: Round) -> None:
        """Take a round."""
        self._worker.put(round_)

    def drain(self, timeout: float) -> bool:
        """Wait until every round put is done; False if that takes longer, in seconds."""
        return not self.over and self._worker.wait(timeout)

    def close(self, timeout: float) -> bool:
        """Wait as ``drain`` does, and end the thread; False if rounds still waited, in seconds."""
        done = self.drain(timeout)
        self._worker.end()
        if done or self.over:
            self._worker.join(timeout)
        return done

    def _try(self, round_: Round) -> None:
        if self.over and not round_.alone:
            return
        exchanging = False
        try:
            if round_.wait is not None:
                round_.wait()
            agreed = True
            if self._exchange is not None and not round_.alone:
                exchanging = True
                agreed = self._agreed(round_, self._exchange)
                exchanging = False
            if agreed:
                self._done(round_)
        except BaseException as error:  # noqa: BLE001  a broken connection, a framework's or the user's own code
            pass_on(error)
            self.over = self.over or exchanging
            words = f"step {round_.step}: {type(error).__name__}: {str(error)[:500]}"
            self._failed("statistics", words, "", exchanging)

    def _agreed(self, round_: Round, exchange: Exchange) -> bool:
        """Exchange a round; return False if it is dropped."""
        if round_.step <= self._resume or round_.version != self.version:
            return False
        sums, maxima = round_.table.packed()
        head_and_maxima = np.concatenate([round_.head(), maxima])
        exchange.largest(head_and_maxima)
        head, maxima = head_and_maxima[:HEAD], head_and_maxima[HEAD:]
        agreed = all(head[at] == -head[at + 1] for at in range(0, ALONE, 2))
        if agreed:
            self._add_up(round_, exchange, sums, maxima)
            round_.cost_seconds, round_.step_seconds = float(head[ALONE + 1]), float(head[ALONE + 2])
        else:
            self._disagree(head)
        if head[ALONE] and self._relayout is not None:
            self._relayout()
        return agreed

    def _add_up(self, round_: Round, exchange: Exchange, sums: Array, maxima: Array) -> None:
        parts = [sums, round_.loose, round_.raw]
        together = np.concatenate(parts)
        exchange.add(together)
        sums, round_.loose, round_.raw = np.split(together, np.cumsum([len(part) for part in parts])[:-1])
        round_.table.unpack(sums, maxima)
        if len(round_.table.counts):
            exchange.add(round_.table.counts)

    def _disagree(self, head: Array) -> None:
        self._resume = int(head[0])
        last, first = int(head[0]), int(-head[1])
        steps = f"steps {first} and {last}" if first != last else f"step {last} in different ways"
        self._failed(
            "ranks",
            f"the ranks measured {steps} in one round; it is left out",
            "every rank must take the same optimizer steps and give its hooks the same arguments",
            False,
        )
