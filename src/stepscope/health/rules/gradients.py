"""Rows on gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stepscope.health.finding import Severity
from stepscope.health.layers import expert_of, is_dense_matrix, is_vector
from stepscope.health.looks import (
    AcrossLayers,
    InARow,
    Known,
    Row,
    RunFacts,
    Seen,
    at_steps,
    now,
    since_index,
)
from stepscope.health.ring import Floats, median
from stepscope.health.rule import CLIPPED, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

RECENT, MIN_NORMS = 5, 20
"""Norms whose median is the level now, and those before one is judged."""
ALWAYS, SAMPLES = 0.9, 200
"""Share of clipped steps that counts if nothing says by how much they were clipped, and of how many."""
SETTLED = 10
"""Points without a fall after which a scaler has found its first scale."""
LONGEST = 64
"""Most steps of such a search: halves of 2^64 are none any more."""
HALVES = 2.02
"""Largest factor by which a search lowers the scale in a step, and what single precision adds to it."""
NO_GRADIENT = (
    "find out where the gradient is lost: a loss that is detached from the model (PyTorch: detach, .item(), "
    "no_grad; JAX: stop_gradient), float16 gradients that underflow without a loss scale, units that are all "
    "dead or saturated; if the norm is computed after the gradients were cleared, compute it before"
)


class GradientsNotZeroed(Row):
    """Asks what the run recorded, or how often the norm rises at first: a sum is large and smooth.

    PyTorch's runs look at a gradient as each of the first backward passes begins (``gradients_kept``).

    Formula: the run recorded that no backward pass found zeros; or the norm rose at more than rises of 49
        steps, by less than 50, is above ratio * its start, and the loss lost half its gain
    Fires: within 100 points
    Chance: none if recorded; below 1e-8 else: the noise of single gradients falls as often as it rises
    Source: ours; a sum of t gradients grows with t, and changes by one in t of itself at each step
    """

    id = "gradients-not-zeroed"
    title = "Gradients add up over steps"
    severity = "high"
    fewest = "1 point of the norm if recorded; 50, and a training loss"
    explains = ("exploding-gradient", "overfitting", "loss-not-decreasing", "worse-than-best")
    roles = ("gradient_norm", "loss")
    leads = ("gradient_norm",)
    needs = ("gradient_norm", "loss")
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(ratio=10, rises=0.85)
    action = (
        "set the gradients to zero before each backward pass (PyTorch: optimizer.zero_grad(); TensorFlow and "
        "JAX do so by themselves: look for a sum that is kept over steps); if gradients are accumulated on "
        "purpose, zero them after each update"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, training = known.facts, run.training_loss(known.stream.run)
        if "kept gradients" in self.context.practices:
            self.judged()
            text = "no backward pass of the first updates found gradients of zero: they add up over all steps"
            return Seen(text, {"norm": facts.level}, facts.first_step)
        _, means = facts.curve
        if training is None or len(means) < 50 or facts.broken is not None:
            return None
        self.judged()
        first, level, loss = facts.beginning, facts.level, training.facts
        rises = float((np.diff(means[:50]) > 0).mean())
        worse = loss.level - loss.least[0] > 0.5 * (loss.first - loss.least[0])
        # Of 50 gradients that are alike the sum is 50 times one; what explodes grows by factors.
        explodes = means[49] > 50 * first
        if explodes or level <= self.limits["ratio"] * first or rises <= self.limits["rises"] or not worse:
            return None
        text = (
            f"the gradient norm rose at {rises:.0%} of its first points, from about {number(first)} to "
            f"{now(facts)}: gradients add up. The loss is {now(loss)}, its best was {number(loss.least[0])}"
        )
        values = {"first": first, "norm": level, "rises": rises, "loss": loss.level}
        return Seen(text, values, facts.first_step)


class ExplodingGradient(Row):
    """Compares the median of the last 5 norms with those at the start, so no scale matters.

    The start is the larger of the median of the first 5 and that of the first 100: a model that converges at
    once is not compared with its last norms. Norms that grow while the loss falls mean that the model begins
    to learn.

    Formula: median of the last 5 ‖g‖ > ratio * the larger of the medians of the first 5 and of the first
        100 or half, and the training loss has not fallen since the norms passed a tenth of that limit
    Fires: within 5 points, from the 20th point on, or a quarter of the points so far
    Chance: none from noise of less than a factor of 100
    Source: trainpulse and torchmortem (absolute limits), Megatron-LM (10 * the first 100); relative: ours
    """

    id = "exploding-gradient"
    title = "Exploding gradient"
    severity = "high"
    fewest = "20 points"
    unfit = ("adversarial", "reinforcement")
    roles = ("gradient_norm", "loss")
    leads = needs = ("gradient_norm",)
    keeps_onset = True
    defaults = thresholds(ratio=100)
    applied = dict.fromkeys(CLIPPED, "clip gradients by norm, ")
    action = (
        "clip gradients by norm, lower the learning rate, lengthen the warm-up; in recurrent models "
        "truncate the sequence; look at gradients/LAYER/norm for the layer where it begins"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts = known.stage
        steps, norms = facts.curve
        if len(norms) < MIN_NORMS:
            return None
        self.judged()
        begin = norms[: max(min(-(-100 // facts.width), len(norms) // 2), RECENT)]
        reference = max(median(begin), median(norms[:RECENT]))
        recent, limit = median(norms[-RECENT:]), self.limits["ratio"] * reference
        holds = known.stream in self.holding
        if not 0 < limit * (0.5 if holds else 1.0) < recent:
            return None
        grew = since_index(norms > 0.1 * limit)
        if not holds and run.learns(known.stream.run, float(facts.walls[grew])):
            return None
        text = (
            f"the median of the last {RECENT} gradient norms is {number(recent)}, "
            f"{number(recent / reference)} times the {number(reference)} of the start"
        )
        return Seen(text, {"norm": recent, "reference": reference}, int(steps[grew]))


class Clipping(Row):
    """Compares the gradient norm before clipping with the one after it, over a window of samples.

    Clipping that halves the norm is common and harmless; if it divides the norm by far more at most steps,
    the threshold sets the step, not the gradient.

    Formula: of the last 200 samples, or a quarter of all, more than ratio have ‖g after clipping‖ < ‖g‖ /
        factor; over below calm_ratio; if only the share of clipped steps is recorded, it is > 0.9
    Fires: at the 200th sample, or a quarter of the samples so far
    Chance: none from noise: most steps must lose most of their gradient
    Source: Google deep learning tuning playbook (more than 50 % is extremely aggressive); the factor:
        ours
    """

    id = "clipping"
    title = "Clipping too often"
    severity = "low"
    fewest = "200 samples of the norm before and after clipping"
    roles = ("gradient_norm", "clipped_norm", "clipped")
    leads = ("gradient_norm", "clipped")
    unfit = ("adversarial", "reinforcement", "private")
    keeps_onset = True
    defaults = thresholds(ratio=0.5, calm_ratio=0.4, factor=10)
    action = (
        "clip near the 90th percentile of the unclipped norm, or lower the learning rate: when every step is "
        "clipped, the threshold is the learning rate"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        stream = known.stream
        if stream.role == "clipped":
            (steps, shares), least = known.facts.curve, ALWAYS
            shares = np.clip(shares, 0.0, 1.0)
        else:
            after = run.beside(known, "clipped_norm")
            if not after or run.beside(known, "gradient_norm")[0] is not known:
                return None
            own, norms = known.facts.curve
            theirs, clipped = after[0].facts.curve
            steps, at, there = np.intersect1d(own, theirs, return_indices=True)
            shares, least = (clipped[there] * self.limits["factor"] < norms[at]).astype(float), 0.0
        width = known.facts.width
        count = max(-(-SAMPLES // width), len(shares) // 4)
        if len(shares) < count:
            return None
        self.judged()
        share = float(shares[-count:].mean())
        if share <= max(self.limits["calm_ratio" if stream in self.holding else "ratio"], least):
            return None
        much = "" if least else f" to less than 1/{self.limits['factor']:g} of their norm"
        text = f"{share:.0%} of the last {count * width:,} samples were clipped{much}"
        return Seen(text, {"clipped_ratio": share}, int(steps[-count:][int((shares[-count:] > 0).argmax())]))

    @property
    def missing(self) -> str | None:
        """Both norms are needed."""
        if "clipped" in self._seen or {"gradient_norm", "clipped_norm"} <= set(self._seen):
            return super().missing
        lacks = "before" if "gradient_norm" not in self._seen else "after"
        return f"not recorded: the gradient norm {lacks} clipping"


class LossScale(Row):
    """Follows the loss scale, and the count of skipped steps if that is recorded.

    A scaler begins far too high on purpose, at 2^16 or 2^32, and halves the scale at every step until one
    fits. That search is not a collapse, wherever it ends above 1.

    Formula: scale < 1 or < its largest / fall, once the search at the beginning is over, which at most
        halves it per step; or skipped steps > ratio of the last steps, or of all, without that search
    Fires: where the scale has fallen by a factor of 32 again; for skipped steps within a quarter of all
    Chance: none from single overflows: it takes a factor of 1,024, or a tenth of 100 steps
    Source: torch.amp GradScaler (halves at each overflow); limits of the reference rule set: 10 % of 100
    """

    id = "loss-scale"
    title = "Loss scale collapse"
    severity = "high"
    fewest = "a loss scale"
    roles = ("loss_scale", "skipped")
    keeps_onset = True
    defaults = thresholds(fall=1024, ratio=0.1, steps=100)
    action = (
        "gradients overflow at every scale: find the first non-finite layer, lower the learning rate, keep "
        "that layer in float32, or use bfloat16, which needs no scale"
    )

    def urgent(self, known: Known, values: Floats) -> NDArray[np.bool_] | Literal[False]:
        """Return where the scale has fallen by a further factor of 32."""
        if known.stream.role != "loss_scale":
            return False
        before = known.streak.before(values)
        return np.asarray(np.floor(np.log2(values) / 5) < np.floor(np.log2(before) / 5))

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        self.judged()
        return (self._scale if known.stream.role == "loss_scale" else self._skipped)(known)

    def _scale(self, known: Known) -> Seen | None:
        steps, scales = known.facts.curve_to_newest
        if not len(scales):
            return None
        settled = _settled(steps, scales)
        shrinks = scales[: settled + 1].min() >= 1
        largest = float(scales[settled:].max() if shrinks else scales.max())
        limit = max(largest / self.limits["fall"], min(1.0, largest))
        if not scales[-1] < limit * (16 if known.stream in self.holding else 1):
            return None
        text = f"the loss scale fell to {number(scales[-1])} from {number(largest)}"
        values = {"loss_scale": float(scales[-1]), "largest": largest}
        return Seen(text, values, int(steps[since_index(scales < limit)]))

    def _skipped(self, known: Known) -> Seen | None:
        facts, holds = known.facts, known.stream in self.holding
        steps, counts = facts.curve
        # While a first scale is looked for, every step is skipped.
        searches = (counts - facts.first >= steps - facts.first_step) & (steps - facts.first_step <= LONGEST)
        begin = (
            int(steps[searches.argmin() - 1]) if searches.any() and not searches.all() else facts.first_step
        )
        recent = max(begin, facts.last_step - self.limit("steps"))
        for first in (recent,) if holds else (recent, begin):
            passed = facts.last_step - first
            ratio = (facts.last - float(at_steps(facts, np.array([first]), 1)[0])) / max(passed, 1)
            limit = self.limits["ratio"] * (0.5 if holds else 1.0)
            if passed >= self.limits["steps"] and ratio > limit:
                text = f"{ratio:.0%} of the last {passed} steps were skipped because gradients overflowed"
                values = {"skipped_ratio": ratio, "skipped": facts.last}
                return Seen(text, values, first)
        return None


def _settled(steps: NDArray[np.int64], scales: Floats) -> int:
    """Return the index at which a scaler has found its first scale; until then it at most halves it."""
    same = 0
    for at in range(1, len(scales)):
        apart = min(max(int(steps[at] - steps[at - 1]), 1), LONGEST)
        same = same + 1 if scales[at] == scales[at - 1] else 0
        if same >= SETTLED or not scales[at - 1] / HALVES**apart <= scales[at] <= scales[at - 1]:
            return at - 1
    return len(scales) - 1


class VanishingGradient(AcrossLayers):
    """Compares each layer's gradient norm with the largest of the same step, so no scale matters.

    The gradient of a layer that is exactly 0 does not count as vanishing: ``unchanged-tensor`` looks at
    those. If update ratios are recorded, a layer that moves all the same, as with Adam, is not reported. The
    norm of the whole gradient must not be 0 while there is a loss that does not fall.

    Formula: 0 < ‖g_layer‖ / max over layers ‖g‖ < ratio and update ratio < update, samples times in a
        row, in 3 layers or more; or (high) the whole gradient became 0 for 4 * samples, and the training
        loss, not 0, does not fall
    Fires: at the tenth such sample, for a whole gradient of 0 at the fortieth, or a quarter later
    Chance: none from noise: 10 samples in a row
    Source: AUTOTRAINER (first to last layer), torchmortem (spread of norms); scale-free and with updates:
        ours
    """

    id = "vanishing-gradient"
    title = "Vanishing gradient"
    fewest = "10 samples of 3 layers"
    roles = ("layer_gradient", "update_ratio", "gradient_norm")
    leads = ("layer_gradient", "gradient_norm")
    needs = ("layer_gradient",)
    beside = ("loss",)
    defaults = thresholds(ratio=1e-5, update=1e-6, samples=10)
    action = (
        "use ReLU or GELU instead of sigmoid and tanh, residual connections or normalization, and He or "
        "Glorot initialization; look at activations/ of the layers above it"
    )
    fewest_layers = 3

    def counts(self, stream: Stream) -> bool:
        return stream.role == "layer_gradient" and not is_vector(stream.layer)

    def is_led_by(self, stream: Stream) -> bool:
        """Return whether it judges a series: the first of the layers, or the norm of the whole gradient."""
        return stream.role == "gradient_norm" or super().is_led_by(stream)

    def judge(self, known: Known, run: RunFacts) -> None:
        """Judge the layers together, and the norm of the whole gradient by itself."""
        if known.stream.role == "gradient_norm":
            self.tell(known, self._whole(known, run))
        else:
            super().judge(known, run)

    def bad(self, layers: list[Known], values: Floats, run: RunFacts) -> NDArray[np.bool_]:
        updates = self._updates(layers[0], run)
        moves = [updates.get(layer.stream.layer, 0.0) >= self.limits["update"] for layer in layers]
        small = (values > 0) & (values < self.limits["ratio"] * values.max(axis=0))
        return np.asarray(small & ~np.array(moves)[:, None])

    def told(self, layers: list[Known], at: int, values: Floats, run: RunFacts) -> Seen:
        largest, name = float(values.max()), layers[at].stream.layer
        update = self._updates(layers[at], run).get(name)
        evidence = {"norm": float(values[at]), "largest_norm": largest, "ratio": float(values[at]) / largest}
        text = f"the gradient of layer {name} is {number(evidence['ratio'])} of the largest layer's"
        if update is not None:
            return Seen(text, {**evidence, "update_ratio": update}, 0)
        text = f"{text}; update ratios, which would tell whether it learns, are not recorded"
        return Seen(text, evidence, 0)

    @staticmethod
    def _updates(known: Known, run: RunFacts) -> dict[str | None, float]:
        """Return the newest update ratio of each layer."""
        return {other.stream.layer: other.facts.last for other in run.beside(known, "update_ratio")}

    def _whole(self, known: Known, run: RunFacts) -> Seen | None:
        """Look at the norm of the whole gradient; ``loss-not-decreasing`` judges one that was always 0."""
        facts, context, of_run, now = known.facts, self.context, known.stream.run, known.at.wall
        steps, _ = facts.curve
        zeros = int((steps >= facts.constant_since).sum()) * facts.width
        if facts.last != 0 or not facts.most[0] > 0:
            return None
        if known.stream not in self.holding:
            since = float(facts.walls[np.searchsorted(steps, facts.constant_since) :][:1].sum())
            few = zeros < 4 * self.limit("samples") or context.unfit(("adversarial", "reinforcement"), now)
            is_zero = all(one.facts.last == 0 for one in run.of(of_run, "loss", split="train"))
            if few or is_zero or not run.stands(of_run, since):
                return None
        text = f"the norm of the whole gradient has been 0 for {zeros:,} points: nothing is learnt"
        return Seen(text, {"norm": facts.last}, facts.constant_since, "high", NO_GRADIENT)


class UpdateScale(AcrossLayers):
    """Compares the operator norms of the layers' updates, which should be equal according to µP.

    It reports a layer's update ratio and the one that µP expects: the median update of all layers over the
    layer's own weights, both in that norm.

    Formula: ‖Δw‖ of a layer > factor * the median of all layers, or 0 < ‖Δw‖ < the median / factor, in
        the operator norm between root mean squares, samples times in a row; in four layers or more, not
        in experts
    Fires: at the tenth such sample, or within a quarter of those so far
    Chance: none from noise of less than a factor of 100: 10 samples in a row
    Source: Yang, Simon and Bernstein 2023 (arXiv 2310.17813, condition 1: the same for all layers), µP:
        Yang et al. 2022 (arXiv 2203.03466); the factor: ours
    """

    id = "update-scale"
    title = "Layers learn at different scales"
    severity = "info"
    fewest = "10 samples of 4 layers"
    roles = ("update_operator", "weight_operator")
    leads = ("update_operator",)
    needs = ("update_operator",)
    defaults = thresholds(factor=100, samples=10)
    action = (
        "give the layer a learning rate of its own, as µP does: with Adam 1 / inputs for hidden matrices and "
        "the output; or leave it, where the model is not meant to keep its learning rate at another width"
    )
    fewest_layers = 4

    def counts(self, stream: Stream) -> bool:
        return stream.role == "update_operator" and expert_of(stream.layer) is None

    def bad(self, layers: list[Known], values: Floats, run: RunFacts) -> NDArray[np.bool_]:
        moved = np.where(values > 0, values, np.nan)
        middle, factor = np.nanmedian(moved, axis=0), self.limits["factor"]
        enough = (values > 0).sum(axis=0) >= self.fewest_layers
        return np.asarray(((moved > factor * middle) | (moved < middle / factor)) & enough)

    def told(self, layers: list[Known], at: int, values: Floats, run: RunFacts) -> Seen:
        stream, value, middle = layers[at].stream, float(values[at]), median(values[values > 0])
        every = run.of(stream.run, "weight_operator")
        weight = next((layer.facts.last for layer in every if layer.stream.layer == stream.layer), None)
        text = sentence(stream.layer, value, middle, weight)
        return Seen(text, {"update": value, "median_update": middle}, 0)


def sentence(layer: str | None, value: float, middle: float, weight: float | None) -> str:
    """Return the report on a layer."""
    times = f"{value / middle:,.0f} times more" if value > middle else f"{middle / value:,.0f} times less"
    if not weight:
        return f"a step moves {layer} {times} than the median layer, in the operator norm"
    ratios = f"by {number(value / weight)} of its weights, where \u00b5P expects {number(middle / weight)}"
    return f"a step moves {layer} {ratios}: {times}"


class GradientStopped(InARow):
    """Looks for gradients of exactly 0 of a layer that trains all the same.

    Decay of weights and momentum move a layer that learns nothing; one that does not move at all is
    ``unchanged-tensor``'s. Where the bias of a layer has a gradient and its matrix has none, the products of
    that gradient and the inputs are all 0, so no example reaches the layer. A layer is known to have one
    matrix and one bias if these are all that its name begins.

    Formula: the gradient of a layer, no bias, norm or expert, is 0 samples times in a row, while its update
        is not and another layer has one; or inputs times, while its bias has one (high: most have none)
    Fires: at the tenth such sample, the third where the bias has a gradient, or within a quarter of the
        samples so far
    Chance: none: a gradient is exactly 0
    Source: ours; an optimizer with decay or momentum moves weights without a gradient
    """

    id = "gradient-stopped"
    title = "No gradient reaches a layer"
    severity = "medium"
    fewest = "10 samples of the layer's gradient, and its update; 3 with its bias's"
    roles = ("layer_gradient", "update_ratio", "update_norm")
    leads = ("layer_gradient",)
    needs = ("layer_gradient",)
    defaults = thresholds(samples=10, inputs=3)
    action = (
        "find out where its gradient is lost: a branch that is no longer taken, units that are all dead, "
        "weights that were shared or replaced (PyTorch: requires_grad, detach, no_grad; JAX: "
        "stop_gradient); if it is kept on purpose, take it out of the optimizer, whose decay shrinks it"
    )
    name = "gradient"
    judges = (is_dense_matrix,)

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._parts: dict[tuple[str, int | None], dict[str, list[Known]]] = {}
        """Of each run and rank, the gradients of all parameters whose names begin with a text."""

    def bad(self, known: Known, values: Floats) -> NDArray[np.bool_]:
        return values <= 0

    def sentence(self, known: Known, value: float) -> str:
        had = known.facts.most[0] > 0
        return (
            f"layer {known.stream.layer} has no gradient{' any more' if had else ''}, but its weights change"
        )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        unfed = self._unfed(known, run)
        if unfed is not None:
            return unfed
        seen = super().see(known, run)
        if seen is None:
            return None
        moves = any(
            other.stream.layer == known.stream.layer and other.facts.last > 0
            for other in run.beside(known, "update_ratio", "update_norm")
        )
        others = any(other.facts.last > 0 for other in run.of(known.stream.run, "layer_gradient"))
        return seen if moves and others else None

    def _bias(self, known: Known, run: RunFacts) -> Known | None:
        """Return the gradient of the bias of a layer that is one matrix and one bias; None for others."""
        stream = known.stream
        parts = self._parts.setdefault((stream.run, stream.rank), {})
        begin = next(reversed(_beginnings(stream.layer)), None)
        if begin is None:
            return None
        if begin not in parts:  # all layers at once: each is asked for at each look
            parts.clear()
            for one in run.beside(known, "layer_gradient"):
                for other in _beginnings(one.stream.layer):
                    parts.setdefault(other, []).append(one)
        bias = [one for one in parts[begin] if is_vector((one.stream.layer or "").removeprefix(begin))]
        return bias[0] if len(parts[begin]) == 2 and len(bias) == 1 else None

    def _is_bad(self, known: Known, bad: NDArray[np.bool_]) -> bool:
        newest = bad[-self.limit("inputs") :]
        return bool(newest.any() if known.stream in self.holding else newest.all())

    def _unfed(self, known: Known, run: RunFacts) -> Seen | None:
        steps, means = known.facts.curve
        count = self.limit("inputs")
        bad = self.bad(known, means)
        if len(means) < count or (self._judged and not self._is_bad(known, bad)):
            return None
        bias = self._bias(known, run)
        if bias is None:
            return None
        self.judged()
        bad &= at_steps(bias.facts, steps, 1) > 0
        if not self._is_bad(known, bad):
            return None
        name = known.stream.layer
        text = (
            f"the gradient of layer {name} is exactly 0, that of its bias is not: all its inputs are 0, or "
            "their products underflow"
        )
        every = run.beside(known, "layer_gradient")
        still = [one.facts.last <= 0 for one in every if is_dense_matrix(one.stream.layer)]
        severity: Severity = "high" if 2 * sum(still) > len(still) else "medium"
        action = (
            "look at the layer before it: its units are dead, as after too large a step (a lower learning "
            "rate, warm-up, leaky ReLU), or it gives zeros; in 16 bits scale the loss"
        )
        return Seen(text, {self.name: 0.0}, int(steps[since_index(bad)]), severity, action)


def _beginnings(layer: str | None) -> list[str]:
    """Return the modules that a name begins with, the outermost first: ``a.`` and ``a.b.`` of ``a.b.c``."""
    name = layer or ""
    return [name[: at + 1] for at, sign in enumerate(name) if sign in "./"]


ROWS = (
    GradientsNotZeroed,
    ExplodingGradient,
    Clipping,
    LossScale,
    VanishingGradient,
    UpdateScale,
    GradientStopped,
)
