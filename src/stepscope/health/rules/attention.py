"""attention-logits and attention-entropy: attention that grows without bound, or looks at one key alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.gate import AlarmGate
from stepscope.health.rule import At, PerStream, Rule, StreamWatch, Threshold, finite, thresholds
from stepscope.health.series import Stream
from stepscope.names.roles import ROLES
from stepscope.text import number


class AttentionLogits(PerStream):
    """Compares the largest logit of a layer with a fixed limit and with its first values.

    In bfloat16, numbers above 1,000 are 4 or more apart, so that the softmax no longer tells keys apart.
    """

    id = "attention-logits"
    title = "Attention logits grow"
    formula = (
        "largest logit of a layer > limit and > growth * its median over the first 5 samples, samples times "
        "in a row"
    )
    source = (
        "Wortsman et al. 2023 (arXiv 2309.14322: runs diverge as logits pass 1e4), Dehghani et al. 2023 "
        "(arXiv 2302.05442), Kimi K2 (arXiv 2507.20534: unstable beyond 1,000)"
    )
    window = "at the fifth such sample, from the tenth on"
    chance = "none from noise of less than a factor of 10: 5 samples in a row"
    fewest = "10 samples"
    grouped = in_a_row = True
    roles = ("attention_logit",)
    defaults = thresholds(limit=1000, growth=10, first=5, samples=5, calm=5)
    action = (
        "normalize queries and keys (QK-norm) or clip their weights (QK-Clip), lower the learning rate of "
        "their projections, compute the softmax in float32"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        return _Growing(self, stream)


class _Growing(StreamWatch):
    """Learns the level of the first samples, then compares."""

    def __init__(self, rule: Rule, stream: Stream) -> None:
        self._rule, self._stream = rule, stream
        self._first: list[float] = []
        self._level = 0.0
        limits = rule.limits
        self._gate = AlarmGate(opens=int(limits["samples"]), closes=int(limits["calm"]))
        self._steps: list[int] = []
        self._left = int(limits["samples"])

    def take(self, chunk: Chunk) -> None:
        """Judge points."""
        chunk, limits = finite(chunk), self._rule.limits
        for index, value in enumerate(chunk.values.tolist()):
            if len(self._first) < limits["first"]:
                self._first.append(value)
                self._level = max(sorted(self._first)[len(self._first) // 2], 0.0)
                continue
            self._left -= 1
            if self._left <= 0:
                self._rule.judged()
            self._steps = [*self._steps, int(chunk.steps[index])][-self._gate.opens :]
            bad = value > limits["limit"] and value > limits["growth"] * self._level
            change = self._gate.see(bad)
            at = At.row(chunk, index, min(self._steps))
            if change == "close":
                self._rule.close(at)
            elif change == "open":
                text = (
                    f"the largest attention logit of {self._stream.layer} is {number(value)}; "
                    f"it began at {number(self._level)}"
                )
                self._rule.open(at, text, {"logit": value, "began": self._level})


class AttentionEntropy(PerStream):
    """Looks for layers in which all heads have come to attend to one key, while the loss does not fall."""

    id = "attention-entropy"
    title = "Attention collapses"
    formula = (
        "mean entropy of a layer, over that of uniform attention, < ratio samples times in a row; it was > "
        "began in the first sample, and the training loss has not fallen since, or has risen since the "
        "collapse: attention that is sharp because the model has learnt is not a fault"
    )
    source = (
        "Zhai et al. 2023 (arXiv 2303.06296): entropy collapses as training becomes unstable; limits: ours"
    )
    window = "at the fifth such sample"
    chance = "none from noise: 5 samples in a row, and the loss as in loss-not-decreasing (3 standard errors)"
    fewest = "5 samples and a training loss"
    grouped = in_a_row = True
    roles = ("attention_entropy", "loss")
    needs = ("attention_entropy", "loss")
    defaults = thresholds(ratio=0.02, began=0.2, samples=5, calm=5)
    action = (
        "normalize queries and keys, lower the learning rate or warm it up for longer, use sigma "
        "reparametrization; compare attention/LAYER/logit_max"
    )

    def look(self, batch: StreamBatch) -> None:
        """Judge entropies; the context knows losses."""
        super().look(StreamBatch(list(batch.of(("attention_entropy",)))))

    @property
    def missing(self) -> str | None:
        """Without a loss nothing says whether sharp attention is learnt or collapsed."""
        lacking = [role for role in self.needs if role not in self._seen]
        return "not recorded: " + "; ".join(ROLES[role] for role in lacking) if lacking else super().missing

    def watch(self, stream: Stream) -> StreamWatch:
        limits: Mapping[str, float] = self.limits
        return _Collapsing(
            self,
            lambda values: values < limits["ratio"],
            lambda value: (
                f"attention of {stream.layer} has {value:.1%} of the entropy of uniform attention: "
                "nearly every query attends to one key"
            ),
            name="entropy_ratio",
            gate=AlarmGate(opens=self.limit("samples"), closes=self.limit("calm")),
        )


class _Collapsing(Threshold):
    """Checks how it began, and whether the model learns all the same."""

    _good = -inf
    """When attention was last not collapsed."""

    def take(self, chunk: Chunk) -> None:
        """Judge points."""
        self._chunk = chunk
        super().take(chunk)
        self._good = self._last_good(inf)

    def _last_good(self, until: float) -> float:
        good = (self._chunk.values >= self.rule.limits["ratio"]) & (self._chunk.walls < until)
        return float(self._chunk.walls[good][-1]) if good.any() else self._good

    def excused(self, at: At) -> bool:
        """Return whether it was so at first, or the loss has fallen and has not risen since it collapsed."""
        context, run = self.rule.context, at.stream.run
        if self.first <= self.rule.limits["began"] or not context.trains(run, at.wall):
            return True
        learns = context.learns(run, self.began, at.wall)
        return learns and not context.rises(run, self._last_good(at.wall), at.wall)
