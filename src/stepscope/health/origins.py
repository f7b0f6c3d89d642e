"""The origin of a finding: the layer that was bad first, the layers that grew first, Adam's second moment.

It uses recorded data only, and says nothing if layers were not measured at the steps in question.

Samples of the step of a finding may be recorded after it, so its origin is settled later. It then depends
only on the points until a time that the series decide, not on the portions: a spike is
settled once a layer is measured at a later step, a value that is not finite once the run is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.finding import NONFINITE, Finding
from stepscope.health.ring import upper_median
from stepscope.health.series import Stream
from stepscope.names.roles import MODEL_INPUT
from stepscope.text import counted, number

SPIKES = ("loss-spike", "gradient-spike")
COUNTS = ("activation_nonfinite", "gradient_nonfinite")
KEPT = 512
"""Samples of a layer that are kept."""
USUAL = 8
"""Samples before a spike whose median is taken as usual."""
GREW = 3.0
"""Multiple of the usual value from which on a layer has grown."""
SHOWN = 3
BEFORE = 8
"""Steps before a spike in which an outdated second moment shows (Wortsman et al. 2023, arXiv 2304.13013)."""
OUTDATED = 2.3
"""Multiple of the root of the second moment beyond which a gradient precedes a spike (same paper)."""


@dataclass
class LayerSamples:
    """The newest samples of one series, in recorded order."""

    steps: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def take(self, chunk: Chunk) -> None:
        """Take further samples."""
        self.steps = np.concatenate([self.steps, chunk.steps])[-KEPT:]
        self.values = np.concatenate([self.values, chunk.values])[-KEPT:]

    def within(self, first: float, last: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the samples of some steps, both ends included."""
        rows = (self.steps >= first) & (self.steps <= last)
        return self.steps[rows], self.values[rows]


class Bad(NamedTuple):
    """The first sample of a layer that is not finite.

    Attributes:
        good: The step of the sample before it, None if it was never finite.
    """

    step: int
    wall: float
    good: int | None


class Origins:
    """Statistics of layers, kept to explain findings."""

    def __init__(self) -> None:
        self._layers: dict[Stream, LayerSamples] = {}
        self._counted: dict[Stream, Bad | None] = {}
        """The series of counts, in the order in which they began: that of the model."""
        self._good: dict[Stream, int] = {}
        self._spikes: list[Finding] = []
        """Those of which samples of their step may still come."""
        self._settled: dict[tuple[str, int], tuple[str, ...]] = {}
        self.more = False
        """Whether the last portion has a layer that became bad."""

    def open(self, findings: Iterable[Finding]) -> None:
        """Note new findings, before the samples of the time in which they opened are taken."""
        self._spikes += [finding for finding in findings if finding.rule in SPIKES]

    def take(self, batch: StreamBatch) -> None:
        """Take the points of layers, and settle the spikes that are followed by a later step."""
        self.more = False
        for chunk in batch.of(COUNTS):
            self._count(chunk)
        layers = batch.of(("layer_gradient", "second_moment"))
        if self._spikes:
            ends = [(self._end(finding, layers), finding) for finding in self._spikes]
            self._spikes = [finding for end, finding in ends if end == inf]
            for end, finding in sorted((pair for pair in ends if pair[0] < inf), key=lambda pair: pair[0]):
                layers = [self._until(end, chunk) for chunk in layers]
                self._settled[finding.rule, finding.number] = tuple(self._of_spike(finding))
        for chunk in layers:
            self._sample(chunk)

    def _sample(self, chunk: Chunk) -> None:
        if len(chunk):
            self._layers.setdefault(chunk.stream, LayerSamples()).take(chunk)

    def _until(self, end: float, chunk: Chunk) -> Chunk:
        """Take the samples before a time; return the others."""
        index = int(np.searchsorted(chunk.walls, end))
        self._sample(chunk.part(slice(index)))
        return chunk.part(slice(index, None))

    def _end(self, finding: Finding, layers: list[Chunk]) -> float:
        """Return when a layer is first measured at a later step than that of a finding, after it."""
        end = inf
        for chunk in layers:
            if chunk.stream.run == finding.run:
                later = (chunk.walls > finding.wall) & (chunk.steps > finding.step)
                end = min(end, float(chunk.walls[int(later.argmax())]) if later.any() else inf)
        return end

    def _count(self, chunk: Chunk) -> None:
        stream = chunk.stream
        if stream.layer is None or self._counted.setdefault(stream, None) is not None:
            return
        bad = np.flatnonzero(~(chunk.values == 0))
        good = chunk.steps[: bad[0]] if len(bad) else chunk.steps
        if len(good):
            self._good[stream] = int(good[-1])
        if len(bad):
            step, wall = int(chunk.steps[bad[0]]), float(chunk.walls[bad[0]])
            self._counted[stream] = Bad(step, wall, self._good.get(stream))
            self.more = True

    def causes(self, finding: Finding) -> tuple[str, ...]:
        """Return the known facts about the origin of a finding so far."""
        if finding.rule in NONFINITE:
            return tuple(self._first_bad(finding))
        settled = self._settled.get((finding.rule, finding.number))
        return tuple(self._of_spike(finding)) if settled is None else settled

    def _of_spike(self, finding: Finding) -> Iterator[str]:
        yield from self._grew(finding)
        yield from self._second_moment(finding)

    def _first_bad(self, finding: Finding) -> Iterator[str]:
        # What was recorded later belongs to it only as a sample of its own step.
        own = {
            s: bad
            for s, bad in self._counted.items()
            if bad is not None
            and s.run == finding.run
            and (bad.wall <= finding.wall or bad.step == finding.step)
        }
        if not own:
            return
        # Of one step activations tell more, the first computed first: backward all behind a NaN is NaN.
        first = min(own, key=lambda s: (own[s].step, COUNTS.index(s.role)))
        if first.layer == finding.layer and own[first].step >= finding.step:
            return
        step, _, good = own[first]
        if step > finding.step:
            return
        if first.layer == MODEL_INPUT:
            yield f"the model's input at step {step:,} is not finite: look at the data of that step"
            return
        alike = [s for s, bad in own.items() if s.role == first.role and bad.step == step]
        if first.role != COUNTS[0] and len(alike) > 1:
            yield self._gradients(alike, step)
            return
        what = "activation" if first.role == COUNTS[0] else "gradient"
        since = f"; its sample of step {good:,} was finite" if good is not None else "; it was never finite"
        others = f", with {counted(len(alike) - 1, 'more layer')}" if len(alike) > 1 else ""
        yield f"the first {what} that is not finite is that of {first.layer}, at step {step:,}{others}{since}"

    def _gradients(self, bad: list[Stream], step: int) -> str:
        """Return a sentence on gradients of several layers that were not finite at once."""
        known = [s for s in self._counted if s.run == bad[0].run and s.role == bad[0].role]
        if len(bad) == len(known):
            where = "it began in the loss or in what comes right before it"
            return f"the gradients of all {len(bad)} layers are not finite at step {step:,}: {where}"
        names = ", ".join(str(s.layer) for s in bad[:SHOWN])
        more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        finite = [s for s in known if self._good.get(s, -1) >= step]
        left = counted(len(finite), "other")
        others = f"; those of {left} are finite" if len(finite) == len(known) - len(bad) else ""
        return f"the gradients of {names}{more} are not finite at step {step:,}{others}"

    def _grew(self, finding: Finding) -> Iterator[str]:
        grown = []
        for stream, samples in self._layers.items():
            if stream.role != "layer_gradient" or stream.run != finding.run:
                continue
            _, before = samples.within(-inf, finding.first_step - 1)
            steps, values = samples.within(finding.first_step, finding.step)
            before = before[np.isfinite(before)][-USUAL:]
            if len(before) < USUAL or not len(values) or upper_median(before) <= 0:
                continue
            factors = values / upper_median(before)
            large = np.flatnonzero(factors > GREW)
            if len(large):
                grown.append((int(steps[large[0]]), -float(factors[large[0]]), stream.layer))
        grown.sort(key=lambda growth: growth[:2])
        if grown:
            layers = ", ".join(
                f"{layer} ({number(-f)} times, step {step:,})" for step, f, layer in grown[:SHOWN]
            )
            more = f" and {len(grown) - SHOWN} more" if len(grown) > SHOWN else ""
            yield f"gradients that grew first: {layers}{more}"

    def _second_moment(self, finding: Finding) -> Iterator[str]:
        largest: tuple[float, int, str | None] | None = None
        for stream, samples in self._layers.items():
            if stream.role != "second_moment" or stream.run != finding.run:
                continue
            steps, values = samples.within(finding.first_step - BEFORE, finding.step)
            if len(values):
                at = int(np.argmax(np.where(np.isfinite(values), values, -inf)))
                if largest is None or values[at] > largest[0]:
                    largest = float(values[at]), int(steps[at]), stream.layer
        if largest is None:
            return
        ratio, step, layer = largest
        if ratio > OUTDATED:
            yield (
                f"Adam's second moment was out of date: the gradient of {layer} was {number(ratio)} times "
                f"its root at step {step:,}; a lower beta2 or update clipping follows faster"
            )
        else:
            yield (
                f"Adam's second moment does not explain it: at most {number(ratio)} times its root, in "
                f"{layer} at step {step:,}"
            )
