"""cpu-bottleneck and io-bottleneck: the GPU waits while the host is busy, or waits for its disks."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import ClassVar

import numpy as np

from stepscope.health.gate import AlarmGate
from stepscope.health.layers import AcrossLayers, Place
from stepscope.health.ring import Ring, Steps
from stepscope.health.rows import StepValues
from stepscope.health.rule import At, thresholds

EVERY = 12


class Bottleneck(AcrossLayers):
    """Counts the samples in which the GPUs idle while something else is at its limit."""

    source = "SageMaker Debugger CPUBottleneck and IOBottleneck (50 % of the samples)"
    window = "within 72 samples; at 5 s a sample 6 minutes"
    chance = "none from noise: it takes half of 60 samples"
    fewest = "60 samples of a GPU and of the host"
    busy_role: ClassVar[str]
    words: ClassVar[str]

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._shares: dict[Place, tuple[Ring, Steps, AlarmGate]] = {}

    def row(self, place: Place, row: StepValues) -> None:
        """Judge one sample."""
        idle = [value for value in row.of("gpu").values() if isfinite(value)]
        busy = {stream: value for stream, value in row.of(self.busy_role).items() if isfinite(value)}
        if not idle or not busy:
            return
        size = self.limit("window")
        shares, steps, gate = self._shares.setdefault(place, (Ring(size), Steps(size), AlarmGate()))
        stream = min(busy, key=lambda each: each.tag)
        bad = min(idle) < self.limits["gpu"] and busy[stream] > self.limits["busy"]
        shares.push(np.array([float(bad)]))
        steps.push(np.array([row.step], np.int64))
        if not shares.full or shares.count % EVERY:
            return
        self.judged()
        share = float(shares.values.mean())
        change = gate.see(share > self.limits["share"] * (0.8 if gate.is_open else 1.0))
        at = At(stream, row.step, row.wall, int(steps.values[0]))
        if change == "close":
            self.close(at)
        elif change == "open":
            text = f"in {share:.0%} of the last {size} samples a GPU idles while {self.words}"
            self.open(at, text, {"share": share, "gpu": min(idle), "busy": busy[stream]})


class CpuBottleneck(Bottleneck):
    """The processors are busy."""

    id = "cpu-bottleneck"
    title = "CPU bottleneck"
    formula = "share of samples with GPU < gpu and CPU > busy, of the last window > share"
    roles = ("gpu", "cpu")
    needs = ("gpu", "cpu")
    busy_role = "cpu"
    words = "the processors are busy"
    defaults = thresholds(gpu=0.1, busy=0.9, share=0.5, window=60)
    action = (
        "decode and augment on the GPU or ahead of time, give the job more cores, fewer threads per worker"
    )


class IoBottleneck(Bottleneck):
    """The processors wait for input and output."""

    id = "io-bottleneck"
    title = "I/O bottleneck"
    formula = "share of samples with GPU < gpu and I/O wait > busy, of the last window > share"
    roles = ("gpu", "io_wait")
    needs = ("gpu", "io_wait")
    busy_role = "io_wait"
    words = "the processors wait for disks"
    defaults = thresholds(gpu=0.1, busy=0.5, share=0.5, window=60)
    action = (
        "read fewer, larger files in sequence, cache the data on a local disk or in memory, write "
        "checkpoints in the background"
    )
