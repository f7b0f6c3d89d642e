"""Rows on evaluations: whether what the model learns holds for data that it is not trained on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.facts import CHANCE, FEWEST_GAPS, Change, Facts
from stepscope.health.finding import Severity
from stepscope.health.looks import (
    NO_GAIN,
    SERIES,
    AcrossSeries,
    Known,
    Row,
    RunFacts,
    Seen,
    at_steps,
    course,
    gained,
    given_back,
    improves,
    medians_of_three,
    now,
    since_index,
    since_when,
)
from stepscope.health.noise import Floats, curve_noise, last_better, rise_chance, step_noise, taken_back
from stepscope.health.ring import median
from stepscope.health.rule import At, thresholds
from stepscope.health.rules.loss_not_decreasing import TINY_RATE
from stepscope.health.series import Stream
from stepscope.names.roles import without_split
from stepscope.names.splits import split_tag
from stepscope.text import number, share

MIN_POINTS = 8
"""Evaluations from which on their noise is known."""
BEGUN = 0.1
"""Share of what was given back below which that has not begun."""
SURE = 3.0
"""Standard deviations of single evaluations by which all since must be worse."""
SINCE = 5
"""Evaluations after the best one."""
FEW = 4
"""Evaluations after the best, each worse than the one before, that are enough for a large rise."""
LARGE = 0.5
"""Share of the best by which so few must have risen."""
LOST = 0.25
"""Share of the progress that so few must have lost again; as many as ``SINCE`` as in longer runs."""
HALVED = 0.5
"""Share of its value at the best evaluation to which the training loss must have fallen meanwhile."""
FELL = 0.1
"""Share of its first value to which an evaluation loss fell whose scores must have gained something."""
LATER = 4
"""Times as many evaluations that are awaited of a score that may begin to rise."""
MANY = 32
"""Evaluations of which half after the best are enough for a trend of a rise that is small."""
LEARNT = 0.03
"""Share of the progress below which a rise is next to nothing."""
BACK = 2.0
"""Multiple of the largest rise that was undone again, as within epochs that are sorted, which counts."""


class EvaluationCollapsed(Row):
    """Compares the level after a lasting jump with what the evaluation had gained before it.

    Losses are not judged: that of a model that is too sure of itself grows many times while the model is
    right as often. A likelihood that is recorded to rise is a score.

    Formula: a metric of an evaluation jumps for good to the worse, by more than share of its level and
        lost of what it had gained from its first value to its best; no loss was NaN or infinite before
    Fires: at the third evaluation after it
    Chance: below 0.03 % in a run
    Source: change points by two-sided lines, and by levels below 64 points: ours
    """

    id = "evaluation-collapsed"
    title = "Evaluation collapsed"
    severity = "medium"
    fewest = "8 evaluations"
    explains = ("worse-than-best", "overfitting", "overtraining")
    roles = ("metric", "loss")
    needs = ("metric",)
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(lost=0.5, share=0.2)
    action = (
        "compare the inputs of an evaluation before this step with those after it: files, preprocessing, "
        "order of axes, labels; see what else changed at this step with stepscope changes; resume from the "
        "checkpoint before it if the model itself broke"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, falls = known.facts, known.stream.lower_is_better
        is_loss = known.stream.role == "loss" and known.stream.scale > 0
        if facts.finite < MIN_POINTS or falls is None or is_loss:
            return None
        self.judged()
        best, best_step = facts.least if falls else facts.most
        for change in reversed(facts.sudden(SERIES)):
            if change.lasts:
                gained = abs(best - facts.first)
                lost = abs(facts.level - best) > self.limits["lost"] * gained
                if not lost or best_step > change.last_step or not self._is_worse(change, known, run):
                    return None
                before, after = change.before or 0.0, change.after or 0.0
                text = f"it went from about {number(before)} to about {number(after)} and has not come back"
                values = {"before": before, "after": after, "best": best, "best_step": best_step}
                return Seen(text, values, change.first_step)
        return None

    def _is_worse(self, change: Change, known: Known, run: RunFacts) -> bool:
        before, after = change.before or 0.0, change.after or 0.0
        worse = (after > before) == known.stream.lower_is_better
        broken = [other.facts.broken for other in run.of(known.stream.run, "loss")]
        began = min((span[1] for span in broken if span is not None), default=inf)
        return worse and abs(after - before) > self.limits["share"] * abs(before) and began > change.wall


class EvaluationUnlike(Row):
    """Compares an evaluation with the training at the same steps, from the first evaluations on.

    A model that overfits has first learnt something that holds; an evaluation on other inputs, other labels
    or another mode of the layers never gains, and one into which the answers leak is perfect at once.

    Formula: evaluation losses gained less than gained of the training's fall by half, and were no better
        than its first value; or no evaluation gained anything then; or a score was perfect at once, or
        never gained, unlike on other data
    Fires: at the fifth evaluation
    Chance: none from noise: a median of three is hardly better than an untrained model
    Source: ours
    """

    id = "evaluation-unlike-training"
    title = "Evaluation unlike training"
    severity = "medium"
    withdraws = True
    fewest = "5 evaluations and a training loss that fell by half"
    explains = ("overfitting", "overtraining", "worse-than-best")
    roles = ("loss", "metric")
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement", "contrastive")
    defaults = thresholds(gained=0.1)
    action = (
        "send one batch of training data through the evaluation: the loss must be that of training. If it is "
        "not, compare preprocessing (scale, order of axes, vocabulary), labels and the mode of dropout and "
        "batch norm (PyTorch: model.eval(); Keras and JAX: training=False). If it is, compare the data: "
        "other labels, rows that are in both sets, a feature that leaks the label"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts = known.facts
        if facts.finite < 5:
            return None
        if known.stream.role == "loss" or _is_trained_for(known, run):
            return self._far(known, run)
        return self._perfect(known, run) or self._gains_nothing(known, run)

    def _far(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training = known.facts, run.lowered(known)
        if training is None or training.facts.finite < 5:
            return None
        first = max(training.facts.first, training.facts.beginning)
        gain = first - training.facts.level
        if not gain > first / 2 > 0:
            return None
        self.judged()
        steps, means = facts.curve
        few = min(max(training.facts.count // facts.count, 1), 3)
        # The first evaluations of a model that has learnt, whenever that was.
        learnt = np.flatnonzero(at_steps(training.facts, steps, few) <= first / 2)
        learnt = learnt[learnt > 0][:3]
        little = self.limits["gained"] * gain
        if len(learnt) < 3 or median(means[learnt]) <= first - little:
            return None
        back = 2 if known.stream in self.holding else 1
        if facts.first - float(medians_of_three(means).min()) > back * little:
            return None
        text = (
            f"it began at {number(facts.first)} and has not been below {number(facts.least[0])}, while "
            f"{_called(training)} fell from {number(first)} to {now(training.facts)}"
        )
        values = {"first": facts.first, "best": facts.least[0], "train": training.facts.level}
        return Seen(text, values, int(steps[0]))

    def _gains_nothing(self, known: Known, run: RunFacts) -> Seen | None:
        """Return that all that is evaluated is what it was at first, far from perfect."""
        facts, training = known.facts, run.lowered(known)
        evaluated = list(run.of(known.stream.run, "metric", "loss", split="eval"))
        if training is None or facts.finite < NO_GAIN or evaluated[0] is not known:
            return None
        first = max(training.facts.first, training.facts.beginning)
        if not first - training.facts.level > first / 2 > 0:
            return None
        self.judged()
        scores = [one for one in evaluated if one.stream.role == "metric"]
        fell = [one for one in evaluated if one not in scores and one.facts.level < FELL * one.facts.first]
        if facts.first == facts.last or any(map(gained, scores if fell else evaluated)):
            return None
        training = fell[0] if fell else training
        first = training.facts.first if fell else first
        text = (
            f"it was {number(facts.first)} at first and is {now(facts)}, while "
            f"{_called(training)} fell from {number(first)} to {now(training.facts)}"
        )
        values = {"first": facts.first, "level": facts.level, "train": training.facts.level}
        return Seen(text, values, facts.first_step)

    def _perfect(self, known: Known, run: RunFacts) -> Seen | None:
        """Return that a score is perfect at once, or gains nothing, unlike on other data."""
        facts, metric = known.facts, split_tag(known.stream.tag).metric
        if known.stream.lower_is_better is not False or not 0 <= facts.least[0] <= facts.most[0] <= 1:
            return None
        for other in run.of(known.stream.run, "metric"):
            best = other.facts.most[0]
            if split_tag(other.stream.tag).metric != metric or other.facts.finite < 5 or other is known:
                continue
            self.judged()
            if other.stream.split == "eval" and gained(other) and not gained(known):
                text = (
                    f"it was {number(facts.first)} at first and is {now(facts)}; "
                    f"{other.stream.tag} came to {number(best)}"
                )
                # A set of another kind, such as one from elsewhere, may be meant to be harder.
                return Seen(text, {"first": facts.first, "other": best}, facts.first_step, "low")
            unlike = 1 - best > max(10 * (1 - facts.first), self.limits["gained"])
            if other.stream.split != "eval" and facts.first >= 0.99 and unlike:
                text = (
                    f"it was {number(facts.first)} at the first evaluation; the best of the training is "
                    f"{number(best)}"
                )
                # Training on inputs that are mixed or cropped is harder than the evaluation.
                return Seen(text, {"first": facts.first, "train": best}, facts.first_step, "low")
        return None


def _called(training: Known) -> str:
    stream = training.stream
    return "the training loss" if stream.role == "loss" and stream.split != "eval" else stream.tag


def _is_trained_for(known: Known, run: RunFacts) -> bool:
    """Return whether an evaluation measures what the training loss does, whatever that is called."""
    training = run.training_loss(known.stream.run)
    return training is not None and without_split(known.stream.tag) == without_split(training.stream.tag)


class RepeatedBatch(Row):
    """Looks for the noise of batches: a training loss that falls at nearly each step sees the same data.

    Formula: the training loss fell from one mean to the next in more than falls of the last three
        quarters, the evaluation loss is above ratio * it, and its best lies in the first half of the run
    Fires: at the eighth evaluation
    Chance: below 1e-9: noise rises at half of all steps
    Source: ours
    """

    id = "repeated-batch"
    title = "The same batch again and again"
    severity = "medium"
    fewest = "8 evaluations and 100 training losses, 5 of them for each evaluation"
    explains = ("overfitting", "overtraining", "worse-than-best")
    roles = ("loss",)
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement", "variational")
    defaults = thresholds(falls=0.95, ratio=10)
    action = (
        "print the first indices of two batches: if they are equal, the iterator is recreated at each step "
        "(next(iter(loader)) in the loop), or a shuffle has the same seed each time. If each step is meant "
        "to see all data, the model has memorized it: use more data or regularization"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training = known.facts, run.training_loss(known.stream.run)
        if (
            training is None
            or facts.finite < MIN_POINTS
            or training.facts.finite < max(100, 5 * facts.finite)
        ):
            return None
        self.judged()
        _, means = training.facts.curve
        rest = means[len(means) // 4 :]
        falls = float((np.diff(rest) < 0).mean())
        best, best_step = facts.least
        late = best_step - facts.first_step > (facts.last_step - facts.first_step) / 2
        apart = facts.level > self.limits["ratio"] * training.facts.level > 0
        if falls <= self.limits["falls"] or late or not apart or facts.level <= best:
            return None
        text = (
            f"the training loss fell at {falls:.0%} of its points, without the noise of changing batches, to "
            f"{now(training.facts)}; the evaluation loss is {now(facts)}, its best was "
            f"{number(best)}"
        )
        values = {"falls": falls, "train": training.facts.level, "eval": facts.level, "best_eval": best}
        return Seen(text, values, training.facts.first_step)


class ConstantOutput(Row):
    """Looks for evaluations that stay exactly the same while the loss falls.

    A score at its worst is that of a model that always answers the same. If no series of an evaluation ever
    moves, it is that, or not the model that is trained is evaluated.

    Formula: a score of an evaluation is exactly 0, or errors 1, in share of all, up to now, or none of
        its series ever moves, while the training loss changes and neither rates are near 0 nor weights
        constant
    Fires: at the eighth such evaluation
    Chance: none: one right answer makes a score positive, and other weights have another loss
    Source: ours; a model that never answers a class has a recall, a precision and a dice of 0
    """

    id = "constant-output"
    title = "Constant evaluation"
    severity = "medium"
    withdraws = True
    fewest = "8 evaluations with a score"
    roles = ("metric", "loss")
    beside = ("weight_norm",)
    splits = ("eval", None)
    unfit = ("reinforcement",)
    defaults = thresholds(evaluations=8, share=0.7)
    action = (
        "look at the predictions: if all are one class or nothing is detected, weight the loss by the "
        "frequency of classes or sample them evenly, and judge by a score in which rare classes count "
        "(recall, dice, balanced accuracy)"
    )
    frozen = (
        "check that the evaluation uses the weights that are trained: not a copy made once, an average that "
        "nothing updates, a checkpoint read at the start or a cached result; then look at the predictions"
    )
    """The action if the whole evaluation stays the same."""

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training = known.facts, run.lowered(known)
        falls = known.stream.lower_is_better
        if training is None or facts.finite < MIN_POINTS:
            return None
        self.judged()
        steps, means = facts.curve
        same = int((steps >= facts.constant_since).sum())
        # What has never moved may be about to: a rare class is found late.
        never = known.stream.role == "metric" and facts.constant_since <= facts.first_step
        few = self.limits["evaluations"] * (LATER if never and not self.ended else 1)
        if same < few or same < self.limits["share"] * len(means):
            return None
        is_frozen = self._leads_frozen(known, run)
        is_worst = known.stream.role == "metric" and falls is not None and facts.last == float(falls)
        rate, largest = run.rate(known.stream.run) or 1.0, run.largest_rate(known.stream.run) or 1.0
        rests = (rate <= 1e-3 * largest and not (never and self.ended)) or run.constants(
            known.stream.run, "weight_norm"
        )
        still = training.facts.constant_since <= facts.constant_since
        broken = facts.broken is not None or training.facts.broken is not None
        # Rates come to nothing at the end of a run, when the finding is there.
        if still or broken or (rests and known.stream not in self.holding) or not (is_worst or is_frozen):
            return None
        if is_worst:
            text = f"it has been exactly {facts.last:.0f} in {same:,} of {facts.finite:,} evaluations"
            return Seen(text, {"evaluations": same}, facts.constant_since)
        text = f"it has had one value, {number(facts.last)}, in all {facts.finite:,} evaluations"
        loss = f"{_called(training)} {course(training.facts.first, training.facts.level)}"
        # A score of few examples may stay where it is; a loss of other weights is another one.
        severity: Severity | None = "low" if known.stream.role == "metric" else None
        values = {"evaluations": float(same)}
        return Seen(f"{text}, while {loss}", values, facts.constant_since, severity, self.frozen)

    def _leads_frozen(self, known: Known, run: RunFacts) -> bool:
        """Return whether no series of the evaluations ever moves, and this is the first of them.

        One that is perfect has nothing to gain, and counts for none.
        """
        evaluated = [
            other
            for other in run.of(known.stream.run, "loss", "metric", "part_loss", split="eval")
            if other.facts.last not in other.stream.perfect
        ]
        return evaluated[:1] == [known] and all(
            other.facts.constant_since <= other.facts.first_step for other in evaluated
        )


class WorseThanBest(Row):
    """Compares the level of a score with its best, in what it had gained.

    A model that could do the task before may only lose it: then all that is evaluated is worse than at first.

    Formula: share of its gain that a metric of an evaluation gave back, at least lost, times the run's
        share since, is above cost; gains of errors are factors; or lost of its first value, which was the
        best
    Fires: within half of the run after its best; an eighth, if all is lost
    Chance: none from noise: every evaluation since must be worse
    Source: ours
    """

    id = "worse-than-best"
    title = "Stays worse than its best"
    severity = "low"
    fewest = "8 evaluations"
    roles = ("metric", "loss")
    leads = ("metric",)
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(lost=0.25, cost=0.125)
    action = "use the checkpoint of the best evaluation; see what changed after it with stepscope changes"

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, falls = known.facts, known.stream.lower_is_better
        if facts.finite < MIN_POINTS or falls is None or facts.broken is not None:
            return None
        self.judged()
        steps, means = facts.curve
        if (seen := self._only_lost(known, run)) is not None:
            return seen
        # Errors of any size are worse by factors: a distance that is six times its best has lost much of it.
        sized = np.log if falls and facts.least[0] > 0 else np.positive if falls else np.negative
        values = sized(means)
        smooth, first = medians_of_three(values), float(sized(facts.first))
        cost, at = given_back(smooth, first)
        # Of answers that are counted one more or less is no loss.
        answers = np.unique(values)
        one = float(np.diff(answers).min()) if 2 < len(answers) < len(values) / 2 else 0.0
        lost = max(self.limits["lost"] * (first - smooth[at]), SURE * max(curve_noise(values), one))
        if cost <= self.limits["cost"] or not (values[-SINCE:] > smooth[at] + lost).all():
            return None
        # One score is given for another, as answers that are right for classes that are found.
        since = float(facts.walls[at + 1])  # the last of the best three
        others = run.of(known.stream.run, "metric", split="eval")
        traded = (one for one in others if one is not known and not one.stream.because)
        if any(
            improves(one.facts, since, falls=one.stream.lower_is_better is True, rare=True) for one in traded
        ):
            return None
        lead = int(values.argmin())
        best, best_step = float(means[lead]), int(steps[lead])
        begun = smooth[at] + BEGUN * (median(values[-SINCE:]) - smooth[at])
        since = since_when(facts, lambda values: sized(values) > begun)
        text = f"it is {number(facts.last)}; its best was {number(best)} at step {best_step:,}"
        return Seen(text, {"level": facts.level, "best": best, "best_step": float(best_step)}, since)

    def _only_lost(self, known: Known, run: RunFacts) -> Seen | None:
        """Return that no evaluation has been nearly as good as the first one, by any of its series."""
        steps, means = known.facts.curve
        first, rest = float(means[0]), means[1:]
        # A model that always gives one answer may have a perfect recall, and a precision of nothing.
        others = [
            other
            for other in run.of(known.stream.run, *self.roles, split="eval")
            if other is not known and other.stream.lower_is_better is not None
        ]
        falls, share_left = known.stream.lower_is_better, 1 - self.limits["lost"]
        worse = rest * share_left > first if falls else rest < share_left * first
        clear = np.abs(rest - first) > SURE * curve_noise(rest)
        if not others or not first > 0 or not (worse & clear).all() or not all(map(_is_worse, others)):
            return None
        text = (
            f"it is {now(known.facts)}; it was {number(first)} at the first evaluation, and has not "
            "come near that since"
        )
        values = {"level": known.facts.level, "best": first, "best_step": float(steps[0])}
        return Seen(text, values, int(steps[1]))


def _is_worse(known: Known) -> bool:
    """Return whether the level of a series is worse than its first value."""
    return bool((known.facts.level > known.facts.first) == known.stream.lower_is_better)


class WorseThanConstant(Row):
    """Looks at scores whose zero is, by definition, what a constant answer has.

    Formula: a share of explained variance of an evaluation is below -below in all of the second half of its
        points; or its median there is 0 or less at the end (low)
    Fires: at the sixteenth evaluation, or at the end of a run of eight
    Chance: none from noise: the mean of the targets has 0, and each evaluation is worse
    Source: the coefficient of determination (Wright 1921); the margin: ours
    """

    id = "worse-than-constant"
    title = "Worse than a constant"
    severity = "medium"
    fewest = "8 evaluations of R2 or of the explained variance"
    explains = ("worse-than-best", "poor-initialization")
    roles = ("metric",)
    splits = ("eval", None)
    unfit = ("reinforcement",)
    defaults = thresholds(below=0.1)
    action = (
        "bring inputs and targets to a mean of 0 and a deviation of 1, by the numbers of the training set: "
        "one column that is a million times larger than the others hides them; compare with a model that "
        "always answers the mean"
    )

    def is_of(self, stream: Stream) -> bool:
        return super().is_of(stream) and _EXPLAINED.search(stream.tag) is not None

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts = known.facts
        # Early on a model that learns is worse, too.
        if facts.finite < (MIN_POINTS if self.ended else NO_GAIN) or facts.broken is not None:
            return None
        self.judged()
        limit = -self.limits["below"]
        _, means = facts.curve
        later = means[len(means) // 2 :]
        values = {"level": facts.level, "best": facts.most[0]}
        severity: Severity | None = None
        if (later < limit).all():
            text = f"it is {number(facts.last)}, and its best was {number(facts.most[0])}"
            since = since_when(facts, lambda values: values < limit)
        elif self.ended and median(later) <= 0 and abs(facts.last) < -limit:
            # Where little can be known the best model is hardly better than the mean: but it is better.
            text = f"the median of its last {len(later)} values is {number(median(later))}, the best of all "
            text += number(facts.most[0])
            since, severity = facts.first_step, "low"
        else:
            return None
        return Seen(f"{text}: a constant answer has 0", values, since, severity)


_EXPLAINED = re.compile(
    r"(?:^|[^a-z0-9])(?:r_?2|r_?squared|explained_?var(?:iance)?)(?:[^a-z0-9]|$)", re.IGNORECASE
)


class EvaluationUnsteady(Row):
    """Compares each evaluation with its neighbours; the training loss between them shows no such jumps.

    Formula: jumps or more evaluation losses are above factor * both of their neighbours and above the first
        one; the training loss since the evaluation before has no mean above factor * both of its own
    Fires: at the evaluation after the third jump
    Chance: none from noise of less than a factor of 2
    Source: ours; running statistics that follow the last batches alone, few rows
    """

    id = "evaluation-unsteady"
    title = "The evaluation jumps"
    severity = "low"
    fewest = "8 evaluations and a training loss"
    roles = ("loss",)
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(factor=2, jumps=3)
    action = (
        "look at what the evaluation takes from the last few batches: the running statistics of batch norm "
        "(momentum: PyTorch 0.1 is Keras 0.9; larger batches), an average of weights; else evaluate on more "
        "rows, and the same ones each time"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        training = run.training_loss(known.stream.run)
        if training is None or known.facts.finite < MIN_POINTS:
            return None
        steps, _, values, trains = with_training(training, known.facts)
        if len(values) < MIN_POINTS or values.min() <= 0 or trains.min() <= 0:
            return None
        self.judged()
        high = self._jumps(values) & (values > values[0])
        if high.sum() < self.limits["jumps"] or self._jumps(trains).any():
            return None
        low, most = median(values[len(values) // 2 :]), float(values[high].max())
        text = (
            f"{int(high.sum())} of {len(values)} evaluations are above the first, {number(values[0])}, and "
            f"more than {number(self.limits['factor'])} times their neighbours, up to {number(most)}; the "
            "training loss has no such jumps"
        )
        values_ = {"jumps": float(high.sum()), "largest": most, "usual": low}
        return Seen(text, values_, int(steps[int(high.argmax())]))

    def _jumps(self, values: Floats) -> NDArray[np.bool_]:
        beside = np.maximum(values[:-2], values[2:])
        return np.concatenate([[False], values[1:-1] > self.limits["factor"] * beside, [False]])


class UnitChanged(Row):
    """Looks for a score whose values are a hundred times the earlier ones from some point on, or a hundredth.

    A share lies between 0 and 1, and is no percentage by chance.

    Formula: all values of a score up to some point lie between 0 and 1, and all since between 1 and 100,
        or the other way round, and their medians differ by a factor of 100, within factor
    Fires: at the third such value
    Chance: none: a share cannot exceed 1
    Source: ours; some libraries give shares, some percentages
    """

    id = "unit-changed"
    title = "A score changed its unit"
    severity = "low"
    fewest = "8 points"
    explains = ("evaluation-collapsed", "worse-than-best", "attempt-discontinuous")
    roles = ("metric",)
    defaults = thresholds(factor=1.5)
    action = (
        "give all points one unit: multiply the earlier ones, or divide the later ones, by 100; choose the "
        "best checkpoint anew, since the greatest of both kinds is always a percentage"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        steps, means = known.facts.curve
        if (
            len(means) < MIN_POINTS
            or known.facts.broken is not None
            or known.stream.lower_is_better is not False
        ):
            return None
        self.judged()
        large = means > 1
        at = since_index(large if large[-1] else ~large)
        before, after = means[:at], means[at:]
        low, high = (before, after) if large[-1] else (after, before)
        if min(len(low), len(high)) < 3 or low.min() < 0 or high.min() <= 1 or high.max() > 100:
            return None
        # What the model learnt meanwhile is no part of it: the points next to the change are compared.
        then, since = median(before[-3:]), median(after[:3])
        ratio = max(then, since) / max(min(then, since), 1e-12) / 100
        if not 1 / self.limits["factor"] < ratio < self.limits["factor"]:
            return None
        units = "from a share to a percentage" if large[-1] else "from a percentage to a share"
        text = f"it went from about {number(then)} to about {number(since)}: {units}"
        return Seen(text, {"before": then, "after": since}, int(steps[at]))


class SeriesStopped(Row):
    """Compares the time since an evaluation's last point with the longest time between two of its points.

    Formula: the newest point of the training loss is more than gaps times the longest gap between the
        evaluation's points later than its last one, in time and in steps
    Fires: at the end of what is recorded
    Chance: below 1 % of evaluations whose gaps fall off exponentially
    Source: a prediction interval of its own gaps: after five of them, three times the longest; ours
    """

    id = "series-stopped"
    title = "Evaluation stopped"
    severity = "low"
    fewest = "6 evaluations and a training loss"
    roles = ("loss", "metric")
    splits = ("eval",)
    defaults = thresholds(gaps=3)
    action = (
        "check whether the evaluation raised an error that was caught, was switched off, or is recorded "
        "under another name; without it nothing says when to stop"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts = known.facts
        if facts.count < FEWEST_GAPS:
            return None
        self.judged()
        trained = [other.facts for other in run.of(known.stream.run, "loss") if other.stream.split == "train"]
        if not self.ended or not trained:  # only the end of what is recorded tells that nothing comes
            return None
        newest = max(trained, key=lambda series: (series.last_wall, series.last_step))
        missing_s = newest.last_wall - facts.last_wall
        if not facts.is_missing(newest.last_wall, newest.last_step, self.limits["gaps"]):
            return None
        text = (
            f"its last point is at step {facts.last_step:,}, {number(missing_s)} s before the end of the "
            f"training loss; the longest gap between its points was {number(facts.gap_s)} s"
        )
        values = {"missing_s": missing_s, "longest_gap_s": facts.gap_s}
        step = max(newest.last_step, facts.last_step)
        at = At(known.stream, step, newest.last_wall, facts.last_step)
        return Seen(text, values, facts.last_step, at=at)


class Overfitting(Row):
    """Reports a rise of the evaluation loss that its own noise does not explain, once a run.

    The best evaluation is the least median of three in a row, so that a lucky one does not count.

    Formula: the last 5 evaluations exceed the best by more than rise, noise, what was undone and 3 % of
        what was learnt, by a trend (p < 1e-3), as the training loss fell or halved; or 4 in a row by half
    Fires: at the seventh evaluation or so after the best, from the eighth on; at the fourth or fifth
        after the best where it rose by much
    Chance: below 1e-3 a run, from noise without memory (p at its smallest, z 4)
    Source: SageMaker Debugger Overfit (gap 0.1); the rise against noise: Mann 1945, Kendall 1975, Hamed
        and Rao 1998
    """

    id = "overfitting"
    title = "Overfitting"
    withdraws = True
    fewest = "8 evaluations, 7 of them after the best; 5 for a large rise"
    roles = needs = ("loss",)
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement", "contrastive", "variational")
    explains = ("worse-than-best",)
    defaults = thresholds(gap=0.1, rise=0.25, z=4)
    applied = MappingProxyType({"weight decay": "weight decay, ", "dropout": "dropout, "})
    action = (
        "keep the checkpoint of the best evaluation; stop early, add weight decay, dropout, augmentation or "
        "data, or use a smaller model"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._told: dict[Facts, tuple[int, float]] = {}
        """Stages of which it was told, once of each: step of the best, and the training loss there."""

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training = known.stage, run.training_loss(known.stream.run)
        if training is None:
            return None
        steps, _, values, trains = with_training(training, facts)
        if len(values) >= MIN_POINTS:
            self.judged()
        holds = known.stream in self.holding
        if len(values) <= FEW or (facts in self._told and not holds):
            return None
        middles = medians_of_three(values)[1:-1]
        best = int(np.argmin(middles)) + 1
        if holds and best >= len(values) - 3:
            return None
        after = median(trains[-3:])
        if not holds:
            rise = int(steps[best]), median(trains[best - 1 : best + 2])
            enough = len(values) >= MIN_POINTS and len(values) - 2 - best >= SINCE
            rose = enough and self._rose(values, middles, best, after)
            # A training loss that stays moves up and down by its noise: nothing was fitted more closely. One
            # that falls by steps, as with epochs, has few levels and no trend.
            if not (rose and (halved(rise[1], after) or rise_chance(-trains[best:][-64:]) < CHANCE)):
                best = int(np.argmin(values))
                rise, after = (int(steps[best]), float(trains[best])), float(trains[-1])
                if not self._in_a_row(values, best, rise[1], after):
                    return None
            self._told[facts] = rise
        since, before = self._told[facts]
        best = int(np.argmin(values))
        least, step = float(values[best]), int(steps[best])
        text = (
            f"the evaluation loss is {number(values[-1])}; its best was {number(least)} at step {step:,}, "
            f"and since then the training loss {course(before, after)}"
        )
        evidence = {"eval": float(values[-1]), "best_eval": least, "best_step": float(step)}
        return Seen(text, {**evidence, "train": float(trains[-1])}, since)

    def _in_a_row(self, values: Floats, best: int, before: float, now: float) -> bool:
        """Return whether a large rise without a fall in between is clear, which few evaluations show.

        The noise is that of second differences: a short training falls steeply in most of its evaluations,
        and that is no noise.
        """
        after, least, last = len(values) - 1 - best, float(values[best]), float(values[-1])
        if after < FEW or (np.diff(values[best:]) <= 0).any():
            return False
        lost = (LOST if after < SINCE else LEARNT) * (float(values[:3].max()) - least)
        rise = max(LARGE * abs(least), lost, self.limits["z"] * curve_noise(values))
        learnt = halved(before, now) and last - now > self.limits["gap"] * abs(now)
        return learnt and last - least > rise

    def _rose(self, values: Floats, middles: Floats, best: int, now: float) -> bool:
        limits, least, recent = self.limits, float(middles[best - 1]), median(values[-SINCE:])
        # Next to nothing of what was learnt is nothing to stop for, however large it is beside a loss near 0.
        learning = LEARNT * (float(values[:3].max()) - least)
        # What lasts for half of many evaluations costs as much as a larger rise that has just come.
        late = len(values) >= MANY and len(middles) - int(middles.argmin()) > len(values) / 2
        rise = limits["gap"] if late else limits["rise"]
        noise = max(limits["z"] * step_noise(values), BACK * taken_back(middles))
        clear = recent - least > max(rise * abs(least), learning, noise)
        apart = recent - now > limits["gap"] * abs(now)
        return bool(clear and apart and rise_chance(values[best:][-64:]) < CHANCE)


def halved(before: float, now: float) -> bool:
    """Return whether a training loss fell to half of what it was, or further."""
    return now < before - (1 - HALVED) * abs(before)


class Overtraining(Row):
    """Counts evaluations since the last improvement of either loss, once the schedule has ended.

    A learning rate that still changes may bring the next improvement, so it must not have changed for all of
    that time, or be near 0.

    Formula: no training loss below (1 - delta) * its best for patience_train evaluations, no evaluation
        for patience_eval and half as many as until the best, noise below delta; the rate stayed below a
        hundredth of its largest or 1e-8
    Fires: at the tenth evaluation without an improvement, or at half as many as until the best
    Chance: none from noise (it is below delta); the recorded learning rate says that the schedule is over
    Source: SageMaker Debugger Overtraining (patience 5 and 10; its delta of 0.1 absolute made relative)
    """

    id = "overtraining"
    title = "Overtraining"
    severity = "low"
    fewest = "20 evaluations and the learning rate"
    roles = ("loss", "learning_rate")
    leads = ("loss",)
    needs = ("loss", "learning_rate")
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement", "contrastive", "variational")
    defaults = thresholds(patience_train=5, patience_eval=10, delta=0.01)
    action = "stop: more steps cost time and change nothing; keep the checkpoint of the best evaluation"

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training, limits = known.stage, run.training_loss(known.stream.run), self.limits
        if training is None or len(facts.curve[0]) <= limits["patience_eval"]:
            return None
        self.judged()
        steps, walls, values, trains = with_training(training, facts)
        delta, of_run = limits["delta"], training.stream.run
        best, best_train = last_better(values, delta), last_better(trains, delta)
        since = len(values) - 1 - best
        if known.stream not in self.holding:
            if len(values) - 1 - best_train < limits["patience_train"]:
                return None
            if since < max(limits["patience_eval"], (best + 1) // 2):
                return None
            if not self._is_over(of_run, float(walls[best]), run):
                return None
            if step_noise(values[-since:]) > delta * abs(values[best]):
                return None
        elif not since:
            return None
        text = (
            f"none of the last {since} evaluations is better than the {number(values[best])} of step "
            f"{int(steps[best])} by more than {share(delta)}, and the training loss stands at "
            f"{number(trains[-1])}"
        )
        evidence = {"best_eval": values[best], "best_step": float(steps[best])}
        evidence |= {"eval": values[-1], "train": trains[-1]}
        return Seen(text, evidence, int(steps[best]))

    def _is_over(self, of_run: str, since: float, run: RunFacts) -> bool:
        """Return whether the schedule of the learning rate has come to its end."""
        rate, largest = run.rate(of_run), run.largest_rate(of_run)
        if rate is None or largest is None:
            return False
        return rate <= TINY_RATE or (rate < 0.01 * largest and not run.rescheduled(of_run, since))


class ClassImbalance(AcrossSeries):
    """Adds up the counts of labels logged as ``labels/CLASS``.

    Formula: most frequent / rarest class > ratio, once so many labels were counted; a class never seen
        counts as 1
    Fires: at the first count after 500 labels
    Chance: none from noise: a factor of 10 among 500 labels
    Source: SageMaker Debugger ClassImbalance (10, 500 samples)
    """

    id = "class-imbalance"
    title = "Class imbalance"
    severity = "low"
    fewest = "500 labels"
    roles = ("labels",)
    defaults = thresholds(ratio=10, labels=500)
    action = (
        "weight the loss or the sampler by class, report metrics per class, collect more of the rare ones"
    )

    def see_all(self, known: Known, run: RunFacts) -> dict[Stream, Seen]:
        counts: dict[str | None, float] = {}
        for other in run.beside(known, "labels"):
            seen = np.maximum(other.facts.curve[1], 0.0).sum() * other.facts.width
            counts[other.stream.layer] = counts.get(other.stream.layer, 0.0) + float(seen)
        total = sum(counts.values())
        if total < self.limits["labels"] or len(counts) < 2:
            return {}
        self.judged()
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        ratio = counts[most] / max(counts[least], 1.0)
        if ratio <= self.limits["ratio"] * (0.8 if known.stream in self.holding else 1.0):
            return {}
        text = (
            f"class {most} is {number(ratio)} times as frequent as class {least}: {counts[most]:,.0f} and "
            f"{counts[least]:,.0f} of {total:,.0f} labels"
        )
        values = {"ratio": ratio, "most": counts[most], "least": counts[least], "labels": total}
        return {known.stream: Seen(text, values, known.facts.first_step)}


class Evaluations(NamedTuple):
    """Evaluations, from the first one on before which something was trained.

    Attributes:
        trains: Mean training loss since the evaluation before, for each.
    """

    steps: NDArray[np.int64]
    walls: Floats
    values: Floats
    trains: Floats


def with_training(training: Known, evaluated: Facts) -> Evaluations:
    """Return evaluations with the training loss between them."""
    steps, values = evaluated.curve
    ends = np.searchsorted(training.facts.walls, evaluated.walls, side="right")
    totals = np.concatenate([[0.0], np.cumsum(training.facts.curve[1])])[ends]
    counts = np.diff(ends, prepend=0)
    # Evaluations between which nothing was trained have the same training loss.
    trained = np.flatnonzero(counts)
    means = np.diff(totals, prepend=0.0)[trained] / counts[trained]
    begin = int(trained[0]) if len(trained) else len(ends)
    trains = means[np.searchsorted(trained, np.arange(begin, len(ends)), side="right") - 1]
    return Evaluations(steps[begin:], evaluated.walls[begin:], values[begin:], trains)


ROWS = (
    EvaluationCollapsed,
    EvaluationUnlike,
    RepeatedBatch,
    ConstantOutput,
    WorseThanBest,
    WorseThanConstant,
    EvaluationUnsteady,
    UnitChanged,
    SeriesStopped,
    Overfitting,
    Overtraining,
    ClassImbalance,
)
