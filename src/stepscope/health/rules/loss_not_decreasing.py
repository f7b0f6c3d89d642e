"""loss-not-decreasing: the loss has not fallen since the run began, or is back where it began."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, sqrt

import numpy as np

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.blocks import Block, ValueBlocks
from stepscope.health.climbs import CLIMB, FEW, Climb, FewPoints, Rise
from stepscope.health.facts import CHANCE
from stepscope.health.finding import SEVERITIES, Severity
from stepscope.health.gate import AlarmGate
from stepscope.health.noise import Floats, rise_chance, standard_error, step_noise
from stepscope.health.rule import At, Rule, finite, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

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
WARMING = 100
"""Blocks in which a mean that began at 0 may rise."""
SPARSE = 10.0
"""Steps between points beyond which the loss may have fallen before the first point."""
LEARNT = 3.0
"""Standard errors by which a loss fell for certain, however little."""
FALLING = (8, 10, 13, 16, 20, 32, 64)
"""Counts of first points at which their trend is tested: noise lets 8 fall in a row with p = 4e-4."""
UNMOVED = (20, 40, 80)
"""Points of a series of few points after which it is asked whether anything moves."""


class LossNotDecreasing(Rule):
    """Compares the loss with its beginning, and reports a lack that neither noise nor a slow start explains.

    A model may learn nothing for hundreds of steps and then everything at once. So early on the rule reports
    only if something shows that nothing moves: a learning rate or updates near 0, a loss that never changes
    or that rises. Without such a sign it waits for 960 points.

    Of a loss that is logged rarely or by epoch, and of a run that resumes, the fall may have been before the
    first point: there it reports only a loss that rises again.
    """

    id = "loss-not-decreasing"
    title = "Loss is not decreasing"
    severity = "high"
    formula = (
        "until it has fallen, after 120, 240, 480, ... 3,840 points, if no metric and no evaluation loss "
        "has improved: it fell by less than 3 standard errors (noise from differences) and every learning "
        "rate was <= 1e-8; or mean of the first sixth - mean of the last half + 2 standard errors < ratio * "
        "|mean of the first sixth|, and every update ratio < 1e-7, or every gradient norm was 0, or no "
        "weight norm has changed, or the loss is constant, or it rose by more than 4 standard errors, or no "
        "learning rate is recorded and the level stays the same from point 20 to point 240, or there are "
        "960 points (then medium; low if it fell by more than 3 standard errors and no accuracy is "
        "recorded); after 120 points also: the first 20 reach more than 5 * the first one, the last 60 are "
        "on average no lower than the first one, and either the largest of the 20 exceeds 3 * all of the "
        "60, or all of the 60 lie above the first one by 3 standard deviations of their logarithms; once it "
        "has fallen: the mean of each of the last blocks of 20 points (blocks of them) > the mean of the "
        "first 20 + 4 standard errors (noise from differences); or the means of the last two blocks, or 10 "
        "points in a row, > 5 * the mean of the first 20; or 8 blocks in a row each rise, to > 3 * the "
        "lowest or to where a third of what was learnt is lost, and at least a quarter more than the lowest "
        "(then medium); with points more than 10 steps or an epoch apart, once their median of 5 has fallen "
        "by a fifth: 5 in a row above all of the first 5, or such a rise, with p of the Mann-Kendall test < "
        "1e-4 (then medium), or every learning rate <= 1e-8; in a run that resumes: only the multiples of "
        "5, and 8 rising blocks"
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
    fewest = "8 points that clearly fall, or 120 from the beginning on that are at most 10 steps apart"
    roles = ("loss", "metric", "learning_rate", "update_ratio")
    needs = ("loss",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(ratio=0.02, blocks=5)
    action = (
        "overfit one batch first: if that fails, look at labels, loss and whether its gradient reaches the "
        "weights (PyTorch: detached tensors, an optimizer without the parameters; JAX: stop_gradient, "
        "updates that are not applied; Keras: trainable=False); else search the learning rate by factors of "
        "10"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._watches: dict[Stream, _Start] = {}

    def look(self, batch: StreamBatch) -> None:
        """Hand the points of each loss to its watch, those of each fold, stage and task to a new one."""
        for chunk in batch.of(("loss",)):
            stream = chunk.stream
            if not self.is_of(stream):
                continue
            watch, done = self._watches.get(stream) or _Start(self), 0
            for index, whole in self.context.cuts(chunk):
                watch.take(chunk.part(slice(done, index)))
                self.close_all(At.row(chunk, index))
                # Where the training goes on, a fall is known or not required.
                watch, done = _Start(self, fell=not whole), index
            self._watches[stream] = watch
            watch.take(chunk.part(slice(done, None)))

    def is_of(self, stream: Stream) -> bool:
        return stream.role != "loss" or (stream.split == "train" and stream.lower_is_better is True)


class _Start:
    def __init__(self, rule: Rule, *, fell: bool = False) -> None:
        self._rule, self._blocks = rule, ValueBlocks(BLOCK)
        self._gate = AlarmGate(closes=2)
        self._early: list[float] = []
        self._recent: list[Block] = []
        self._first: Block | None = None
        self._fell, self._burst = fell, False
        self._above, self._above_from, self._level = 0, 0, inf
        self._above_wall = -inf
        self._climb = Climb()
        self._warm: float | None = None
        self._warmed = 0
        self._resumed = False
        self._head: list[Chunk] = []
        """The points before the first block, until that is judged."""
        self._few: _Few | None = None
        self._rare = False
        self._start: list[float] | None = []
        """The first points, until it is known whether they fall."""

    def take(self, chunk: Chunk) -> None:
        if self._rule.context.is_second(chunk.stream):
            return
        if self._start is not None:
            self._ask(self._start, finite(chunk).values.tolist())
        for part in self._blocks.parts(chunk):
            if self._few is not None:
                self._few.take(part)
            if self._rare:
                continue
            if self._first is None:
                self._head.append(part)
            self._blown(part)
            for block in self._blocks.take(part):
                self._see(block)

    def _ask(self, start: list[float], values: list[float]) -> None:
        """Note that the loss falls once a trend shows it, however rarely it is logged."""
        for value in values:
            start.append(value)
            if len(start) in FALLING:
                before, after = (float(np.mean(part)) for part in (start[:FEW], start[-FEW:]))
                if before - after > self._rule.limits["ratio"] * abs(before) and (
                    rise_chance(-np.array(start)) < CHANCE
                ):
                    self._rule.judged()
                    self._start = None
                    return
            if len(start) == FALLING[-1]:
                self._start = None
                return

    def _see(self, block: Block) -> None:
        if self._first is None and self._is_warming(block):
            return
        if self._first is None:
            self._begin(block)
        if self._rare:
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
        head, self._head = self._head, []
        if self._fell:
            return
        spacing = max((block.step - block.first_step) / (BLOCK - 1), 1.0)
        # A run that resumes, and one that is logged rarely, may have its fall behind it.
        since = block.first_step - self._warmed * BLOCK * spacing
        self._resumed = since > max(10 * BLOCK * spacing, 100)
        self._rare = spacing > SPARSE or "epoch" in block.stream.tag.lower()
        if self._rare or self._resumed:
            self._rule.abstain(
                "the loss is logged too rarely, or not from the beginning, to tell whether it fell"
            )
        # What is evaluated at each of its points is a mean of an epoch, whatever its steps count.
        begun = float(head[0].walls[0])
        if self._rare or self._rule.context.evaluated(block.stream.run, begun, block.wall) >= BLOCK // 2:
            self._few = _Few(self._rule)
            for chunk in head:
                self._few.take(chunk)
        if self._resumed and not self._rare:
            self._fell = True

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
        # A steep fall makes its own points alike, and the errors of their means large.
        falls = before - after > 3 * step_noise(values) * sqrt(1 / len(start) + 1 / len(later))
        below = falls and later.max() < values[:FEW].min()
        if before - after > (margin if below else max(3 * error, margin)):
            self._fell, self._early = True, []
            self._rule.judged()
            self._rule.close(at)
            return
        stuck = None if falls else idle_rate(self._rule, at)
        moves = before - after + 2 * error >= margin and values.min() < values.max()
        if (moves and stuck is None) or self._rule.context.gains(block.wall):
            return
        self._rule.judged()
        outcome = stuck or self._sign(at, values, (after - before) / error if error > 0 else inf)
        if outcome == ("medium", ""):
            outcome = self._slowness(at, before, after, error)
        if outcome is not None:
            severity, sign = outcome
            text = (
                f"the mean loss of the first {len(start)} of {count} points is {number(before)}, that of the "
                f"last {len(later)} is {number(after)}{sign}"
            )
            evidence = {"first_mean": before, "mean": after, "standard_error": error}
            self._rule.open(at, text, evidence, severity=severity, since_step=at.first_step)

    def _slowness(self, at: At, before: float, after: float, error: float) -> tuple[Severity, str]:
        """Say that a loss fell all the same, if only by a little, as that of a model trained further does."""
        if before - after <= LEARNT * error:
            return "medium", ""
        share = (before - after) / abs(before)
        quiet = not self._rule.context.classifies(at.wall)
        return "low" if quiet else "medium", f": it fell by only {100 * share:.1g} %"

    def _sign(self, at: At, values: Floats, rise: float) -> tuple[Severity, str] | None:
        """Return how certain it is that the loss does not fall, and why; None if nothing shows it."""
        context, run = self._rule.context, at.stream.run
        rate, update = context.rate(run, at.wall), context.update(run, at.wall)
        if values.min() == values.max():
            return "high", "; it never changes"
        if update is not None and update < TINY_UPDATE:
            return "high", f"; no step changes a layer by more than {number(update)} of its norm"
        if context.lacks_gradient(run, at.wall):
            return "high", "; every gradient norm is 0"
        if context.keeps_weights(run, at.wall):
            return "high", "; no weight norm has changed"
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
            if value != value:  # neither above nor below
                continue
            self._above = self._above + 1 if value > limit else 0
            if self._above == 1:
                self._above_from, self._above_wall = int(chunk.steps[index]), float(chunk.walls[index])
            if self._above == BLOWN and not self._gate.is_open:
                self._gate.see(True)
                self._level = first.mean
                at = At.row(chunk, index, first.first_step)
                text = (
                    f"the loss has been above {number(limit)} for {BLOWN} points in a row, {number(BURST)} "
                    f"times the mean of its first {BLOCK} points, {number(first.mean)}"
                )
                evidence = {"first_mean": first.mean, "value": value}
                since = min(self._above_from, at.step)
                text, severity = told_of_rise(self._rule, at, text, self._above_wall)
                self._rule.open(at, text, evidence, severity=severity, since_step=since)

    def _against_start(self, block: Block) -> None:
        first = self._first
        assert first is not None
        at = At(block.stream, block.step, block.wall, first.first_step)
        if self._burst:
            if np.mean([window.mean for window in self._recent]) < first.values[0]:
                self._burst = False
                self._rule.close(at)
            return
        high, error = min(window.mean for window in self._recent) > first.mean, 0.0
        if high:  # noise by differences: a loss that climbs fast is not noise
            recent = np.concatenate([window.values for window in self._recent])
            error = float(np.hypot(2 * step_noise(recent), first.values.std())) / sqrt(BLOCK)
            high = min(window.mean for window in self._recent) > first.mean + 4 * error and not self._resumed
        # What is far above leaves no doubt, and may overflow before there are so many blocks.
        far = len(self._recent) > 1 and min(window.mean for window in self._recent[-2:]) > BURST * abs(
            first.mean
        )
        if far and not self._gate.is_open:
            error = first.values.std() / sqrt(BLOCK)
        climbs = self._climb.see(block) and severity_of_rise(self._rule, at) == "high"
        if (climbs or high or far) and not self._gate.is_open:
            # Evaluations that are as good as before tell of a harder task, as under attacks that grow.
            since = self._climb.since if climbs else self._recent[0].wall
            if self._rule.context.holds(since, block.wall):
                climbs = high = far = False
        if climbs and not self._gate.is_open:
            lowest, lowest_step = self._climb.lowest, self._climb.lowest_step
            text = (
                f"the loss rose from {number(lowest)} at step {lowest_step} to {number(block.mean)}, in each "
                f"of the last {CLIMB} blocks of {BLOCK} points"
            )
            self._gate.see(True)
            self._level = self._climb.limit
            evidence = {"lowest": lowest, "lowest_step": lowest_step, "mean": block.mean}
            since_step = min(self._climb.onset, at.step)
            text, most = told_of_rise(self._rule, at, text, self._climb.since)
            severity: Severity = "low" if most == "low" else "medium"
            self._rule.open(at, text, evidence, severity=severity, since_step=since_step)
            return
        change = self._gate.see(bool(high or far if not self._gate.is_open else block.mean >= self._level))
        if change == "close":
            self._rule.close(at)
        elif change == "open":
            self._level = first.mean
            text = (
                f"the loss rose to {number(block.mean)}; the mean of its first {BLOCK} points is "
                f"{number(first.mean)}"
            )
            evidence = {"first_mean": first.mean, "mean": block.mean, "standard_error": error}
            # What lies far above needs two blocks, all else as many as are looked at.
            begun = self._recent[0 if high else -2]
            text, severity = told_of_rise(self._rule, at, text, begun.wall)
            since_step = min(begun.first_step, at.step)
            self._rule.open(at, text, evidence, severity=severity, since_step=since_step)


class _Few:
    """Judges a loss of which there are few points, each of many steps or of an epoch."""

    def __init__(self, rule: Rule) -> None:
        self._rule, self._points = rule, FewPoints()
        self._gate = AlarmGate(closes=FEW)
        self._rise: Rise | None = None
        self._first: int | None = None
        self._crept = False

    def take(self, chunk: Chunk) -> None:
        chunk = finite(chunk)
        for index, value in enumerate(chunk.values.tolist()):
            self._point(At.row(chunk, index), value)

    def _point(self, at: At, value: float) -> None:
        rule, points = self._rule, self._points
        self._first = at.step if self._first is None else self._first
        rise = points.see(value, at.step, at.wall)
        if self._rise is not None:
            if self._gate.see(points.level >= self._rise.limit) == "close":
                self._rise = None
                rule.close(at)
        elif rise is not None and not rule.context.holds(points.low_wall, at.wall):
            rule.judged()
            self._gate.see(True)
            self._rise = rise
            self._tell(at, rise)
        elif points.count in UNMOVED and not points.fell:
            idle, creeps = idle_rate(rule, at), self._creeps(at)
            if idle is not None or creeps is not None:
                rule.judged()
                severity, sign = idle or creeps or ("medium", "")
                text = f"the loss is {number(points.level)} after {points.count} points{sign}"
                about = "" if idle is None else "rate"
                rule.open(at, text, {"value": value}, severity=severity, about=about, since_step=self._first)
                self._crept = idle is None
        elif self._crept and points.fell:
            self._crept = False
            rule.close(at)

    def _creeps(self, at: At) -> tuple[Severity, str] | None:
        """Say that it falls evenly by next to nothing, if no score of an evaluation ever changes."""
        crept = self._points.crept
        if not 0 < crept < self._rule.limits["ratio"] or not self._rule.context.scores_stand(at.wall):
            return None
        slow = f"it fell by only {100 * crept:.1g} %, no slower at the end than at first"
        return "medium", f"; {slow}, and no score of the evaluations has changed"

    def _tell(self, at: At, rise: Rise) -> None:
        evidence = {"value": rise.level, "before": rise.before}
        since = min(rise.since, at.step)
        if rise.lowest_step is None:
            text = (
                f"the loss rose to {number(rise.level)}; the median of its first {FEW} points is "
                f"{number(rise.before)}"
            )
            severity = severity_of_rise(self._rule, at)
        else:
            level, before = number(rise.level), number(rise.before)
            text = f"the loss rose from {before} at step {rise.lowest_step} to {level}"
            severity = "medium"
        text, most = told_of_rise(self._rule, at, text, self._points.low_wall)
        severity = max(most, severity, key=SEVERITIES.index)
        self._rule.open(at, text, evidence, severity=severity, since_step=since)


def told_of_rise(rule: Rule, at: At, text: str, since: float) -> tuple[str, Severity]:
    """Return the sentence on a rise since a time, and its severity.

    A setting that went one way meanwhile makes it less severe. If no recorded part of the loss rose, a
    weight may have changed, or a part that is not recorded.
    """
    moved = rule.context.restarts.moved(at.stream.run, since, at.wall)
    if moved is not None:
        tag, before, now = moved
        return f"{text}; {tag} went from {number(before)} to {number(now)} meanwhile", "low"
    if rule.context.weights_alone(at.stream.run, since, at.wall):
        return f"{text}; none of its recorded parts rose: their weights, or another part, did", "medium"
    return text, severity_of_rise(rule, at)


def idle_rate(rule: Rule, at: At) -> tuple[Severity, str] | None:
    """Return the evidence that no step so far could move the model, however noisy its loss is."""
    rate, most = rule.context.rate(at.stream.run, at.wall), rule.context.largest_rate(at.stream.run, at.wall)
    if rate is None or max(rate, most or 0.0) > TINY_RATE:
        return None
    return "high", f"; the learning rate is {number(rate)}"


def severity_of_rise(rule: Rule, at: At) -> Severity:
    """Return the severity of a loss above where it began, which a growing weight may explain."""
    return "high" if rule.context.unfit(("contrastive", "variational"), at.wall) is None else "medium"


def is_mean_from_zero(values: Floats) -> bool:
    """Return whether a loss is an exponential mean that began at 0, which at first grows by its first value.

    Each point adds (1 - d) (L - v), the first one (1 - d) L from 0: at first v is about the count of points
    times that, later less. An exploding loss adds more and more.
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


ROWS = (LossNotDecreasing,)
