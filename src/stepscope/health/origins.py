"""The origin of a finding: the layer that was bad first, the layers that grew first, Adam's second moment.

It says only what was recorded: nothing if layers were not measured at the steps in question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.finding import NONFINITE, Finding
from stepscope.health.ring import median
from stepscope.health.series import MODEL_INPUT, Stream
from stepscope.text import number

SPIKES = ("loss-spike", "gradient-spike")
COUNTS = ("activation_nonfinite", "gradient_nonfinite")
KEPT = 512
"""Samples of a layer that are kept besides the newest portion."""
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
        self.steps = np.concatenate([self.steps[-KEPT:], chunk.steps])
        self.values = np.concatenate([self.values[-KEPT:], chunk.values])

    def within(self, first: float, last: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the samples of some steps, both ends included."""
        rows = (self.steps >= first) & (self.steps <= last)
        return self.steps[rows], self.values[rows]


class Origins:
    """Statistics of layers, kept to explain findings."""

    def __init__(self) -> None:
        self._layers: dict[Stream, LayerSamples] = {}
        self._bad: dict[Stream, tuple[int, int | None]] = {}
        self._good: dict[Stream, int] = {}

    def take(self, batch: StreamBatch) -> None:
        """Take what is recorded of layers."""
        for chunk in batch.of((*COUNTS, "layer_gradient", "second_moment")):
            stream = chunk.stream
            if stream.role in COUNTS:
                self._count(chunk)
            else:
                self._layers.setdefault(stream, LayerSamples()).take(chunk)

    def _count(self, chunk: Chunk) -> None:
        stream = chunk.stream
        if stream.layer is None or stream in self._bad:
            return
        bad = np.flatnonzero(~(chunk.values == 0))
        good = chunk.steps[: bad[0]] if len(bad) else chunk.steps
        if len(good):
            self._good[stream] = int(good[-1])
        if len(bad):
            self._bad[stream] = int(chunk.steps[bad[0]]), self._good.get(stream)

    def explained(self, finding: Finding) -> Finding:
        """Return a finding with what is known about its origin."""
        causes: list[str] = []
        if finding.rule in NONFINITE:
            causes = list(self._first_bad(finding))
        elif finding.rule in SPIKES:
            causes = [*self._grew(finding), *self._second_moment(finding)]
        return replace(finding, causes=tuple(causes)) if causes else finding

    def _first_bad(self, finding: Finding) -> Iterator[str]:
        own = {s: bad for s, bad in self._bad.items() if s.run == finding.run}
        if not own:
            return
        # Of one step activations tell more, the first computed first: backward all behind a NaN is NaN.
        first = min(own, key=lambda s: (own[s][0], COUNTS.index(s.role)))
        if first.layer == finding.layer and own[first][0] >= finding.step:
            return
        step, good = own[first]
        if step > finding.step:
            return
        if first.layer == MODEL_INPUT:
            yield f"the model's input at step {step:,} is not finite: look at the data of that step"
            return
        alike = [s for s, bad in own.items() if s.role == first.role and bad[0] == step]
        if first.role != COUNTS[0] and len(alike) > 1:
            yield self._gradients(alike, step)
            return
        what = "activation" if first.role == COUNTS[0] else "gradient"
        since = f"; its sample of step {good:,} was finite" if good is not None else "; it was never finite"
        others = f", with {len(alike) - 1} more layers" if len(alike) > 1 else ""
        yield f"the first {what} that is not finite is that of {first.layer}, at step {step:,}{others}{since}"

    def _gradients(self, bad: list[Stream], step: int) -> str:
        """Return a sentence on gradients of several layers that were not finite at once."""
        known = [s for s in {*self._good, *self._bad} if s.run == bad[0].run and s.role == bad[0].role]
        if len(bad) == len(known):
            where = "it began in the loss or in what comes right before it"
            return f"the gradients of all {len(bad)} layers are not finite at step {step:,}: {where}"
        names = ", ".join(str(s.layer) for s in bad[:SHOWN])
        more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        finite = [s for s in known if self._good.get(s, -1) >= step]
        left = "1 other" if len(finite) == 1 else f"{len(finite)} others"
        others = f"; those of {left} are finite" if len(finite) == len(known) - len(bad) else ""
        return f"the gradients of {names}{more} are not finite at step {step:,}{others}"

    def _grew(self, finding: Finding) -> Iterator[str]:
        found = []
        for stream, samples in self._layers.items():
            if stream.role != "layer_gradient" or stream.run != finding.run:
                continue
            _, before = samples.within(-inf, finding.first_step - 1)
            steps, values = samples.within(finding.first_step, finding.step)
            before = before[np.isfinite(before)][-USUAL:]
            if len(before) < USUAL or not len(values) or median(before) <= 0:
                continue
            factors = values / median(before)
            large = np.flatnonzero(factors > GREW)
            if len(large):
                found.append((int(steps[large[0]]), -float(factors[large[0]]), stream.layer))
        found.sort(key=lambda each: each[:2])
        if found:
            told = ", ".join(
                f"{layer} ({number(-f)} times, step {step:,})" for step, f, layer in found[:SHOWN]
            )
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            yield f"gradients that grew first: {told}{more}"

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
