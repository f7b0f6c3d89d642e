"""data-wait: steps wait for their data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepscope.health.batch import Chunk
from stepscope.health.gate import Gate
from stepscope.health.pairs import Paired
from stepscope.health.ring import Ring, pieces
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream

SKIPPED = 10
"""First steps: loaders start, kernels are compiled."""


class DataWait(Paired):
    """Adds up waits and step times, block by block."""

    id = "data-wait"
    title = "Waiting for data"
    formula = (
        "Σ data wait / Σ step time of a block > ratio (high: > high), two blocks in a row; closes below "
        "0.8 * ratio"
    )
    source = "XProf's input pipeline analyzer, torchtitan's data_loading(%); 10 % and 30 %: ours"
    window = "within 150 steps, the first 10 not counted"
    roles = ("step_time", "data_wait")
    pair = ("step_time", "data_wait")
    needs = ("step_time", "data_wait")
    defaults = thresholds(ratio=0.1, high=0.3, block=50, blocks=2)
    action = (
        "load in parallel and ahead: DataLoader(num_workers=…, pin_memory=True, prefetch_factor=…), tf.data "
        "prefetch; a profile of one step shows what the loader does"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._blocks: dict[Stream, _Block] = {}

    def pairs(self, first: Chunk, second: Chunk) -> None:
        """Add up steps."""
        time, wait = first.values, second.values
        good = np.isfinite(time) & np.isfinite(wait) & (time > 0) & (wait >= 0)
        rows = np.flatnonzero(good)
        block = self._blocks.get(second.stream)
        if block is None:
            block = self._blocks[second.stream] = _Block(self)
        skipped = min(block.left, len(rows))
        if skipped:
            block.left -= skipped
            block.first_step = int(first.steps[rows[skipped - 1]])
            rows = rows[skipped:]
        for part in pieces(block.times.count, len(rows), self.limit("block")):
            at = rows[part]
            block.times.push(time[at])
            block.waits.push(np.minimum(wait[at], time[at]))
            if block.times.count % self.limit("block") == 0:
                self._judge(block, At.row(second.part(at), -1, block.first_step))

    def _judge(self, block: _Block, at: At) -> None:
        self.judged()
        wait, time = float(block.waits.values.sum()), float(block.times.values.sum())
        ratio, each = wait / time, time / self.limit("block")
        limit = self.limits["ratio"]
        change = block.gate.see(ratio > (0.8 * limit if block.gate.is_open else limit))
        if change == "close":
            self.close(at)
        elif change == "open":
            text = (
                f"{ratio:.0%} of the step time is waiting for data: {1e3 * each * ratio:.3g} of "
                f"{1e3 * each:.3g} ms"
            )
            values = {"wait_ratio": ratio, "wait_ms": 1e3 * each * ratio, "step_ms": 1e3 * each}
            self.open(at, text, values, severity="high" if ratio > self.limits["high"] else None)
        block.first_step = at.step


class _Block:
    """The steps of the running block."""

    def __init__(self, rule: DataWait) -> None:
        size, blocks = max(rule.limit("block"), 1), rule.limit("blocks")
        self.times, self.waits = Ring(size), Ring(size)
        self.gate = Gate(opens=blocks, closes=blocks)
        self.left, self.first_step = SKIPPED, 0
