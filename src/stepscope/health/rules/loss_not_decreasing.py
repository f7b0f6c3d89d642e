"""loss-not-decreasing: the loss has not fallen since the run began, or is back where it began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.facts import CHANCE, Facts
from stepscope.health.finding import SEVERITIES, Severity
from stepscope.health.looks import CHANCES, GROWTH, STILL, Known, Row, RunFacts, Seen, gained
from stepscope.health.noise import Floats, rise_chance, standard_error, step_noise, taken_back
from stepscope.health.ring import median
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream
from stepscope.text import number, share

MIN_POINTS = 8
"""Points in order, all of which fall by chance once in 40,000 times."""
BLOCK, FEW = 20, 5
"""Points whose mean is a level, and whose median is one where points are an epoch or many steps apart."""
EARLY, LONG, LAST = 120, 960, 3840
"""Points from which a loss may be said not to fall, that are too many even for a model that begins slowly,
and after which nobody waits for a first fall any more."""
CERTAIN = 240
"""Points after which a loss that is only noise around one level is reported if no rate is known."""
UNMOVED = 20
"""The same of a series of few points beside scores that stand still."""
TINY_RATE, TINY_UPDATE = 1e-8, 1e-7
"""Limits below which no optimizer moves a model."""
BURST = 5.0
"""Multiple of its first value beyond which a loss exploded."""
APART = 3.0
"""Multiple of the largest later value, or deviations of logarithms, that tell an explosion from noise."""
BLOWN = 10
"""Consecutive points that far above the start that leave no doubt."""
WARMING = 100
"""Blocks in which a mean that began at 0 may rise."""
SPARSE = 10.0
"""Steps between points beyond which the loss may have fallen before the first point."""
GUESSING = 0.01
"""Share by which the loss of guessing, ln K, may be missed."""
FALLING = 0.1
"""Chance of a fall below which the levels may still be falling."""
LEARNT = 3.0
"""Standard errors by which a loss fell for certain, however little."""
EVENLY = 0.5
"""Part of the fall of the first half that the second one has if a series falls evenly: a fall whose half-life
is longer than half of the points had little of itself before the first one."""
CLIMBED, LOST, CLEAR = 3.0, 1 / 3, 0.25
"""Multiple of its lowest level that a rising loss has to reach; or the share of the progress that it lost, as
a loss with a floor never reaches a multiple; and the share of the lowest below which no such share counts."""
ONSET, SOONEST = 0.1, 0.02
"""Shares of a rise below which it has not begun, and from which on it may have, if that is more than what was
undone before."""
BACK = 2.0
"""Multiple of the largest rise that was undone again, as within epochs that are sorted, which counts."""
FELL = 0.2
"""Share of its first level by which a series of few points must have fallen before a rise is told."""
STAYS = 16
"""Points, all of them far above the lowest level, of a loss that rose at once."""
PARTS = 64
"""Most parts of a rise whose trend is asked for."""


@dataclass
class _Start:
    """How a stage of a loss began, and what is told of it.

    Attributes:
        skipped: First kept means of a running mean that began at 0.
        kind: Of what is told, empty if nothing is.
        limit: The level below which that is over.
        sign: That nothing moves, with its severity.
    """

    fell: bool
    skipped: int = 0
    kind: str = ""
    limit: float = inf
    sign: tuple[Severity, str] | None = None


class _Curve(NamedTuple):
    """A stage of a loss as it is judged.

    Attributes:
        few: Its points are an epoch or many steps apart.
        resumed: The run began before its first point.
        ends: The index of the last mean of each level.
    """

    steps: NDArray[np.int64]
    means: Floats
    walls: Floats
    few: bool
    resumed: bool
    levels: Floats
    ends: NDArray[np.int64]
    width: int


class LossNotDecreasing(Row):
    """Compares the loss with its beginning, and reports a lack that neither noise nor a slow start explains.

    A model may learn nothing for hundreds of steps and then everything at once. So early on the rule reports
    only if something shows that nothing moves: a learning rate or updates near 0, a loss that never changes
    or that rises. Without such a sign it waits for 960 points.

    Of a loss that is logged rarely or by epoch, and of a run that resumes, the fall may have been before the
    first point: there it reports only a loss that rises again, or scores that stand still, too.

    Formula: no fall by ratio from the first sixth to the last half, and a sign that nothing moves or 960
        points; or above the start for blocks; or a rise (p < 1e-4) that lost a third
    Fires: at 20 points without any gradient, at 120 if something else shows that nothing moves, otherwise
        at 240 or 960; a rise within a quarter of the points so far
    Chance: below 1e-4 a run if the noise is stationary (4 standard errors, 16 looks)
    Source: SageMaker Debugger LossNotDecreasing (any decrease of single values); against noise and slow
        starts: ours
    """

    id = "loss-not-decreasing"
    title = "Loss is not decreasing"
    severity = "high"
    fewest = "8 points that clearly fall, or 120 from the beginning on that are at most 10 steps apart"
    roles = ("loss", "part_loss", "metric", "learning_rate", "update_ratio")
    leads = ("loss", "part_loss", "metric")
    needs = ("loss",)
    beside = ("gradient_norm", "weight_norm")
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(ratio=0.02, blocks=5, rests=0.25)
    action = (
        "overfit one batch first: if that fails, look at labels, loss and whether its gradient reaches the "
        "weights (PyTorch: detached tensors, an optimizer without the parameters; JAX: stop_gradient, "
        "updates that are not applied; Keras: trainable=False); else search the learning rate by factors of "
        "10"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._starts: dict[Facts, _Start] = {}

    def is_of(self, stream: Stream) -> bool:
        if stream.role == "part_loss":
            return stream.split != "eval"
        if stream.role == "metric":
            return stream.split != "eval" and stream.lower_is_better is True
        return stream.role != "loss" or (stream.split == "train" and stream.lower_is_better is True)

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        stream = known.stream
        is_part = stream.role != "loss" and run.training_loss(stream.run) is not known
        if run.is_second(stream) or (is_part and stream.role == "metric"):
            return None
        facts = known.stage
        start = self._starts.get(facts)
        if start is None:
            # Where the training goes on, a fall is known or not required.
            begins = facts is known.facts or facts.first_step <= known.facts.first_step
            start = self._starts[facts] = _Start(fell=not begins)
        curve = self._curve(known, start, run, not is_part)
        if curve is None:
            return None
        at = known.at
        # A model that begins slowly guesses as well, until it does not; at the end it does no more.
        enough = UNMOVED if is_part and curve.few else CERTAIN if self.ended else LONG
        if is_part:  # it may stay where it is or rise for the sum, but guessing is no learning
            return self._never_learnt(at, curve, run) if len(curve.means) * curve.width >= enough else None
        seen = self._rose(at, curve, start, run) if start.fell or curve.few else None
        if seen is None and not start.fell and not curve.resumed:
            seen = self._unmoved(known, curve, run) if curve.few else self._stuck(at, curve, start, run)
        if seen is None and not curve.few and len(curve.means) * curve.width >= enough:
            seen = self._never_learnt(at, curve, run)
        if seen is not None:
            self.judged()
        else:
            start.kind, start.sign = "", None
        return seen

    def _curve(self, known: Known, start: _Start, run: RunFacts, is_whole: bool) -> _Curve | None:
        """Return the stage in levels; None if it has too few points."""
        facts = known.stage
        (steps, means), walls, width = facts.curve, facts.walls, facts.width
        if width == 1:
            start.skipped = _warming(means)
        skipped = start.skipped // width
        steps, means, walls = steps[skipped:], means[skipped:], walls[skipped:]
        count = len(means)
        if count < MIN_POINTS:
            return None
        head = min(BLOCK, count)
        spacing = max((int(steps[head - 1]) - int(steps[0])) / (head - 1) / width, 1.0)
        rare = spacing > SPARSE or "epoch" in known.stream.tag.lower()
        resumed = facts.first_step > max(10 * BLOCK * spacing, 100)
        # What is evaluated at each of its points is a mean of an epoch, whatever its steps count.
        # A fall that is lost again by the end of so short a run shows in its points as they are.
        short = self.ended and count * width < EARLY and means.min() < means[0] - FELL * abs(means[0])
        few = rare or short or run.evaluated(known.stream.run, walls[0], walls[head - 1]) >= head // 2
        if is_whole and not self._judged and count <= PARTS:
            before, after = float(means[:FEW].mean()), float(means[-FEW:].mean())
            clear = before - after > self.limits["ratio"] * abs(before)
            if clear and rise_chance(-means) < CHANCE:
                self.judged()
        if count < BLOCK and not few:
            return None
        if rare or resumed:
            self.abstain("the loss is logged too rarely, or not from the beginning, to tell whether it fell")
        start.fell = start.fell or (resumed and not rare)
        if few:
            levels = np.median(np.lib.stride_tricks.sliding_window_view(means, FEW), axis=1)
            return _Curve(steps, means, walls, True, resumed, levels, np.arange(FEW - 1, count), width)
        size = max(BLOCK // width, 1)
        whole = count // size
        levels = (means[: whole * size].reshape(whole, size) / size).sum(axis=1)
        return _Curve(steps, means, walls, False, resumed, levels, np.arange(1, whole + 1) * size - 1, width)

    # --- a loss that rises -----------------------------------------------------------------------------

    def _rose(self, at: At, curve: _Curve, start: _Start, run: RunFacts) -> Seen | None:
        """Return that it is far above its lowest level, or above its beginning."""
        levels, means, few = curve.levels, curve.means, curve.few
        first, lowest = float(levels[0]), float(levels.min())
        holds = start.kind in _RISES
        if holds and (levels[-(FEW if few else 2) :] < start.limit).all():
            return None
        if few and lowest >= min(float(means[:FEW].min()), first - FELL * abs(first)):
            return None
        far = max(-(-BLOWN // curve.width), 2)
        top = float(means[:FEW].max())
        if len(means) > far + FEW and (means[-far:] > BURST * abs(first)).all():
            kind, limit = "far", first
        elif self._are_above(means, top) if few else self._is_above(curve):
            kind, limit = "above", first
        else:
            kind, limit = "climbs", limit_of(first, lowest)
            if not holds and not self._climbs(at, curve, limit):
                return None
        # Evaluations that are as good as before tell of a harder task, as under attacks that grow.
        if not holds and run.holds(float(curve.walls[self._onset(curve)])):
            return None
        if not (holds and kind == "climbs"):
            start.kind, start.limit, start.fell = kind, limit, True
        return self._told(at, curve, start, run)

    def _climbs(self, at: At, curve: _Curve, limit: float) -> bool:
        """Return whether it rises, far above its lowest level, by a trend that chance does not explain."""
        levels, few = curve.levels, curve.few
        low = int(levels.argmin())
        lowest, level = float(levels[low]), float(levels[-1])
        if level <= limit or (not few and self._severity(at) != "high"):
            return False
        recent = curve.means[-FEW:] if few else levels[-2:]
        if recent.min() <= lowest or level - lowest <= BACK * taken_back(levels):
            return False
        path = curve.means[curve.ends[low] - (FEW if few else int(curve.ends[0]) + 1) + 1 :]
        parts = np.array([part.mean() for part in np.array_split(path, min(PARTS, len(path)))])
        # One that rose at once and stays has no trend: half of it is far above by chance once in 65,000.
        later = path[len(path) // 2 :]
        stays = self.ended and len(later) >= STAYS and bool((later > limit).all())
        return stays or rise_chance(parts) < CHANCE / 10

    def _are_above(self, means: Floats, top: float) -> bool:
        """Return whether few points are above all first ones; one that comes back may be learning anew."""
        recent = means[-FEW:]
        comes_back = recent[-1] < (top + recent.max()) / 2 and not self.ended
        late = means[-max(FEW, ceil((GROWTH - 1) * len(means))) :] if comes_back else recent
        return bool(late.min() > top)

    def _is_above(self, curve: _Curve) -> bool:
        """Return whether the last levels are above the first by four standard errors."""
        count = self.limit("blocks")
        levels, size = curve.levels, int(curve.ends[0]) + 1
        if curve.resumed or len(levels) <= count or levels[-count:].min() <= levels[0]:
            return False
        # Noise by differences: a loss that climbs fast is not noise.
        recent = 2 * step_noise(curve.means[-count * size :])
        error = float(np.hypot(recent, curve.means[:size].std())) / sqrt(size)
        return bool(levels[-count:].min() > levels[0] + 4 * error)

    def _onset(self, curve: _Curve) -> int:
        """Return the index of the last kept mean before the rise."""
        levels = curve.levels
        rise = float(levels[-1] - levels.min())
        begun = min(max(taken_back(levels), SOONEST * rise), ONSET * rise)
        last = int(np.flatnonzero(levels <= levels.min() + begun)[-1])
        return int(curve.ends[last]) - (FEW // 2 if curve.few else 0)

    def _told(self, at: At, curve: _Curve, start: _Start, run: RunFacts) -> Seen:
        levels = curve.levels
        level, first, low = float(levels[-1]), float(levels[0]), int(levels.argmin())
        onset = self._onset(curve)
        since = self.holding.get(at.stream, int(curve.steps[min(onset + 1, len(curve.steps) - 1)]))
        more, severity = self._why(at, float(curve.walls[onset]), run)
        what = f"median of {FEW} losses" if curve.few else f"mean of {BLOCK} losses"
        if start.kind == "climbs":
            step = int(curve.steps[int(curve.ends[low]) - (FEW // 2 if curve.few else 0)])
            text = f"the {what} rose from {number(levels[low])} at step {step} to {number(level)}{more}"
            values = {"lowest": float(levels[low]), "lowest_step": float(step), "mean": level}
            return Seen(text, values, since, max("medium", severity, key=SEVERITIES.index))
        text = f"the {what} rose from {number(first)} at first to {number(level)}{more}"
        return Seen(text, {"first_mean": first, "mean": level}, since, severity)

    def _why(self, at: At, since: float, run: RunFacts) -> tuple[str, Severity]:
        """Return what explains a rise since a time, in words, and its severity.

        A setting that went one way meanwhile makes it less severe. If no recorded part of the loss rose, a
        weight may have changed, or a part that is not recorded.
        """
        moved = self.context.restarts.moved(at.stream.run, since, at.wall)
        if moved is not None:
            tag, before, now = moved
            return f"; {tag} went from {number(before)} to {number(now)} meanwhile", "low"
        if (low := run.rises_to(at.stream.run, since)) is not None:
            high = number(run.largest_rate(at.stream.run) or 0.0)
            return f"; the learning rate was rising then, from {number(low)} to {high}", self._severity(at)
        if run.weights_alone(at.stream.run, since):
            return "; none of its recorded parts rose: their weights, or another part, did", "medium"
        return "", self._severity(at)

    def _severity(self, at: At) -> Severity:
        """Return the severity of a loss above where it began, which a growing weight may explain."""
        return "high" if self.context.unfit(("contrastive", "variational"), at.wall) is None else "medium"

    # --- a loss that never falls -----------------------------------------------------------------------

    def _unmoved(self, known: Known, curve: _Curve, run: RunFacts) -> Seen | None:
        """Return that few points show that nothing moves."""
        at, means, level = known.at, curve.means, float(curve.means[-1])
        first = float(curve.levels[0])
        if len(means) < UNMOVED or float(curve.levels.min()) < first - FELL * abs(first):
            return None
        idle = self._idle(at, run)
        signs = idle or self._guesses(at, curve, run) or self._stands(curve, run)
        signs = signs or self._lacks_gradient(at, means[-PARTS:], run) or self._rests(known, curve)
        if signs is None:
            return None
        severity, sign = signs
        text = f"the loss is {number(level)} after {len(means) * curve.width} points{sign}"
        about = "" if idle is None else "rate"
        return Seen(text, {"value": level}, int(curve.steps[0]), severity, about=about)

    def _never_learnt(self, at: At, curve: _Curve, run: RunFacts) -> Seen | None:
        """Return a finding if a loss came down to that of guessing, and falls no further."""
        later = curve.levels[len(curve.levels) // 2 :]
        guesses = self._guesses(at, curve, run)
        if guesses is None or (not curve.few and rise_chance(-later) < FALLING):
            return None
        severity, sign = guesses
        points = len(curve.means) * curve.width
        text = f"the loss has come to about {number(later[-1])} after {points} points{sign}"
        return Seen(text, {"value": float(later[-1])}, int(curve.steps[0]), severity)

    def _rests(self, known: Known, curve: _Curve) -> tuple[Severity, str] | None:
        """Say that it has had one value for most of its points, and not that of a perfect model."""
        since, first, last = known.stage.constant_since, float(curve.means[0]), known.stage.last
        rests = last != 0 and (curve.steps >= since).mean() > 1 - self.limits["rests"]
        rests = rests and first - last < FELL * abs(first)
        return ("medium", f"; it has not changed at all since step {since:,}") if rests else None

    def _stands(self, curve: _Curve, run: RunFacts) -> tuple[Severity, str] | None:
        """Say that it does not fall, or evenly by next to nothing, if no score ever gains anything."""
        scores = [one for one in run.of(None, "metric", split="eval") if one.facts.count > STILL]
        scores = [one for one in scores if one.stream.lower_is_better is not None]
        still = [one.facts.only not in (None, *one.stream.perfect) for one in scores]
        if not scores or not all(same or not gained(one) for same, one in zip(still, scores, strict=True)):
            return None
        levels, half = curve.levels, len(curve.levels) // 2
        before, after = float(levels[0] - levels[half]), float(levels[half] - levels[-1])
        gain = (before + after) / abs(float(levels[0])) if levels[0] else 0.0
        if gain >= self.limits["ratio"]:
            return None
        falls = rise_chance(-curve.means[:PARTS]) < CHANCE / 10
        # One that slows down may have its fall before the first point.
        slows = falls and not after >= EVENLY * before > 0
        # Where nothing can be learnt, scores move by chance beside a loss that does not fall.
        if slows or (not falls and (gain > self.limits["ratio"] / 10 or not all(still))):
            return None
        how = f"it fell by only {100 * gain:.1g} %, no slower at the end than at first"
        how = how if falls else "it does not fall"
        done = "changed" if all(still) else "gained anything"
        return "medium", f"; {how}, and no score of the evaluations has {done}"

    def _idle(self, at: At, run: RunFacts) -> tuple[Severity, str] | None:
        """Return the evidence that no step so far could move the model, however noisy its loss is."""
        rate, most = run.rate(at.stream.run), run.largest_rate(at.stream.run)
        if rate is None or max(rate, most or 0.0) > TINY_RATE:
            return None
        return "high", f"; the learning rate is {number(rate)}"

    def _guesses(self, at: At, curve: _Curve, run: RunFacts) -> tuple[Severity, str] | None:
        """Say that loss and accuracy are those of a classifier that gives all its classes the same chance."""
        later = curve.levels[len(curve.levels) // 2 :]
        classes = round(exp(min(float(later[-1]), 20.0)))
        named, right = max(
            run.accuracies(at.stream.run, 1 / max(classes, 1)), key=lambda one: one[1], default=("", inf)
        )
        # The best that can be learnt of two classes may be hardly better than guessing.
        if classes < 3 or right > CHANCES / classes:
            return None
        # Guesses may be worse than this, if the rate is high, but no better.
        apart = later / log(classes) - 1
        if apart.min() < -GUESSING or median(apart) > GUESSING:
            return None
        sign = f", as if it guessed among {classes} classes, and {named} is {share(right)}"
        return "medium", sign

    def _stuck(self, at: At, curve: _Curve, start: _Start, run: RunFacts) -> Seen | None:
        """Return that it has not fallen since the beginning; note the fall if it has."""
        values, width = curve.means, curve.width
        count = len(values) * width
        lacks = UNMOVED <= count < EARLY and (self._same(values) or self._lacks_gradient(at, values, run))
        if count < EARLY and not lacks:
            return None
        if start.kind == "burst" or (not start.kind and count < LONG):
            seen = self._burst(curve, start)
            if seen is not None or start.kind == "burst":
                return seen
        first, later = values[: len(values) // 6], values[len(values) // 2 :]
        before, after = float(first.mean()), float(later.mean())
        error = float(np.hypot(standard_error(first), standard_error(later)))
        margin = self.limits["ratio"] * abs(before)
        # A steep fall makes its own points alike, and the errors of their means large.
        falls = before - after > 3 * step_noise(values) * sqrt(1 / len(first) + 1 / len(later))
        below = falls and later.max() < values[:FEW].min()
        if before - after > (margin if below else max(3 * error, margin)):
            start.fell = True
            self.judged()
            return None
        if count > LAST and not start.kind:
            return None
        stuck = None if falls else self._idle(at, run) or lacks or None
        moves = before - after + 2 * error >= margin and values.min() < values.max()
        if (moves and stuck is None and not start.kind) or run.gains():
            return None
        rise = (after - before) / error if error > 0 else inf
        signs = [sign for sign in (stuck or self._sign(at, values, rise, width, run), start.sign) if sign]
        outcome = min(signs, key=lambda sign: SEVERITIES.index(sign[0]), default=None)
        if outcome == ("medium", ""):
            outcome = self._slowness(before, after, error, run)
        if outcome is None:
            self.abstain("the loss has not fallen so far, which may be a slow start")
            return None
        self.judged()
        (severity, sign), start.sign, start.kind = outcome, outcome, "stuck"
        text = (
            f"the mean loss of the first {len(first) * width} of {count} points is {number(before)}, that of "
            f"the last {len(later) * width} is {number(after)}{sign}"
        )
        evidence = {"first_mean": before, "mean": after, "standard_error": error}
        return Seen(text, evidence, int(curve.steps[0]), severity)

    def _burst(self, curve: _Curve, start: _Start) -> Seen | None:
        """Return that it exploded in its first points, and is not below the first one again."""
        values, recent = curve.means, curve.levels[-self.limit("blocks") :]
        after = float(values[len(values) // 2 :].mean())
        if start.kind == "burst":
            if recent.mean() < start.limit:
                start.kind, start.fell = "", True
                return None
        elif after < values[0] or not is_burst(values[:BLOCK], values[len(values) // 2 :]):
            return None
        else:
            start.kind, start.limit = "burst", float(values[0])
        most = float(values[: max(BLOCK // curve.width, 1)].max())
        text = (
            f"the loss began at {number(start.limit)} and jumped to {number(most)}; the mean of its second "
            f"half is {number(after)}"
        )
        return Seen(text, {"first": start.limit, "largest": most, "mean": after}, int(curve.steps[0]))

    def _same(self, values: Floats) -> tuple[Severity, str] | None:
        """Say at the end that it never changes: other batches have other losses, unless nothing is left."""
        same = self.ended and values.min() == values.max() != 0
        return ("high", "; it never changes") if same else None

    def _lacks_gradient(self, at: At, values: Floats, run: RunFacts) -> tuple[Severity, str] | None:
        """Say that all gradients are 0, as no slow start has it; cleared ones are 0 while the loss falls."""
        lacks = run.constants(at.stream.run, "gradient_norm") == {0.0} and rise_chance(-values) > FALLING
        return ("high", "; every gradient norm is 0") if lacks else None

    def _slowness(self, before: float, after: float, error: float, run: RunFacts) -> tuple[Severity, str]:
        """Say that a loss fell all the same, if only by a little, as that of a model trained further does."""
        if before - after <= LEARNT * error:
            return "medium", ""
        gain = (before - after) / abs(before)
        quiet = not run.classifies()
        return "low" if quiet else "medium", f": it fell by only {100 * gain:.1g} %"

    def _sign(
        self, at: At, values: Floats, rise: float, width: int, run: RunFacts
    ) -> tuple[Severity, str] | None:
        """Return how certain it is that the loss does not fall, and why; None if nothing shows it."""
        of_run, count = at.stream.run, len(values) * width
        rate = run.rate(of_run)
        updates = [known.facts.last for known in run.of(of_run, "update_ratio")]
        head = max(BLOCK // width, 3)
        if values.min() == values.max():
            return "high", "; it never changes"
        if updates and max(updates) < TINY_UPDATE:
            return "high", f"; no step changes a layer by more than {number(max(updates))} of its norm"
        if run.constants(of_run, "gradient_norm") == {0.0}:
            return "high", "; every gradient norm is 0"
        if run.constants(of_run, "weight_norm"):
            return "high", "; no weight norm has changed"
        if 4 < rise < inf and values[len(values) // 2 :].mean() > 1.05 * values[:head].mean():
            return self._severity(at), "; it rises"
        if rate is None and count >= CERTAIN and is_still(values, head):
            return "medium", "; it is noise around one level from the first step on"
        return ("medium", "") if count >= LONG else None


_RISES = ("far", "above", "climbs")


def limit_of(first: float, lowest: float) -> float:
    """Return the level from which on a loss has risen too far from its lowest."""
    lost = lowest + max(LOST * (first - lowest), CLEAR * abs(lowest))
    return min(CLIMBED * lowest, lost) if lowest > 0 else lost


def _warming(values: Floats) -> int:
    """Return the number of first points of a running mean that began at 0 and still rises to the values."""
    if len(values) < BLOCK or not is_mean_from_zero(values[:BLOCK]):
        return 0
    whole = min(len(values) // BLOCK, WARMING)
    means = values[: whole * BLOCK].reshape(whole, BLOCK).mean(axis=1)
    ends = np.flatnonzero(np.diff(means) <= 0)
    return BLOCK * (int(ends[0]) + 1 if len(ends) else whole)


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


def is_still(values: Floats, head: int) -> bool:
    """Return whether the first points have the level and spread of all others: the model does not move."""
    first, rest = values[:head], values[head:]
    error = float(np.hypot(first.std() / sqrt(head), standard_error(rest)))
    level = abs(float(first.mean() - rest.mean())) < 2 * error
    return level and 0.5 < float(first.std() / rest.std()) < 2.0


ROWS = (LossNotDecreasing,)
