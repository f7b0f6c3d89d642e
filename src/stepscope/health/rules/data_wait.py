"""data-wait: steps wait for their data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepscope.health.batch import Chunk
from stepscope.health.finding import Severity
from stepscope.health.gate import AlarmGate
from stepscope.health.pairs import Paired
from stepscope.health.ring import Floats, Ring, pieces
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream
from stepscope.health.worth import is_worth
from stepscope.text import number

SKIPPED = 10
"""First steps, in which loaders start and kernels are compiled."""


class DataWait(Paired):
    """Adds up waits and step times, block by block."""

    id = "data-wait"
    title = "Waiting for data"
    severity = "low"
    chance = "none from noise: sums of 100 steps"
    fewest = "110 steps"
    formula = (
        "Σ data wait / Σ step time of a block > ratio (low; medium: > high), two blocks in a row; a wait "
        "that takes no longer than measuring it, 1 µs a step, counts as 0; closes below 0.8 * ratio; a new "
        "finding where it passes high (closes below 0.8 * high) or no longer does"
    )
    source = "XProf's input pipeline analyzer, torchtitan's data_loading(%); 10 % and 30 %: ours"
    window = "within 150 steps, the first 10 not counted"
    roles = ("step_time", "data_wait")
    pair = ("step_time", "data_wait")
    needs = ("step_time", "data_wait")
    defaults = thresholds(ratio=0.1, high=0.3, block=50, blocks=2)
    action = (
        "make batches in parallel and ahead: with workers of the loader, if there is one (PyTorch: "
        "DataLoader(num_workers=…, pin_memory=True, prefetch_factor=…); Keras and JAX: tf.data "
        "map(num_parallel_calls=…) and prefetch, keras.utils.PyDataset(workers=…), grain), or in a thread or "
        "process, if your own code makes them; a profile of one step names the line"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._blocks: dict[Stream, _WaitBlock] = {}

    def pairs(self, first: Chunk, second: Chunk) -> None:
        """Add up steps."""
        time, wait = first.values, second.values
        good = np.isfinite(time) & np.isfinite(wait) & (time > 0) & (wait >= 0)
        rows = np.flatnonzero(good)
        block = self._blocks.get(second.stream)
        if block is None:
            block = self._blocks[second.stream] = _WaitBlock(self)
        skipped = min(block.left, len(rows))
        if skipped:
            block.left -= skipped
            rows = rows[skipped:]
        for part in pieces(block.times.count, len(rows), block.size):
            at = rows[part]
            block.times.push(time[at])
            block.waits.push(np.minimum(wait[at], time[at]))
            block.steps += first.steps[at].tolist()
            if block.times.count % block.size == 0:
                del block.steps[: -block.span]
                self._judge(block, second.part(at))

    def _judge(self, block: _WaitBlock, chunk: Chunk) -> None:
        """Judge the block that ends with a chunk's last row."""
        self.judged()
        wait = float(block.waits.values[-block.size :].sum())
        time = float(block.times.values[-block.size :].sum())
        measurable = is_worth(wait, time, ratio=0.0, steps=block.size)
        ratio, each = wait / time if measurable else 0.0, time / block.size
        before, now = block.level, block.see(ratio, self.limits["ratio"], self.limits["high"])
        if now == before:
            return
        if before is not None:
            self.close(At.row(chunk, -1))
        if now is not None:
            text = (
                f"{ratio:.0%} of the step time is waiting for data: {number(1e3 * each * ratio)} of "
                f"{number(1e3 * each)} ms"
            )
            values = {"wait_ratio": ratio, "wait_ms": 1e3 * each * ratio, "step_ms": 1e3 * each}
            limit = self.limits["high" if "medium" in (before, now) else "ratio"]
            since = block.steps[
                onset(block.waits.values / block.times.values, limit, rises=before != "medium")
            ]
            at = At.row(chunk, -1, since)
            self.open(at, text, values, severity=now, since_step=at.first_step)


class _WaitBlock:
    """The steps of the running block and of those that decide, and whether they wait."""

    def __init__(self, rule: DataWait) -> None:
        self.size, blocks = max(rule.limit("block"), 1), max(rule.limit("blocks"), 1)
        self.span = (blocks + 1) * self.size
        self.times, self.waits = Ring(self.span), Ring(self.span)
        self.steps: list[int] = []
        self.some, self.much = AlarmGate(opens=blocks, closes=blocks), AlarmGate(opens=blocks, closes=blocks)
        self.left = SKIPPED

    @property
    def level(self) -> Severity | None:
        """How much it waits, None if it does not."""
        if not self.some.is_open:
            return None
        return "medium" if self.much.is_open else "low"

    def see(self, ratio: float, some: float, much: float) -> Severity | None:
        """Take a block and return the level after it."""
        self.much.see(ratio > (0.8 * much if self.much.is_open else much))
        if self.some.see(ratio > (0.8 * some if self.some.is_open else some)) == "open" and ratio > much:
            self.much.is_open = True
        return self.level


def onset(ratios: Floats, limit: float, *, rises: bool = True) -> int:
    """Return the index from which on the mean is on the other side of a limit.

    Of all splits into two stretches whose means are on different sides, the one that explains most of the
    variance; 0 if there is none, because then everything is on that side.

    Args:
        ratios: At least one.
        limit: That the means are compared with.
        rises: Whether the second stretch is above it.
    """
    count = len(ratios)
    sums, before = np.cumsum(ratios), np.arange(1, count)
    first = sums[:-1] / before
    second = (sums[-1] - sums[:-1]) / (count - before)
    crosses = (first <= limit) & (second > limit) if rises else (first > limit) & (second <= limit)
    if not crosses.any():
        return 0
    explained = before * (count - before) * (second - first) ** 2
    return int(np.argmax(np.where(crosses, explained, -1.0))) + 1
