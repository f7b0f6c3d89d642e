"""loss-not-decreasing: the loss has not fallen since the run began, or is back where it began."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from stepscope.health.batch import Chunk
from stepscope.health.blocks import Block, ValueBlocks
from stepscope.health.finding import Severity, number
from stepscope.health.gate import AlarmGate
from stepscope.health.noise import Floats, standard_error, step_noise
from stepscope.health.rule import At, Ignored, PerStream, Rule, StreamWatch, thresholds
from stepscope.health.series import Stream

BLOCK = 20
CHECKS = (120, 240, 480, 960, 1920, 3840)
"""Points after which the loss is compared with its beginning, until it has fallen once."""
LONG = 960
"""Points without a fall that are too many even for a model that begins slowly."""
CERTAIN = 240
"""Points after which a loss that is only noise around one level is reported if no rate is known."""
TINY_RATE = 1e-8
TINY_UPDATE = 1e-7
"""Limits below which no optimizer moves a model."""
BURST = 5.0
"""Multiple of its first value beyond which a loss exploded in the first 20 points."""
APART = 3.0
"""Multiple of the largest later value, or deviations of logarithms, that distinguish an explosion from
noise.
"""
BLOWN = 10
"""Consecutive points that far above the start that leave no doubt."""
CLIMB = 8
"""Consecutive blocks, each above the one before it, that make a climb."""
WARMING = 100
"""Blocks in which a mean that began at 0 may rise."""
CLIMBED = 3.0
"""Multiple of its lowest block that a climbing loss has to reach."""
SPARSE = 10.0
"""Steps between points beyond which the loss may have fallen before the first point."""


class LossNotDecreasing(PerStream):
    """Compares the loss with its beginning, and reports only what neither noise nor a slow start explains.

    A model may learn nothing for hundreds of steps and then everything at once. So early on the rule reports
    only if something shows that nothing moves: a learning rate or updates near 0, a loss that never changes
    or that rises. Without such a sign it waits for 960 points.
    """

    id = "loss-not-decreasing"
    title = "Loss is not decreasing"
    severity = "high"
    formula = (
        "until it has fallen, after 120, 240, 480, ... 3,840 points, if no metric and no evaluation loss has "
        "improved: it fell by less than 3 standard errors (noise from differences) and every learning rate "
        "was <= 1e-8; or mean of the first sixth - mean of the last half + 2 standard errors < ratio * |mean "
        "of the first sixth|, and every update ratio < 1e-7, or the loss is constant, or it rose by more "
        "than 4 standard errors, or no learning rate is recorded and the level stays the same from point 20 "
        "to point 240, or there are 960 points (then medium); after 120 points also: the first 20 reach more "
        "than 5 * the first one, the last 60 are on average no lower than the first one, and either the "
        "largest of the 20 exceeds 3 * all of the 60, or all of the 60 lie above the first one by 3 standard "
        "deviations of their logarithms; once it has fallen: the mean of each of the last blocks of 20 "
        "points (blocks of them) > the mean of the first 20 + 4 standard errors (noise from differences); or "
        "the means of the last two blocks, or 10 points in a row, > 5 * the mean of the first 20; or 8 "
        "blocks in a row each rise, to > 3 * the lowest (then medium)"
    )
    source = (
        "SageMaker Debugger LossNotDecreasing (any decrease of single values); against noise and slow "
        "starts: ours"
    )
    window = (
        "at 120 points if something shows that nothing moves, otherwise at 240 or 960; within 120 points of "
        "a rise"
    )
    chance = "below 1e-4 a run if the noise is stationary (2 and 4 standard errors, 6 looks)"
    fewest = "120 points, no more than 10 steps apart, from the beginning of the run"
    roles = ("loss", "metric", "learning_rate", "update_ratio")
    anew = True
    needs = ("loss",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(ratio=0.02, blocks=5)
    action = (
        "overfit one batch first: if that fails, look at labels, loss and whether its gradient reaches the "
        "weights (PyTorch: detached tensors, an optimizer without the parameters; JAX: stop_gradient, "
        "updates that are not applied; Keras: trainable=False); else search the learning rate by factors of "
        "10"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        """Return what judges a series."""
        return _Start(self) if stream.role == "loss" and stream.split == "train" else Ignored()


class _Start(StreamWatch):
    def __init__(self, rule: Rule) -> None:
        self._rule, self._blocks = rule, ValueBlocks(BLOCK)
        self._gate = AlarmGate(closes=2)
        self._early: list[float] = []
        self._recent: list[Block] = []
        self._first: Block | None = None
        self._fell = self._late = self._burst = False
        self._above, self._above_from, self._level = 0, 0, inf
        self._climb = Climb()
        self._warm: float | None = None
        self._warmed = 0

    def follow(self, other: StreamWatch) -> None:
        """Judge whether the loss rises beyond where the stage began; a fall is known or not required."""
        self._fell = True

    def take(self, chunk: Chunk) -> None:
        for part in self._blocks.parts(chunk):
            self._blown(part)
            for block in self._blocks.take(part):
                self._see(block)

    def _see(self, block: Block) -> None:
        if self._first is None and self._is_warming(block):
            return
        if self._first is None:
            self._begin(block)
        if self._late:
            return
        self._recent = [*self._recent, block][-self._rule.limit("blocks") :]
        if self._fell:
            self._against_start(block)
        elif len(self._early) < CHECKS[-1]:
            self._early += block.values.tolist()
            if len(self._early) in CHECKS:
                self._compare(block, np.array(self._early))

    def _is_warming(self, block: Block) -> bool:
        """Return whether a running mean that began at 0 still rises towards the values."""
        if not self._warmed and not is_mean_from_zero(block.values):
            return False
        rises = self._warm is None or block.mean > self._warm
        self._warm, self._warmed = block.mean, self._warmed + 1
        return rises and self._warmed <= WARMING

    def _begin(self, block: Block) -> None:
        self._first = block
        if self._fell:
            return
        spacing = max((block.step - block.first_step) / (BLOCK - 1), 1.0)
        # A run that resumes, and one that is logged rarely, may have its fall behind it.
        since = block.first_step - self._warmed * BLOCK * spacing
        self._late = since > max(10 * BLOCK * spacing, 100) or spacing > SPARSE
        self._late = self._late or "epoch" in block.stream.tag.lower()
        if self._late:
            self._rule.abstain(
                "the loss is logged too rarely, or not from the beginning, to tell whether it fell"
            )

    def _compare(self, block: Block, values: Floats) -> None:
        count = len(values)
        start, later = values[: count // 6], values[count // 2 :]
        before, after = float(start.mean()), float(later.mean())
        error = float(np.hypot(standard_error(start), standard_error(later)))
        margin = self._rule.limits["ratio"] * abs(before)
        at = At(block.stream, block.step, block.wall, self._first.first_step if self._first else 0)
        if after >= values[0] and len(self._early) == CHECKS[0] and is_burst(values[:BLOCK], later):
            most = number(values[:BLOCK].max())
            text = f"the loss began at {number(values[0])}, jumped to {most} and is at {number(after)}"
            self._fell = self._burst = True
            self._rule.judged()
            evidence = {"first": values[0], "largest": values[:BLOCK].max(), "mean": after}
            self._rule.open(at, text, evidence, since_step=at.first_step)
            return
        if before - after > max(3 * error, margin):
            self._fell, self._early = True, []
            self._rule.judged()
            self._rule.close(at)
            return
        # A steep fall makes its own points alike, and the errors of their means large.
        falls = before - after > 3 * step_noise(values) * sqrt(1 / len(start) + 1 / len(later))
        stuck = None if falls else self._nothing_moves(at)
        if (before - after + 2 * error >= margin and stuck is None) or self._rule.context.gains(block.wall):
            return
        self._rule.judged()
        found = stuck or self._sign(at, values, (after - before) / error if error > 0 else inf)
        if found is not None:
            severity, sign = found
            text = (
                f"the mean loss of the first {len(start)} of {count} points is {number(before)}, that of the "
                f"last {len(later)} is {number(after)}{sign}"
            )
            evidence = {"first_mean": before, "mean": after, "standard_error": error}
            self._rule.open(at, text, evidence, severity=severity, since_step=at.first_step)

    def _nothing_moves(self, at: At) -> tuple[Severity, str] | None:
        """Return what shows that no step so far could move the model, however noisy its loss is."""
        context, run = self._rule.context, at.stream.run
        rate, most = context.rate(run, at.wall), context.largest_rate(run, at.wall)
        if rate is None or max(rate, most or 0.0) > TINY_RATE:
            return None
        return "high", f"; the learning rate is {number(rate)}"

    def _sign(self, at: At, values: Floats, rise: float) -> tuple[Severity, str] | None:
        """Return how certain it is that the loss does not fall, and why; None if nothing shows it."""
        context, run = self._rule.context, at.stream.run
        rate, update = context.rate(run, at.wall), context.update(run, at.wall)
        if values.min() == values.max():
            return "high", "; it never changes"
        if update is not None and update < TINY_UPDATE:
            return "high", f"; no step changes a layer by more than {number(update)} of its norm"
        if 4 < rise < inf and values[len(values) // 2 :].mean() > 1.05 * values[:BLOCK].mean():
            return "high" if context.unfit(
                ("contrastive", "variational"), at.wall
            ) is None else "medium", "; it rises"
        if rate is None and len(values) >= CERTAIN and is_still(values):
            return "medium", "; it is noise around one level from the first step on"
        return ("medium", "") if len(values) >= LONG else None

    def _blown(self, chunk: Chunk) -> None:
        """Count the consecutive points far above the start: a loss may overflow within two blocks."""
        first = self._first
        if first is None or not self._fell or self._burst or first.mean <= 0:
            self._above = 0
            return
        limit = BURST * first.mean
        if not (chunk.values > limit).any() and not self._above:
            return
        for index, value in enumerate(chunk.values.tolist()):
            # One that is not finite after such a point goes on with it.
            self._above = self._above + 1 if value > limit or (self._above and value != value) else 0
            if self._above == 1:
                self._above_from = int(chunk.steps[index])
            if self._above == BLOWN and not self._gate.is_open:
                self._gate.see(True)
                self._level = first.mean
                at = At.row(chunk, index, first.first_step)
                text = (
                    f"the loss has been above {number(limit)} for {BLOWN} points in a row, {number(BURST)} "
                    f"times {number(first.mean)}, where it began"
                )
                evidence = {"first_mean": first.mean, "value": value}
                since = min(self._above_from, at.step)
                self._rule.open(at, text, evidence, severity=self._severe(at), since_step=since)

    def _severe(self, at: At) -> Severity:
        quiet = self._rule.context.unfit(("contrastive", "variational"), at.wall) is not None
        return "medium" if quiet else "high"

    def _against_start(self, block: Block) -> None:
        first = self._first
        assert first is not None
        at = At(block.stream, block.step, block.wall, first.first_step)
        if self._burst:
            if np.mean([each.mean for each in self._recent]) < first.values[0]:
                self._burst = False
                self._rule.close(at)
            return
        high, error = min(each.mean for each in self._recent) > first.mean, 0.0
        if high:  # noise by differences: a loss that climbs fast is not noise
            recent = np.concatenate([each.values for each in self._recent])
            error = float(np.hypot(2 * step_noise(recent), first.values.std())) / sqrt(BLOCK)
            high = min(each.mean for each in self._recent) > first.mean + 4 * error
        # What is far above leaves no doubt, and may overflow before there are so many blocks.
        far = len(self._recent) > 1 and min(each.mean for each in self._recent[-2:]) > BURST * abs(first.mean)
        if far and not self._gate.is_open:
            error = first.values.std() / sqrt(BLOCK)
        climbs = self._climb.see(block) and self._severe(at) == "high"
        if (climbs or high or far) and not self._gate.is_open:
            # Evaluations that are as good as before tell of a harder task, as under attacks that grow.
            since = self._climb.since if climbs else self._recent[0].wall
            if self._rule.context.holds(since, block.wall):
                climbs = high = far = False
        if climbs and not self._gate.is_open:
            lowest = self._climb.lowest
            text = (
                f"the loss has been rising for {len(self._climb.rising)} blocks of {BLOCK} points: it is "
                f"{number(block.mean)}, and was {number(lowest)}"
            )
            self._gate.see(True)
            self._level = CLIMBED * lowest
            evidence = {"lowest": lowest, "mean": block.mean}
            since_step = min(self._climb.step, at.step)
            self._rule.open(at, text, evidence, severity="medium", since_step=since_step)
            return
        change = self._gate.see(bool(high or far if not self._gate.is_open else block.mean >= self._level))
        if change == "close":
            self._rule.close(at)
        elif change == "open":
            self._level = first.mean
            text = f"the loss rose to {number(block.mean)}; it began at {number(first.mean)}"
            evidence = {"first_mean": first.mean, "mean": block.mean, "standard_error": error}
            # What lies far above needs two blocks, all else as many as are looked at.
            since_step = min(self._recent[0 if high else -2].first_step, at.step)
            self._rule.open(at, text, evidence, severity=self._severe(at), since_step=since_step)


class Climb:
    """Recognizes a loss that rises block by block, without end and far above its lowest.

    Attributes:
        lowest: Mean of a block so far.
        rising: The last blocks, each above the one before it.
        since: When the first of these ended.
        step: Its last step.
    """

    def __init__(self) -> None:
        self.lowest = inf
        self.rising: list[float] = []
        self.since, self.step = 0.0, 0
        self._begun: list[tuple[float, int]] = []

    def see(self, block: Block) -> bool:
        """Take a block; return whether the loss climbs: 8 rises by chance are rarer than 1 in 40,000."""
        mean = block.mean
        self.rising = [*self.rising, mean][-CLIMB:] if self.rising and mean > self.rising[-1] else [mean]
        self._begun = [*self._begun, (block.wall, block.step)][-len(self.rising) :]
        self.since, self.step = self._begun[0]
        self.lowest = min(self.lowest, mean)
        return len(self.rising) == CLIMB and mean > CLIMBED * self.lowest > 0 and self.rising[0] > 0


def is_mean_from_zero(values: Floats) -> bool:
    """Return whether a loss is an exponential mean that began at 0, which at first grows by its first value.

    Each point adds (1 - d) (L - v), the first one (1 - d) L from 0: at first v is about the count of points
    times that, later less. What explodes adds more and more.
    """
    start = float(values[0])
    if not 0 < start < 0.5 * values[4]:
        return False
    added = np.diff(values)
    return bool(
        (added[:4] > 0.4 * start).all() and (added < 2 * start).all() and (added > -0.5 * start).all()
    )


def is_burst(first: Floats, later: Floats) -> bool:
    """Return whether a loss exploded from its first value, more than the noise of later ones explains.

    With heavy-tailed noise, as with batches of one, the first value may be low by chance and one of the next
    high. An explosion reaches far above everything that is usual later, or leaves all later values above the
    first.
    """
    start, most = float(first[0]), float(first.max())
    if not 0 < start < most / BURST:
        return False
    if most > APART * later.max():
        return True
    if later.min() <= start:
        return False
    known = np.log(later)
    return bool(known.mean() - np.log(start) > APART * known.std())


def is_still(values: Floats) -> bool:
    """Return whether the first points have the level and spread of all others: the model does not move."""
    first, rest = values[:BLOCK], values[BLOCK:]
    error = float(np.hypot(first.std() / sqrt(BLOCK), standard_error(rest)))
    level = abs(float(first.mean() - rest.mean())) < 2 * error
    return level and 0.5 < float(first.std() / rest.std()) < 2.0
