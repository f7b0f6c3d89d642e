"""Rows on activations, attention and the size of updates: what each layer does, by samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepscope.health.finding import Severity
from stepscope.health.layers import expert_of, is_dense_matrix, is_no_expert, load_of
from stepscope.health.looks import AcrossLayers, InARow, Known, RunFacts, Seen
from stepscope.health.ring import Floats, median
from stepscope.health.rule import thresholds
from stepscope.health.series import Stream
from stepscope.text import number

Bad = NDArray[np.bool_]
STILL = 1e-3
"""Part of the largest update of another expert below which an expert does not move."""


class DeadRelu(InARow):
    """Looks at the share of dead units or, more carefully, at the share of zeros if only that is recorded.

    Half of the values after a ReLU are 0 in a healthy layer, and more in a sparse one.

    Formula: share of units that were 0 in a whole window > dead, samples times in a row; or share of zero
        activations > zeros, twice as many times in a row; high above 99 %
    Fires: at the fifth sample of dead units, at the tenth of zeros, or within a quarter of the samples so
        far
    Chance: none from noise: a unit counts as dead only if it was 0 in a whole window of samples
    Source: SageMaker Debugger DeadRelu (50 % of a layer), torchmortem
    """

    id = "dead-relu"
    title = "Dead units"
    explains = ("gradient-stopped",)
    fewest = "5 samples of dead units or 10 of zeros"
    roles = ("dead", "zeros")
    defaults = thresholds(dead=0.5, zeros=0.9, samples=5)
    action = (
        "lower the learning rate (one large step can kill a layer), initialize biases at 0, take leaky "
        "ReLU or GELU"
    )
    name = "{}_ratio"
    judges = (is_no_expert,)

    def samples(self, known: Known) -> int:
        return self.limit("samples") * (2 if known.stream.role == "zeros" else 1)

    def bad(self, known: Known, values: Floats) -> Bad:
        return values > self.limits[known.stream.role]

    def sentence(self, known: Known, value: float) -> str:
        dead = known.stream.role == "dead"
        what = f"units of layer {known.stream.layer} are dead"
        return f"{value:.0%} of the {what if dead else f'activations of layer {known.stream.layer} are 0'}"

    def rank(self, value: float) -> Severity | None:
        return "high" if value > 0.99 else "medium"


class SaturatedActivation(InARow):
    """Looks at the recorded share of saturated values.

    Formula: share of saturated values of a layer > ratio, samples times in a row; not if it began below
        half of that and the training loss has fallen since: a confident output is not a fault
    Fires: at the fifth such sample, or within a quarter of the samples so far
    Chance: none from noise: 5 samples in a row
    Source: SageMaker Debugger SaturatedActivation (50 % of a layer)
    """

    id = "saturated-activation"
    title = "Saturated activations"
    fewest = "5 samples"
    roles = ("saturated",)
    defaults = thresholds(ratio=0.5, samples=5)
    action = (
        "normalize inputs and the layer's inputs, initialize with smaller weights, lower the learning rate"
    )
    name = "saturated_ratio"

    def bad(self, known: Known, values: Floats) -> Bad:
        return values > self.limits["ratio"]

    def sentence(self, known: Known, value: float) -> str:
        return f"{value:.0%} of the activations of layer {known.stream.layer} are saturated"

    def excused(self, known: Known, since: int, run: RunFacts) -> bool:
        """Return whether it was not saturated at first, and the loss has fallen since."""
        facts = known.facts
        learns = run.learns(known.stream.run, facts.first_wall)
        return facts.first < 0.5 * self.limits["ratio"] and learns


class UpdateRatio(InARow):
    """Compares ‖Δw‖ / ‖w‖ with a healthy 1e-3; exact zeros are ``unchanged-tensor``'s.

    Formula: ‖Δw‖ / ‖w‖ of a layer > high, or between 0 and low, samples times in a row; not for biases
        and norms
    Fires: at the twentieth such sample, or within a quarter of the samples so far
    Chance: none from noise: 20 samples in a row
    Source: CS231n (1e-3 is healthy), torchmortem, SageMaker Debugger WeightUpdateRatio
    """

    id = "update-ratio"
    title = "Update ratio out of range"
    severity = "low"
    fewest = "20 samples"
    roles = ("update_ratio",)
    defaults = thresholds(low=3e-7, high=0.1, samples=20)
    action = (
        "too large: lower the learning rate of this layer; too small: raise it, or find out why its gradient "
        "is small"
    )
    name = "update_ratio"
    judges = (is_dense_matrix,)

    def bad(self, known: Known, values: Floats) -> Bad:
        return (values > self.limits["high"]) | ((values > 0) & (values < self.limits["low"]))

    def sentence(self, known: Known, value: float) -> str:
        much, limit = ("above", "high") if value > self.limits["high"] else ("below", "low")
        changes = f"a step changes {known.stream.layer} by {number(value)} of its norm"
        return f"{changes}, {much} {number(self.limits[limit])}"


class AttentionLogits(InARow):
    """Compares the largest logit of a layer with a fixed limit and with its first values.

    In bfloat16, numbers above 1,000 are 4 or more apart, so that the softmax no longer tells keys apart.

    Formula: largest logit of a layer > limit and > growth * its median over the first samples, samples
        times in a row after them
    Fires: at the fifth such sample, from the tenth on, or within a quarter of the samples so far
    Chance: none from noise of less than a factor of 10: 5 samples in a row
    Source: Wortsman et al. 2023 (arXiv 2309.14322: runs diverge as logits pass 1e4), Dehghani et al. 2023
        (arXiv 2302.05442), Kimi K2 (arXiv 2507.20534: unstable beyond 1,000)
    """

    id = "attention-logits"
    title = "Attention logits grow"
    fewest = "10 samples"
    roles = ("attention_logit",)
    defaults = thresholds(limit=1000, growth=10, samples=5)
    action = (
        "normalize queries and keys (QK-norm) or clip their weights (QK-Clip), lower the learning rate of "
        "their projections, compute the softmax in float32"
    )
    name = "logit"

    def began(self, known: Known) -> float:
        """Return the level of the first samples."""
        return max(median(known.facts.curve[1][: self.limit("samples")]), 0.0)

    def bad(self, known: Known, values: Floats) -> Bad:
        bad = values > max(self.limits["limit"], self.limits["growth"] * self.began(known))
        bad[: self.limit("samples")] = False
        return bad

    def sentence(self, known: Known, value: float) -> str:
        began = number(self.began(known))
        return f"the largest attention logit of {known.stream.layer} is {number(value)}; it began at {began}"


class AttentionEntropy(InARow):
    """Looks for layers in which all heads have come to attend to one key, while the loss does not fall.

    Formula: mean entropy of a layer, over that of uniform attention, < ratio samples times in a row; it
        was > began at first, and the training loss has not fallen since, or rose after the collapse
    Fires: at the fifth such sample, or within a quarter of the samples so far
    Chance: none from noise: 5 samples in a row, and the loss by 3 standard errors
    Source: Zhai et al. 2023 (arXiv 2303.06296): entropy collapses as training becomes unstable; limits:
        ours
    """

    id = "attention-entropy"
    title = "Attention collapses"
    fewest = "5 samples and a training loss"
    roles = ("attention_entropy", "loss")
    leads = ("attention_entropy",)
    needs = ("attention_entropy", "loss")
    defaults = thresholds(ratio=0.02, began=0.2, samples=5)
    action = (
        "normalize queries and keys, lower the learning rate or warm it up for longer, use sigma "
        "reparametrization; compare attention/LAYER/logit_max"
    )
    name = "entropy_ratio"

    @property
    def missing(self) -> str | None:
        """Without a loss nothing says whether sharp attention is learnt or collapsed."""
        lacking = self._lacking()
        return f"not recorded: {lacking}" if lacking else super().missing

    def bad(self, known: Known, values: Floats) -> Bad:
        return values < self.limits["ratio"]

    def sentence(self, known: Known, value: float) -> str:
        share = f"attention of {known.stream.layer} has {value:.1%} of the entropy of uniform attention"
        return f"{share}: nearly every query attends to one key"

    def excused(self, known: Known, since: int, run: RunFacts) -> bool:
        """Return whether it was so at first, or the loss has fallen and has not risen since it collapsed."""
        of_run, facts = known.stream.run, known.facts
        if facts.first <= self.limits["began"] or not self.context.trains(of_run, known.at.wall):
            return True
        before = float(facts.walls[max(since - 1, 0)])
        return run.learns(of_run, facts.first_wall) and not run.learns(of_run, before, falls=False)


class DeadExperts(AcrossLayers):
    """Compares the experts of each layer by their share of tokens, or else by how far their weights move.

    The share of a fair router is 1 / number of experts.

    Formula: an expert's share of tokens < dead / number of experts, or, where no shares are recorded,
        every update ratio of it <= 1e-3 * the largest of another expert; or a share > overload / number
        of experts (low); samples times in a row
    Fires: at the twentieth such sample, or within a quarter of those so far
    Chance: none from noise: 20 samples in a row
    Source: Switch Transformer (arXiv 2101.03961, load balancing and capacity factor); the limits: ours
    """

    id = "dead-experts"
    title = "Unused or overloaded experts"
    severity = "medium"
    fewest = "20 samples of 2 experts"
    roles = leads = ("expert_load", "update_ratio")
    defaults = thresholds(dead=0.02, overload=4, samples=20)
    action = (
        "raise the weight of the load-balancing loss, add noise to the router or a z-loss, keep the router "
        "in float32, lower its learning rate; restart dead experts from a copy of a used one"
    )
    fewest_layers = 2

    def counts(self, stream: Stream) -> bool:
        return stream.role == "expert_load" or expert_of(stream.layer) is not None

    def bad(self, layers: list[Known], values: Floats, run: RunFacts) -> NDArray[np.bool_]:
        bad = np.zeros(values.shape, np.bool_)
        # Where shares are recorded, updates say nothing more.
        if layers[0].stream.role != "expert_load" and any(run.of(layers[0].stream.run, "expert_load")):
            return bad
        for rows in _groups(layers).values():
            if layers[0].stream.role == "expert_load":
                shares = values[rows] / values[rows].sum(axis=0)
                few = shares * len(rows) < self.limits["dead"]
                bad[rows] = few | (shares * len(rows) > self.limits["overload"])
                continue
            # With momentum the weights of an expert that gets nothing go on moving for a while, ever less.
            experts: dict[str | None, list[int]] = {}
            for row in rows:
                experts.setdefault(expert_of(layers[row].stream.layer), []).append(row)
            moved = np.array([values[parts].max(axis=0) for parts in experts.values()])
            if len(experts) > 1:
                largest = moved.max(axis=0)
                first = [min(parts, key=lambda row: layers[row].stream.tag) for parts in experts.values()]
                bad[first] = (moved <= STILL * largest) & (largest > 0)
        return bad

    def told(self, layers: list[Known], at: int, values: Floats, run: RunFacts) -> Seen:
        stream = layers[at].stream
        if stream.role == "update_ratio":
            what, count = expert_of(stream.layer), self.limit("samples")
            text = f"the weights of {what} hardly moved in {count} samples, those of others did"
            return Seen(text, {"update_ratio": float(values[at])}, 0, about="dead")
        rows = next(rows for rows in _groups(layers).values() if at in rows)
        share = float(values[at] / values[rows].sum())
        dead = share * len(rows) < 1
        layer, expert = load_of(str(stream.layer))
        what = f"{layer} expert {expert}".strip()
        part = f"{'only ' if dead else ''}{share:.2%}" if share > 0 else "none"
        text = f"{what} gets {part} of the tokens"
        return Seen(text, {"share": share}, 0, None if dead else "low", about="dead" if dead else "overload")

    @property
    def missing(self) -> str | None:
        """Updates of a model without experts say nothing."""
        if not self._judged and "expert_load" not in self._seen and not self._first:
            return "not recorded: shares of tokens of the experts, as router/LAYER/load/EXPERT"
        return super().missing


def _groups(layers: list[Known]) -> dict[str, list[int]]:
    """Return the indices of the experts of each layer."""
    groups: dict[str, list[int]] = {}
    for at, known in enumerate(layers):
        layer = str(known.stream.layer)
        of_load = known.stream.role == "expert_load"
        name = load_of(layer)[0] if of_load else str(expert_of(layer)).rpartition(".")[0]
        groups.setdefault(name, []).append(at)
    return groups


ROWS = (DeadRelu, SaturatedActivation, UpdateRatio, AttentionLogits, AttentionEntropy, DeadExperts)
