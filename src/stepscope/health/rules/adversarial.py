"""Rows on trainings in which losses balance each other: adversaries, posteriors, policies."""

from __future__ import annotations

import re
from abc import abstractmethod

import numpy as np

from stepscope.health.facts import CHANCE, Facts
from stepscope.health.kind import kind_of
from stepscope.health.looks import (
    SERIES,
    Known,
    Row,
    RunFacts,
    Seen,
    course,
    given_back,
    improves,
    levels,
    medians_of_three,
    now,
    since_when,
)
from stepscope.health.noise import Floats, curve_noise, rise_chance
from stepscope.health.ring import median
from stepscope.health.rule import thresholds
from stepscope.text import number

STRETCHES = 16
"""Equal stretches of a run, whose medians are compared, and points that make as many: factors that hold for
half of a run are no noise, also where there is one point an epoch."""
ONSET = 0.1
"""Share of a fall below which it has not begun."""


class FellToNothing(Row):
    """A row on a series that is next to nothing in all of the second half of a run."""

    @abstractmethod
    def ceiling(self, known: Known, run: RunFacts) -> float | None:
        """Return the level below which it is next to nothing, None if that is not known."""

    @abstractmethod
    def told(self, known: Known, run: RunFacts) -> tuple[str, dict[str, float]] | None:
        """Return the sentence and its numbers; None if another series excuses it."""

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        own = known.facts
        limit = self.ceiling(known, run) if own.finite >= STRETCHES else None
        if limit is None:
            return None
        self.judged()
        told = self.told(known, run) if (later_half(own) < limit).all() else None
        if told is None:
            return None
        return Seen(*told, since_when(own, lambda values: values < limit))


class DiscriminatorWon(FellToNothing):
    """Compares the two losses of an adversarial training with where they began.

    Formula: in an adversarial training, the medians of one loss are below won * its first values in the
        second half of the run, while another loss has been above lost * its own first ones
    Fires: once it has held for as long as the run before it
    Chance: none from noise: factors of won and lost for half of the run
    Source: Goodfellow 2014 (the generator's gradient vanishes if the discriminator is sure); limits: ours
    """

    id = "discriminator-won"
    title = "One adversary has won"
    severity = "medium"
    fewest = "16 points of two losses that are never negative"
    roles = ("part_loss", "loss")
    splits = ("train", None)
    defaults = thresholds(won=0.01, lost=3)
    action = (
        "slow the winner: a lower learning rate or fewer steps, smoothed labels, noise on its inputs, "
        "dropout; or use a loss whose gradient does not vanish (hinge, Wasserstein with a gradient penalty)"
    )

    def ceiling(self, known: Known, run: RunFacts) -> float | None:
        if "adversarial" not in self.context.kinds or known.facts.least[0] < 0:
            return None
        return self.limits["won"] * known.facts.beginning

    def told(self, known: Known, run: RunFacts) -> tuple[str, dict[str, float]] | None:
        own = known.facts
        for other in run.of(known.stream.run, *self.roles, split="train"):
            facts, later = other.facts, later_half(other.facts)
            rose = len(later) and (later > self.limits["lost"] * facts.beginning).all()
            if facts.least[0] >= 0 and rose:
                text = (
                    f"it fell from {number(own.first)} to {now(own)}, and {other.stream.tag} rose "
                    f"from {number(facts.first)} to {now(facts)}: one network has won"
                )
                return text, {"first": own.first, "level": own.level, "other": facts.level}
        return None


def later_half(facts: Facts) -> Floats:
    """Return the medians of the stretches in the second half of a series; empty if it has too few points."""
    return levels(facts, STRETCHES)[STRETCHES // 2 :]


class PosteriorCollapse(FellToNothing):
    """Compares the divergence of a variational model with its own largest level and with the whole loss.

    Formula: the divergence in the loss of a variational model is below fell * its largest value and below
        share of the training loss, in all of the second half of the run
    Fires: once it has held for as long as the run before it
    Chance: none from noise: both factors for half of the run
    Source: Bowman 2016, arXiv 1511.06349; limits: ours
    """

    id = "posterior-collapse"
    title = "Posterior collapse"
    severity = "medium"
    fewest = "16 points of the divergence and of the training loss"
    roles = ("part_loss", "loss")
    leads = ("part_loss",)
    needs = ("part_loss", "loss")
    splits = ("train", None)
    defaults = thresholds(fell=0.05, share=1e-3)
    action = (
        "raise the weight of the divergence slowly from 0 (KL annealing), lower it, or leave some of it free "
        "(free bits); weaken the decoder if it ignores the latents"
    )

    def ceiling(self, known: Known, run: RunFacts) -> float | None:
        training = run.training_loss(known.stream.run)
        if kind_of(known.stream.tag) != "variational" or training is None or known.facts.least[0] < 0:
            return None
        return min(self.limits["fell"] * known.facts.most[0], self.limits["share"] * training.facts.level)

    def told(self, known: Known, run: RunFacts) -> tuple[str, dict[str, float]] | None:
        own, training = known.facts, run.training_loss(known.stream.run)
        assert training is not None
        text = (
            f"the divergence is {now(own)}, its largest was {number(own.most[0])}, and the loss is "
            f"{now(training.facts)}: the latents carry no information"
        )
        return text, {"level": own.level, "largest": own.most[0], "loss": training.facts.level}


class OutputsCollapsed(FellToNothing):
    """Compares how far the outputs of a model are apart with how far they were when it began.

    Formula: a spread or distance of embeddings or outputs is below fell * its first value in all of the
        second half of the run, or the perplexity of a code book below 1 + fell
    Fires: once it has held for as long as the run before it
    Chance: none from noise: a factor of fell for half of the run
    Source: Chen & He 2021, arXiv 2011.10566 (the spread of a collapsed embedding is 0); the factor: ours
    """

    id = "outputs-collapsed"
    title = "The outputs collapsed"
    severity = "medium"
    fewest = "16 points of a spread of embeddings"
    roles = ("spread",)
    unfit = ("variational",)  # whose posterior gets narrow as it learns
    splits = ("train", None)
    explains = ("worse-than-best",)
    defaults = thresholds(fell=0.1)
    action = (
        "let something keep outputs apart: a stopped gradient or a slow copy in one branch, negatives that "
        "are not all the hardest from the start, a term for their variance; lower the learning rate"
    )

    def ceiling(self, known: Known, run: RunFacts) -> float | None:
        if known.facts.least[0] < 0:
            return None
        least = 1 + self.limits["fell"] if _PERPLEXITY.search(known.stream.tag) else 0.0
        return float(max(self.limits["fell"] * known.facts.first, least))

    def told(self, known: Known, run: RunFacts) -> tuple[str, dict[str, float]] | None:
        own = known.facts
        text = f"it fell from {number(own.first)} to {now(own)}: all inputs get nearly one output"
        if _PERPLEXITY.search(known.stream.tag):
            text = f"it began at {number(own.first)} and is {now(own)}; that of a single code is 1"
        return text, {"first": own.first, "level": own.level}


class EntropyCollapsed(FellToNothing):
    """Compares the entropy of a policy with its beginning, and the return with where it began.

    Formula: the entropy of a policy is below fell * its first value in all of the second half of the run,
        and the returns are not above their first level
    Fires: once it has held for as long as the run before it
    Chance: none from noise: a factor of fell for half of the run
    Source: Ahmed 2019, arXiv 1811.11214; limits: ours
    """

    id = "entropy-collapsed"
    title = "The policy's entropy collapsed"
    severity = "medium"
    fewest = "16 points of the entropy and of a return"
    roles = ("entropy", "reward")
    leads = ("entropy",)
    needs = ("entropy", "reward")
    defaults = thresholds(fell=0.02)
    action = (
        "look at the sign of the entropy's term in the loss: it is subtracted, so that more entropy lowers "
        "the loss; raise its weight, lower the learning rate"
    )

    def ceiling(self, known: Known, run: RunFacts) -> float | None:
        known_rewards = any(reward.facts.finite >= STRETCHES for reward in run.of(known.stream.run, "reward"))
        return self.limits["fell"] * known.facts.first if known.facts.first > 0 and known_rewards else None

    def told(self, known: Known, run: RunFacts) -> tuple[str, dict[str, float]] | None:
        own = known.facts
        rewards = [r.facts for r in run.of(known.stream.run, "reward") if r.facts.finite >= STRETCHES]
        if any(reward.level > float(levels(reward, STRETCHES)[0]) for reward in rewards):
            return None
        text = (
            f"the entropy fell from {number(own.first)} to {now(own)}: the policy hardly "
            f"explores; the return {course(rewards[0].first, rewards[0].level)}"
        )
        return text, {"first": own.first, "level": own.level, "return": rewards[0].level}


class LossRunsAway(Row):
    """Compares one of several losses, which need not all fall, with where they began.

    Formula: the last quarter of a training loss is farther from 0 than all before and factor * the largest
        first value of all; of a single one below 0 than its first, if no score kept half of its gain
    Fires: within a quarter of the points so far
    Chance: none from noise: a factor of factor, for a quarter of the run
    Source: Arjovsky 2017, arXiv 1701.07875 (a critic without a bound); the factor: ours
    """

    id = "loss-runs-away"
    title = "A loss runs away"
    severity = "medium"
    fewest = "16 points of one of several training losses, or of scores beside the only one"
    roles = ("part_loss", "loss")
    beside = ("metric",)
    splits = ("train", None)
    explains = ("loss-part-diverges",)
    defaults = thresholds(factor=1000)
    action = (
        "bound what grows: a clip of weights or a gradient penalty for a critic, a target network for "
        "values, a limit for a weight that is learnt, as that of an entropy; look at the sign of its target"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        own = known.facts
        others = [other.facts for other in run.of(known.stream.run, *self.roles, split="train")]
        alone = len(others) < 2
        if own.finite < STRETCHES or (alone and not self._is_empty(known, run)):
            return None
        self.judged()
        # What is below 0 where no score has kept half of its gain is no likelihood that still gets better.
        factor = 1.0 if alone else self.limits["factor"]
        largest = max(abs(other.first) for other in others)
        heights, quarter = np.abs(levels(own, STRETCHES)), STRETCHES // 4
        if not 0 < max(factor * largest, float(heights[:-quarter].max())) < heights[-quarter:].min():
            return None
        text = f"it began at {number(own.first)} and is {number(own.last)}"
        text += ", while no score of the evaluations kept half of its gain" if alone else ""
        values = {"first": own.first, "level": own.level, "largest_first": largest}
        return Seen(text, values, since_when(own, lambda values: np.abs(values) > largest))

    def _is_empty(self, known: Known, run: RunFacts) -> bool:
        """Return whether a loss is below 0 and all scores of evaluations lost most of their gain."""
        scores = [
            one.facts
            for one in run.of(known.stream.run, "metric", split="eval")
            if one.facts.finite >= STRETCHES and one.stream.lower_is_better is False
        ]
        lost = (2 * (one.most[0] - one.level) > one.most[0] - min(one.first, one.level) > 0 for one in scores)
        return known.facts.level < 0 and bool(scores) and all(lost)


class ReturnCollapsed(Row):
    """Compares the returns of episodes with the best they were for a while.

    Formula: share of its gain that a return gave back, at least lost, times the run's share since, is
        above cost, the gain half of the fall; or it fell to the end; no setting changed since
    Fires: within a quarter of the run; an eighth, if all is lost
    Chance: below 1e-4: two medians must be worse by 5 deviations of them all
    Source: ours; policies that forget: arXiv 1709.06560
    """

    id = "return-collapsed"
    title = "The return collapsed"
    severity = "medium"
    fewest = "64 returns, or 32 of an evaluation"
    explains = ("worse-than-best", "entropy-collapsed")
    roles = ("reward", "setting")
    leads = needs = ("reward",)
    defaults = thresholds(lost=0.5, cost=0.125, noise=5)
    action = (
        "resume from the checkpoint of the best return; look at what jumped first (stepscope changes): a "
        "divergence of the policy asks for a smaller learning rate, fewer epochs on the same rollouts or a "
        "target for it, a value loss for scaled rewards, an old replay buffer for newer samples"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        own = known.facts
        # An evaluation is of several episodes, and of a policy that does not explore.
        evaluates = known.stream.split == "eval"
        if own.finite < (2 if evaluates else 4) * STRETCHES:
            return None
        if improves(own, falls=False):
            self.judged()
        else:
            self.abstain("not judged: the return has not risen")
        medians = levels(own, STRETCHES)
        # The first episodes are few, and of a policy that acts by chance.
        first = float(medians[: STRETCHES // 8].max())
        cost, at = given_back(-medians, -first)
        best, level = float(medians[at]), float(medians[-2:].max())
        # A policy that acts by chance may be better than one that has just begun to learn.
        # Where hardly an episode brings anything, one more is no gain.
        answers = np.unique(own.curve[1])
        one = float(np.diff(answers).min()) if 1 < len(answers) < len(own.curve[1]) / 2 else 0.0
        far = self.limits["noise"] * max(curve_noise(medians), one)
        clear = best - first > max((best - level) / 2, far)
        # Where it got worse and worse for half of the run it is not one that has just begun.
        # One that has just begun falls below one that acts by chance, and then stays there.
        last = median(medians[STRETCHES // 2 : -STRETCHES // 4]) - median(medians[-STRETCHES // 4 :])
        goes_on = self.ended and own.finite >= 8 * STRETCHES and last > (first - level) / 4
        steady = (evaluates or goes_on) and at <= STRETCHES // 2 and rise_chance(-medians[at:]) < CHANCE
        if steady and first - level > far:
            clear, cost = True, 1.0
        if cost <= self.limits["cost"] or best - level < self.limits["lost"] * (best - first) or not clear:
            return None
        steps = own.curve[0]
        best_step = int(steps[(2 * at + 1) * len(steps) // (2 * STRETCHES)])
        falls = (change for change in own.sudden(SERIES) if change.lasts and change.last_step > best_step)
        drop = next((fall for fall in falls if (fall.after or 0.0) < (fall.before or 0.0)), None)
        if drop is None:
            low = np.flatnonzero(medians < best - ONSET * (best - level))
            since = int(steps[int(low[low > at][0]) * len(steps) // STRETCHES])
        else:
            since = drop.first_step
        if any(other.facts.constant_since > best_step for other in run.of(known.stream.run, "setting")):
            return None
        text = f"it is {now(own)}; around step {best_step:,} it was about {number(best)}"
        return Seen(text, {"level": own.level, "best": best, "first": first}, since)


class ReturnUnlike(Row):
    """Compares the returns of evaluations with those of the training.

    Formula: the returns of the training rose, and those of the evaluation gained less than gained of that,
        and are lower than the training's by more than half of it
    Fires: at the eighth evaluation
    Chance: none from noise: the gain of the training is clearer than its noise
    Source: ours
    """

    id = "return-unlike-training"
    title = "The evaluation's return does not follow"
    severity = "medium"
    fewest = "8 returns of an evaluation and 16 of the training"
    roles = ("reward",)
    splits = ("eval",)
    defaults = thresholds(gained=0.1)
    action = (
        "give the evaluation what the policy was trained with: the running statistics of observations "
        "(stable-baselines3: sync_envs_normalization, or load VecNormalize with training=False), the same "
        "wrappers, frames and limits of steps; compare a deterministic policy with one that draws its actions"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        own = known.facts
        if own.finite < STRETCHES // 2:
            return None
        for other in run.of(known.stream.run, "reward", split="train"):
            facts = other.facts
            if facts.finite < STRETCHES or not improves(facts, falls=False):
                continue
            self.judged()
            first = float(levels(facts, STRETCHES)[0])
            gain, best = facts.level - first, float(medians_of_three(own.curve[1]).max())
            if best - own.first < self.limits["gained"] * gain and own.level < facts.level - gain / 2:
                text = (
                    f"it was {number(own.first)} at first and is {now(own)}, while "
                    f"{other.stream.tag} {course(first, facts.level)}"
                )
                values = {"first": own.first, "level": own.level, "train": facts.level}
                return Seen(text, values, own.first_step)
        return None


class ValuesDiverge(Row):
    """Compares estimates of returns with the largest return that an episode had.

    A sound estimate can be larger if episodes are cut off long before the discount makes later rewards small.

    Formula: the estimated values of a policy are above factor * the largest absolute return of an
        episode, and the last quarter above all before
    Fires: within a quarter of the points so far
    Chance: none from noise: a return has no more than all of its rewards
    Source: van Hasselt 2018, arXiv 1812.02648 (values beyond what can be earned); the factor: ours
    """

    id = "values-diverge"
    title = "Values run away"
    severity = "medium"
    fewest = "16 points of an estimate and of a return"
    roles = ("value_estimate", "reward")
    leads = ("value_estimate",)
    needs = ("value_estimate", "reward")
    explains = ("loss-part-diverges", "return-collapsed")
    defaults = thresholds(factor=10)
    action = (
        "learn from a target network that follows slowly, with a discount below 1 and no bootstrap at the "
        "end of an episode; take the smaller of two critics, lower the learning rate; if training multiplies "
        "rewards, record them as they are learnt from"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        own = known.facts
        returns = [
            other for other in run.of(known.stream.run, "reward") if _OF_EPISODE.search(other.stream.tag)
        ]
        if own.finite < STRETCHES or not any(other.facts.finite >= STRETCHES for other in returns):
            return None
        self.judged()
        largest = max(max(-other.facts.least[0], other.facts.most[0]) for other in returns)
        limit, heights = self.limits["factor"] * largest, np.abs(levels(own, STRETCHES))
        if not heights[-STRETCHES // 4 :].min() > max(limit, float(heights[: -STRETCHES // 4].max())):
            return None
        text = f"it is {number(own.last)}, and returns of episodes stayed within ±{number(largest)}"
        values = {"level": own.level, "largest_return": largest}
        return Seen(text, values, since_when(own, lambda values: np.abs(values) > limit))


_PERPLEXITY = re.compile("perplexity", re.IGNORECASE)
_OF_EPISODE = re.compile(r"return|(?:^|[/_])ep(?:isod\w*)?_", re.IGNORECASE)
"""Names of what a whole episode brought; a reward alone may be that of a step."""
ROWS = (
    *(DiscriminatorWon, PosteriorCollapse, OutputsCollapsed, EntropyCollapsed),
    *(LossRunsAway, ReturnCollapsed, ReturnUnlike, ValuesDiverge),
)
