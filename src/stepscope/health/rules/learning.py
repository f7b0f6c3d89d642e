"""Rows on what drives the training: rates, parts of the loss, and runs that begin anew."""

from __future__ import annotations

from itertools import pairwise
from math import e, exp, inf, log, log1p
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from stepscope.health.changes import LAG, SET_RATIO
from stepscope.health.facts import CHANCE, FEW, NEAR, Change
from stepscope.health.kind import kind_of
from stepscope.health.looks import (
    SERIES,
    Known,
    Row,
    RunFacts,
    Seen,
    at_steps,
    course,
    means_between,
    now,
    since_index,
    since_when,
)
from stepscope.health.looks import levels as levels_of
from stepscope.health.noise import Floats, last_better, rise_chance, standard_error
from stepscope.health.ring import median
from stepscope.health.rule import thresholds
from stepscope.health.rules.loss_not_decreasing import TINY_RATE
from stepscope.health.series import Stream
from stepscope.names.roles import is_accuracy
from stepscope.text import levels, number, share

MIN_POINTS = 16
"""Points from which a factor that holds for half of them, or after a fall, is no noise."""
WARM_UP = 10
"""First points, in which a warm-up may begin from next to nothing."""
OCTAVES = 4
"""Means of a beginning that are compared at least: the last one is of eight points."""
LITTLE = 0.05
"""Share of its first level by which a loss changes that has hardly begun to be learnt."""
RESTS = 0.01
"""Share of its largest below which a rate has come to its end."""
SINGLE = 1e-3
"""In float32, ten times a value can be a little more than ten times."""
BLOCK, MOST_BLOCKS = 50, 256
"""Points whose mean is compared with the best one, and most such means: those of a long run are longer."""


class ScheduleTooFast(Row):
    """Compares how long the learning rate has been next to nothing with how long the run has lasted.

    Formula: the learning rate has been below ratio * its largest for more than share of the points of the
        run, and since then the training loss gained less than 5 % of what it had gained,
        or has no trend
    Fires: once the rest of the run is as long as the schedule
    Chance: none: the rate is recorded
    Source: ours; a decay per epoch that is stepped per batch ends in the first epochs
    """

    id = "schedule-too-fast"
    title = "Schedule ends too early"
    severity = "medium"
    fewest = "16 points of a learning rate and of a training loss"
    explains = ("overtraining", "plateau")
    roles = ("learning_rate", "loss")
    leads = ("learning_rate",)
    needs = ("learning_rate", "loss")
    defaults = thresholds(ratio=1e-3, share=0.5)
    action = (
        "step the scheduler in the unit of its length: per epoch if it was given epochs, per batch if it was "
        "given steps (PyTorch: scheduler.step() at that place; Keras and JAX: decay_steps in steps)"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        rate, training = known.facts, run.training_loss(known.stream.run)
        if training is None or min(rate.finite, training.facts.finite) < MIN_POINTS or not rate.most[0] > 0:
            return None
        self.judged()
        limit = self.limits["ratio"] * rate.most[0]
        steps, _ = rate.curve
        since = since_when(rate, lambda values: values < limit)
        rest = float((steps >= since).mean())
        if rate.last >= limit or rest <= self.limits["share"] or rate.most[1] > since:
            return None
        then = float(at_steps(training.facts, np.array([float(since)]))[0])
        at, means = training.facts.curve
        gained = then - training.facts.level > 0.05 * (training.facts.first - then)
        if gained and rise_chance(-means[at > since]) < CHANCE:
            return None
        text = (
            f"the learning rate has been below {number(limit)}, a thousandth of its largest, for "
            f"{rest:.0%} of the run; the loss was about {number(then)} then and is {now(training.facts)}"
        )
        values = {"rate": rate.last, "largest": rate.most[0], "share": rest, "loss": training.facts.level}
        return Seen(text, values, since)


class RatesDiffer(Row):
    """Compares the rates of parameter groups with each other; the usual factor between groups is 10.

    Formula: the rate of one group of parameters is above ratio * the median of the other groups at each
        of its last points, not counting groups whose rate is 0
    Fires: at the tenth such point
    Chance: none: the rates are recorded
    Source: ours; layer-wise decay and separate rates of heads stay below a factor of 100
    """

    id = "rates-differ"
    title = "One group's learning rate is far from the others'"
    severity = "low"
    fewest = "10 points of the rates of two groups"
    roles = ("learning_rate",)
    defaults = thresholds(ratio=100, points=10)
    action = (
        "look at the groups that the optimizer was given: one may have the rate that was meant for another"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        points = self.limit("points")
        steps, means = known.facts.curve
        if len(means) < points:
            return None
        others = [
            other.facts
            for other in run.of(known.stream.run, "learning_rate")
            # An optimizer that stepped before this one, as Adam before L-BFGS, is no other group.
            if other is not known and other.facts.last_step >= steps[-points]
        ]
        if not others:
            return None
        self.judged()
        usual = np.median([at_steps(other, steps.astype(float)) for other in others], axis=0)
        apart = (usual > 0) & (means > self.limits["ratio"] * usual)
        if not apart[-points:].all():
            return None
        since = int(steps[since_index(apart)])
        text = f"its rate is {number(means[-1])}, the median of the other groups' {number(usual[-1])}"
        return Seen(text, {"rate": float(means[-1]), "others": float(usual[-1])}, since)


class TwoSoftmaxes(Row):
    """Compares a classifier's loss with the least that a cross-entropy of probabilities can have.

    A loss that takes logits applies a softmax itself. If the model ends in one, or in a sigmoid, its inputs
    differ by 1 at most, and the loss of K classes stays above ln(1 + (K - 1) / e), however right the model
    is; a wrong answer costs up to 1 more, and at least what a tie of two classes does.

    Formula: a training loss that began at ln K lies for half of the run within close of the way to
        ln(1 + (K - 1) / e), and the share of wrong answers, never below it, though the accuracy allows half
    Fires: once it has held for as long as the run before it
    Chance: none from noise: every loss lies above an exact limit and most lie at it
    Source: Karpathy, A Recipe for Training Neural Networks, 2019; the limit: ours, e^1 is the largest
        odds
    """

    id = "two-softmaxes"
    title = "Probabilities given as logits"
    severity = "medium"
    fewest = "16 points of the training loss and a recorded accuracy"
    explains = ("plateau", "loss-not-decreasing")
    roles = ("loss", "metric")
    leads = ("loss",)
    needs = ("loss", "metric")
    splits = ("train", None)
    defaults = thresholds(close=0.05)
    action = (
        "give the loss what the last linear layer returns, without a softmax or sigmoid (PyTorch: "
        "CrossEntropyLoss takes logits; Keras: from_logits=True, or a softmax at the end and "
        "from_logits=False; JAX: optax's losses take logits)"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, right = known.facts, [level for _, level in run.accuracies(known.stream.run)]
        if facts.finite < MIN_POINTS or not right:
            return None
        self.judged()
        classes = round(exp(min(facts.first, 20.0)))
        if classes < 2 or abs(facts.first - log(classes)) > 0.01 * log(classes):
            return None
        limit = log1p((classes - 1) / e)
        # Of the same data: labels that are partly wrong keep a loss up, and no evaluation on true ones.
        same = (
            one.facts
            for one in run.of(known.stream.run, "metric", split="train")
            if is_accuracy(one.stream.tag)
        )
        failed = 1 - max((one.level for one in same if 0 <= one.level <= 1), default=1.0)
        tie = log(2 + (classes - 2) / e**0.5)
        wrong = min(max(1 - max(right), 1e-9), 1 - 1e-9)
        allowed = wrong * log((classes - 1) / wrong) - (1 - wrong) * log1p(-wrong)
        # Early on many are right whose loss is still on its way down.
        later = levels_of(facts, MIN_POINTS)[MIN_POINTS // 2 :]
        rests = (later - limit < self.limits["close"] * (facts.first - limit) + failed).all()
        rests &= later.mean() >= limit + (tie - limit) * failed
        if facts.least[0] < limit or not rests or allowed > limit / 2:
            return None
        level, least = levels(facts.level, limit)
        text = (
            f"it began at {number(facts.first)}, the logarithm of {classes}, and is about {level}: "
            f"probabilities given as logits keep it above {least}; an accuracy of {share(max(right))} allows "
            f"{number(allowed)}"
        )
        values = {"first": facts.first, "level": facts.level, "limit": limit, "accuracy": max(right)}
        return Seen(text, values, facts.first_step)


class LossSummed(Row):
    """Compares the training loss with that of the evaluation: the same model has the same loss on both.

    What a model memorizes, what it cannot transfer and dropout change their ratio over a run; a sum in place
    of a mean does not. The gradient of a sum is as many times larger, and so is the step of most optimizers.

    Formula: at each evaluation after the first quarter, the training loss since the one before is factor
        times the evaluation's or more, or as small a part of it, and these ratios differ by spread at
        most
    Fires: at the eighth evaluation
    Chance: none from noise of less than a factor of 4
    Source: PyTorch, Keras: reduction='sum' and 'mean'; the constant ratio: ours
    """

    id = "loss-summed"
    title = "Summed loss"
    severity = "low"
    fewest = "8 evaluations and a training loss that fell by half"
    roles = ("loss",)
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement", "variational", "contrastive")
    defaults = thresholds(factor=8, spread=2)
    action = (
        "take the mean over the batch and all outputs in both (PyTorch: reduction='mean'; Keras: "
        "sum_over_batch_size; JAX: jnp.mean), or divide the learning rate by the ratio; a norm that is "
        "clipped hides how large the gradient of a sum is"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training = known.facts, run.training_loss(known.stream.run)
        if training is None or facts.finite < 8 or training.facts.finite < 8:
            return None
        self.judged()
        steps, means = facts.curve
        trained = means_between(training.facts, np.concatenate([[training.facts.first_step], steps + 1]))
        later = slice(len(means) // 4, None)
        if not (means[later] > 0).all() or not (trained[later] > 0).all():
            return None
        ratios = trained[later] / means[later]
        ratio = float(np.exp(np.log(ratios).mean()))
        apart, spread = max(ratio, 1 / ratio), float(ratios.max() / ratios.min())
        fell = training.facts.level < training.facts.first / 2
        if not fell or apart < self.limits["factor"] or spread > self.limits["spread"]:
            return None
        text = (
            f"the training loss, {now(training.facts)} now, has been about {number(ratio)} times that of the "
            f"evaluation, {now(facts)}, all along: one of them looks like a sum and the other like a mean"
        )
        values = {"ratio": ratio, "spread": spread, "train": training.facts.level, "eval": facts.level}
        return Seen(text, values, training.facts.first_step)


class LossPartDiverges(Row):
    """Compares a part of the loss with its own beginning; the sum may hide that it grows.

    Formula: a part of the training loss had fallen to learnt of its first level, and its lowest level
        since is ten times that first level, while their sum is below its own first level
    Fires: once the part is ten times where it began
    Chance: none from noise: a factor of ten, after a fall
    Source: ours
    """

    id = "loss-part-diverges"
    title = "A part of the loss diverges"
    severity = "medium"
    fewest = "16 points of a part and of the sum"
    roles = ("part_loss", "loss")
    leads = ("part_loss",)
    needs = ("part_loss",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(learnt=0.5, ratio=10)
    action = (
        "look at what weighs the parts: a weight that is learnt or scheduled may have become 0 or negative, "
        "so that a growing part lowers the sum; bound it (softplus, clamp), and record each part's weight"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training = known.facts, run.training_loss(known.stream.run)
        # A divergence grows as the code begins to say something.
        of_code = kind_of(known.stream.tag) == "variational"
        few = training is None or min(facts.finite, training.facts.finite) < MIN_POINTS
        if training is None or few or of_code or known.stream.split == "eval":
            return None
        self.judged()
        _, means = facts.curve
        first = median(means[:3])
        limit = self.limits["ratio"] * first
        lowest = facts.least[0]
        hidden = training.facts.level < training.facts.first
        is_part = 0 < first <= abs(training.facts.first) < facts.level
        if not (is_part and lowest < self.limits["learnt"] * first and facts.level > limit and hidden):
            return None
        # It begins where it leaves what it had learnt, not where it passes the limit.
        since = max(since_when(facts, lambda values: values > self.limits["learnt"] * first), facts.least[1])
        text = (
            f"it began at about {number(first)}, fell to {number(lowest)} and is {now(facts)}; the sum is "
            f"{now(training.facts)}, below its first value, {number(training.facts.first)}"
        )
        values = {"first": first, "lowest": lowest, "level": facts.level, "sum": training.facts.level}
        return Seen(text, values, since)


class AttemptDiscontinuous(Row):
    """Looks for a run that begins anew: weights, updates or a loss jump back to where they started.

    The first update of an optimizer that lost its state is at least as large as its very first one. A loss
    whose weights were lost falls again as at first; one that diverged, or has other data, has no reason to.

    The attempts of a run are compared with each other where they are read; see ``analyze.health.resumed``.

    Formula: the norm of all weights, or of all updates at a steady rate, jumps by more than back towards
        its first value, and the loss to the worse; without norms, a loss jumps back and repeats its
        beginning within same
    Fires: within 64 points after it
    Chance: below 0.03 % in a run
    Source: change points by two-sided lines: ours
    """

    id = "attempt-discontinuous"
    title = "The training started over"
    severity = "high"
    fewest = "64 points of a training loss; it is surer with a norm of all weights or updates"
    explains = ("loss-spike", "loss-not-decreasing", "worse-than-best", "evaluation-collapsed")
    roles = ("loss", "weight_norm", "update_norm", "learning_rate", "setting")
    leads = ("weight_norm", "update_norm", "loss")
    needs = ("loss",)
    unfit = ("adversarial", "reinforcement", "contrastive")
    defaults = thresholds(back=0.5, same=0.2)
    action = (
        "look at what was loaded when the run was resumed: the weights of the checkpoint were not, or the "
        "model was created again afterwards; resume from the checkpoint before this step"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training = known.facts, run.training_loss(known.stream.run)
        of_loss = known.stream.role == "loss"
        if training is None or facts.finite < (FEW if of_loss else 8) or (of_loss and known is not training):
            return None
        self.judged()
        if of_loss:
            return self._repeats(known, run)
        back = self.limits["back"]
        for change in facts.sudden(SERIES):
            before, after = change.before or 0.0, change.after or 0.0
            if known.stream.role == "update_norm":
                if (seen := self._updates(known, training, run, change)) is not None:
                    return seen
                continue
            if abs(after - facts.first) > (1 - back) * abs(before - facts.first):
                continue
            places = np.array([change.first_step - 1.0, change.last_step])
            then, again = at_steps(training.facts, places).tolist()
            again = max(again, float(_value_at(training, change.last_step)))
            if again - then > back * (training.facts.first - then) > 0 and not self._is_set(known, run):
                text = (
                    f"at step {change.last_step:,} the weight norm went from about {number(before)} back to "
                    f"about {number(after)} (it began at {number(facts.first)}), and the loss from about "
                    f"{number(then)} to {number(again)}: the weights look freshly initialized"
                )
                values = {"norm_before": before, "norm": after, "loss_before": then, "loss": again}
                return Seen(text, values, change.last_step)
        return None

    def _repeats(self, known: Known, run: RunFacts) -> Seen | None:
        """Return the one jump of a loss to its start after which it falls as it fell at first."""
        steps, means = known.stage.curve
        norms = run.of(known.stream.run, *self.leads[:2])
        if any(norms) or self._is_set(known, run) or self.context.unfit(self.unfit, known.at.wall):
            return None
        # Change points take long to compute, and few losses come back to their start at once, after more than
        # an eighth of their gain: before that noise reaches so far.
        begins, lowest = float(means[:2].mean()), np.minimum.accumulate(means)[:-1]
        fell = means[:-1] < np.minimum((begins + lowest) / 2, begins - (begins - means.min()) / 8)
        if not (fell & (means[1:] > begins - self.limits["same"] * (begins - lowest))).any():
            return None
        places = []
        for change in known.stage.sudden(SERIES):
            at = int(np.searchsorted(steps, change.last_step))
            first, again = _octaves(means[:at]), _octaves(means[at:])
            gain = begins - median(means[max(at - NEAR, 0) : at])
            # They are compared until half of the gain is there for the first time.
            half = np.flatnonzero(first < begins - gain / 2)
            last = int(half[0]) + 1 if len(half) and gain > 0 else 0
            enough = OCTAVES <= last <= min(len(again), len(first))
            if enough and float(np.abs(again[:last] - first[:last]).max()) < self.limits["same"] * gain:
                places.append(at)
        if len(places) != 1:  # what comes again belongs to the data, as parts of an epoch do
            return None
        at = places[0]
        before, step = median(means[max(at - NEAR, 0) : at]), int(steps[at])
        text = (
            f"at step {step:,} it went from about {number(before)} back to {number(means[at])} (it began at "
            f"{number(means[0])}), and then fell as it fell at first: the weights look freshly initialized"
        )
        values = {"loss_before": before, "loss": float(means[at]), "first": float(means[0])}
        return Seen(text, values, step, "medium")

    def looks_at(self, stream: Stream) -> bool:
        """Return whether it needs a series: of the weights the norm of all together."""
        whole = stream.role not in ("weight_norm", "update_norm") or stream.layer is None
        return stream.role in self.roles and whole

    def _updates(self, known: Known, training: Known, run: RunFacts, change: Change) -> Seen | None:
        """Return a jump of all updates to the size of the first one, with a loss that gets worse.

        A rate that jumps explains such updates; after a lost state they shrink again as at the start.
        """
        first, norm = known.facts.first, float(_value_at(known, change.last_step))
        before = change.before or 0.0
        if norm < before + self.limits["back"] * (first - before) or norm < 2 * before:
            return None
        at = np.array([change.first_step - 1.0, float(change.last_step)])
        for rate in run.of(known.stream.run, "learning_rate"):
            low, high = sorted(at_steps(rate.facts, at, few=1).tolist())
            if high > SET_RATIO * low:
                return None
        worse = [
            jump for jump in training.facts.sudden(SERIES)
            if (jump.after or 0.0) > (jump.before or 0.0)
            and change.first_step <= jump.last_step and jump.first_step <= change.last_step + LAG
        ]  # fmt: skip
        if not worse:
            return None
        low, high = number(worse[0].before or 0.0), number(worse[0].after or 0.0)
        text = (
            f"at step {change.last_step:,} the norm of all updates went from about {number(before)} to "
            f"{number(norm)} (it began at {number(first)}), and the loss from about {low} to about {high}: "
            "the optimizer's state looks reset"
        )
        values = {"norm_before": before, "norm": norm, "first": first}
        action = "restore the optimizer's state with the weights, its moments and its count of steps together"
        return Seen(text, values, change.last_step, "medium", action)

    @staticmethod
    def _is_set(known: Known, run: RunFacts) -> bool:
        """Return whether a fold, a stage or a task of the run changes: a new model is then meant."""
        settings = run.of(known.stream.run, "setting")
        return any(setting.facts.constant_since > setting.facts.first_step for setting in settings)


def _octaves(values: Floats) -> Floats:
    """Return the means of the first two values, the next two, the next four, the next eight and so on."""
    edges = [0, *(2**power for power in range(1, len(values).bit_length()))]
    return np.array([values[begin:end].mean() for begin, end in pairwise(edges)])


def _value_at(known: Known, step: int) -> float:
    """Return the first kept mean at a step or after it."""
    steps, means = known.facts.curve
    return float(means[min(int(np.searchsorted(steps, step)), len(means) - 1)])


class LearningRate(Row):
    """Compares each learning rate with the one before and with the largest so far.

    A schedule is not a jump: decays of any size, restarts at a level that was there before, and groups whose
    rate is 0 from the beginning while another's is not.

    Formula: negative or not finite; 0 for zeros points, unlike before or other rates; above factor * the
        point before and 1.5 * the largest; or it fell to nothing and rises so; or rose to the end, the loss
        hardly fell
    Fires: at the point, for 0 at the hundredth in a row, or a quarter of the points so far later
    Chance: none from a schedule that stays below its largest rate
    Source: trainpulse (10 * in one step); the schedule: ours
    """

    id = "learning-rate"
    title = "Learning-rate anomaly"
    fewest = "11 points"
    roles = leads = ("learning_rate",)
    beside = ("loss",)
    defaults = thresholds(factor=10, zeros=100)
    grouped = True
    action = (
        "look at the scheduler: is it stepped once per step or once per epoch as it expects, is its state in "
        "the checkpoint? If the jump is intended, switch this rule off"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        self.judged()
        facts = known.stage
        if facts.broken is not None and facts.whole is None:
            return Seen("the learning rate is not finite", {"before": facts.last}, facts.broken[0])
        steps, rates = facts.curve
        if facts.last < 0:
            since = int(steps[since_index(rates < 0)]) if rates[-1] < 0 else facts.last_step
            return Seen(f"the learning rate is {number(facts.last)}", {"value": facts.last}, since)
        still = int((steps >= facts.constant_since).sum()) * facts.width
        others = run.rate(known.stream.run) or 0
        if facts.last == 0 and still >= self.limits["zeros"] and (facts.most[0] > 0 or not others > 0):
            text = f"the learning rate has been 0 for {still:,} points"
            return Seen(text, {"value": 0.0, "points": still}, facts.constant_since)
        # A schedule that rises again may be about to fall again, until it ends.
        seen = self._jump(known)
        return seen or (self._mirrored(known) or self._climbs(known, run) if self.ended else None)

    def _climbs(self, known: Known, run: RunFacts) -> Seen | None:
        """Return a finding if a rate rose until the end, and the loss has hardly fallen at such rates."""
        (steps, rates), training = known.stage.curve, run.training_loss(known.stream.run)
        if training is None or min(len(rates), training.facts.finite) < MIN_POINTS:
            return None
        first, level = training.facts.beginning, training.facts.level
        if (np.diff(rates) <= 0).any() or not abs(first - level) < LITTLE * abs(first):
            return None
        text = (
            f"the learning rate has risen to the end, to {number(rates[-1])}, and the loss "
            f"{course(first, level)}: the warm-up is longer than the run"
        )
        return Seen(text, {"value": rates[-1], "first": first, "loss": level}, int(steps[0]), "medium")

    def _mirrored(self, known: Known) -> Seen | None:
        """Return a finding if a rate fell to nothing and then rose the way it fell."""
        steps, rates = known.stage.curve
        least = int(rates.argmin()) if len(rates) else 0
        after, peak = len(rates) - 1 - least, int(rates[: least + 1].argmax()) if least else 0
        if min(least, after) < WARM_UP or after > least - peak or rates[least] > RESTS * rates[peak]:
            return None
        fell, rose = rates[least - after : least + 1][::-1], rates[least:]
        near = SINGLE * rates[peak] + float(np.diff(rose).max())  # means of some points are no mirror
        # A warm-up as long as the fall is one half of a cycle, which is meant to come again.
        cycles = 4 * peak > least or (np.diff(rates[peak:least]) > 0).any()
        if (
            cycles
            or rose[-1] < rates[peak] / 4
            or (np.diff(rose) < 0).any()
            or (np.abs(fell - rose) > near).any()
        ):
            return None
        text = (
            f"the learning rate fell from {number(fell[-1])} to {number(rates[least])} and rose to "
            f"{number(rose[-1])} the way it fell: the schedule is stepped past its end"
        )
        return Seen(text, {"value": rose[-1], "least": rates[least]}, int(steps[least]), "medium")

    def urgent(self, known: Known, values: Floats) -> NDArray[np.bool_]:
        """Return which rates are impossible as the first ones, or far above the one before."""
        before = known.streak.before(values)
        return ~(values >= 0) & (before >= 0) | (values > self.limits["factor"] * before) & (before > 0)

    def _jump(self, known: Known) -> Seen | None:
        """Return the newest jump above which the rate has stayed."""
        facts = known.stage
        steps, rates = facts.curve_to_newest
        if len(rates) <= WARM_UP:
            return None
        before = rates[:-1]
        # A mean of several points may hold some of before the jump and some of after it.
        least = np.minimum(before, np.append(before[0], before[:-1])) if facts.width > 1 else before
        largest = np.maximum.accumulate(before)
        high = (rates[1:] > self.limits["factor"] * (1 + SINGLE) * least) & (rates[1:] > 1.5 * largest)
        jumps = np.flatnonzero(high & (least > 0))
        jumps = jumps[jumps >= WARM_UP // facts.width - 1]
        if not len(jumps) or rates[-1] <= 1.5 * largest[jumps[-1]]:
            return None
        at = int(jumps[-1])
        text = (
            f"the learning rate went from {number(least[at])} to {number(rates[at + 1])}, the largest of the "
            "run so far"
        )
        return Seen(text, {"value": rates[at + 1], "before": least[at]}, int(steps[at + 1]))


class Plateau(Row):
    """Waits for a block mean clearly better than the best one, for as long as it took to get there.

    A loss that has fallen most of its way has converged, and one whose learning rate is being changed may go
    on: neither is a plateau.

    Formula: no mean of 50 points below (1 - ratio) * the best, for blocks of them and as many as until
        the best; their noise is below ratio, the rate unchanged, the loss above left * its first; or the
        rate is <= 1e-8
    Fires: within 1,050 points of the last improvement, or a quarter of the points so far
    Chance: below 1e-3 a run (an improvement hidden in 20 blocks, each known to half the ratio)
    Source: Keras ReduceLROnPlateau, trainpulse; relative, of block means, by schedule and noise: ours
    """

    id = "plateau"
    title = "Loss plateau"
    severity = "low"
    fewest = "1,050 points"
    roles = ("loss", "learning_rate")
    leads = needs = ("loss",)
    splits = ("train",)
    unfit = ("adversarial", "reinforcement", "variational", "contrastive")
    defaults = thresholds(blocks=20, ratio=0.01, left=0.25)
    applied = MappingProxyType({"schedule": ", or raise it if it was never changed"})
    action = (
        "if the loss is good enough, stop; otherwise lower the learning rate, or raise it if it was never "
        "changed, and look at the size of the model and the noise of the labels"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, limits, of_run = known.stage, self.limits, known.stream.run
        blocks = min(facts.finite // BLOCK, MOST_BLOCKS)
        if blocks <= limits["blocks"]:
            return None
        self.judged()
        steps, values = facts.curve
        edges = np.linspace(0, len(values), blocks + 1).astype(int)
        means = np.array([values[begin:end].mean() for begin, end in pairwise(edges.tolist())])
        best = last_better(means, limits["ratio"])
        rest, count = means[best + 1 :], max(self.limit("blocks"), best + 1)
        place = int(edges[best + 1]) - 1
        still = self._rests(of_run, run)
        if known.stream in self.holding:
            if not len(rest) and not still:
                return None
        elif still:
            if not self._rests(of_run, run, float(facts.walls[edges[-self.limit("blocks") - 1]])):
                return None
        elif (
            len(rest) < count
            or rest.mean() <= limits["left"] * means[0]
            or self._goes_on(rest)
            or run.rescheduled(of_run, float(facts.walls[place]))
        ):
            return None
        points, low, now_is = len(rest) * facts.finite // blocks, number(means[best]), number(means[-1])
        if still:
            text = f"the learning rate, {number(run.rate(of_run) or 0.0)}, moves nothing"
            text = f"{text}: the mean loss is {now_is}; its best was {low}, at step {int(steps[place]):,}"
        else:
            text = (
                f"the mean loss has not been {share(limits['ratio'])} below {low}, that of step "
                f"{int(steps[place]):,}, for {points:,} points: it is {now_is}"
            )
        return Seen(text, {"mean": means[-1], "best": means[best]}, int(steps[place]))

    def _goes_on(self, means: Floats) -> bool:
        """Return whether means still fall, or are too noisy to tell."""
        level, half = float(means.mean()), len(means) // 2
        noisy = standard_error(means) > 0.5 * self.limits["ratio"] * abs(level)
        falls = means[:half].mean() - means[half:].mean() > 2 * standard_error(means[half:])
        return bool(noisy or falls)

    def _rests(self, of_run: str, run: RunFacts, wall: float = inf) -> bool:
        """Return whether the learning rate is too small to move anything."""
        rate = run.rate(of_run, wall)
        return rate is not None and rate <= TINY_RATE


ROWS = (
    ScheduleTooFast,
    RatesDiffer,
    TwoSoftmaxes,
    LossSummed,
    LossPartDiverges,
    AttemptDiscontinuous,
    LearningRate,
    Plateau,
)
