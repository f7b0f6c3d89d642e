"""nonfinite-loss, -gradient, -activation, -series: a value is NaN or infinite."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

import numpy as np

from stepscope.health.batch import Chunk, Point, StreamBatch
from stepscope.health.finding import Finding, Severity
from stepscope.health.gate import AlarmGate
from stepscope.health.rule import CLIPPED, At, Rule, thresholds, with_also
from stepscope.health.series import Stream
from stepscope.names.roles import MODEL_INPUT, ROLES
from stepscope.text import number

OF_A_RANK = ("loss", "part_loss", "rank_loss")
"""Facts that each rank records of itself."""
COUNTS = ("gradient_nonfinite", "activation_nonfinite")
BESIDE = "beside"
_POWER = re.compile(r"perplexity|(?:^|[/_\-. ])ppl(?:$|[/_\-. ])", re.IGNORECASE)
"""Names of powers of losses."""


class NonFinite(Rule):
    """Opens at the first value that is not finite; names the first series, layer and rank that had one.

    One finding at a time: once a NaN has spread to every layer and rank, only the first is useful.
    """

    severity: ClassVar[Severity] = "high"
    formula = "a value is NaN or infinite, or a count of such values is above 0"
    source = "SageMaker Debugger ExplodingTensor"
    window = "at the first such value"
    chance = "none: it reports what was recorded"
    fewest = "1 point"
    what: ClassVar[str]
    in_a_row = True
    defaults = thresholds(opens=1, calm=100)

    def __init__(self, limits: dict[str, float] | None = None) -> None:
        super().__init__(limits)
        self._gates: dict[Stream, AlarmGate] = {}
        self._bad: set[Stream] = set()
        self._home: Stream | None = None
        self._good: dict[Stream, float] = {}
        self._ranks: set[int | None] = set()
        self._heard: dict[int, int] = {}
        """Newest step of each rank that records its own losses."""

    def look(self, batch: StreamBatch) -> None:
        """Find the first bad point; while all is well this is one look at each column."""
        self.judged_by(batch)
        chunks = batch.of(self.roles)
        if self._is_calm() and not any(map(self._suspect, chunks)):
            for chunk in chunks:
                self._good[chunk.stream] = float(chunk.values[-1])
                self._hear(chunk.stream, int(chunk.steps.max()))
                self._gate(chunk.stream).run(np.zeros(len(chunk), bool))
            return
        for point in batch.points(self.roles):
            self._point(point)

    def _is_calm(self) -> bool:
        """Return whether no series waits for good values."""
        return not self._bad

    def judged_by(self, batch: StreamBatch) -> None:
        """Note that there was something to look at."""
        if self._seen:
            self.judged()

    def _suspect(self, chunk: Chunk) -> bool:
        bad = ~np.isfinite(chunk.values)
        return bool((bad | (chunk.values > 0)).any() if chunk.stream.role in COUNTS else bad.any())

    def _gate(self, stream: Stream) -> AlarmGate:
        gate = self._gates.get(stream)
        if gate is None:
            gate = AlarmGate(opens=self.limit("opens"), closes=self.limit("calm"))
            self._gates[stream] = gate
        return gate

    def _point(self, point: Point) -> None:
        stream, step, value, wall = point
        self._hear(stream, step)
        is_count = stream.role in COUNTS
        bad = not np.isfinite(value) or (is_count and value > 0)
        if not bad:
            self._good[stream] = value
        gate = self._gate(stream)
        change = gate.see(bad, step)
        at = At(stream, step, wall, min(step, gate.since) if change == "open" else step)
        if change == "open":
            if not self._bad:
                self._tell(at, value, is_count)
            self._bad.add(stream)
        if bad and self._bad and stream is not self._home:
            self._before(at, value)
        elif change == "close":
            self._bad.discard(stream)
            if not self._bad and self._home is not None:
                self.close(At(self._home, step, wall, step))
        if self._bad and stream.role in OF_A_RANK:
            self._others_have_come()

    def _hear(self, stream: Stream, step: int) -> None:
        if stream.rank is not None and stream.role in OF_A_RANK:
            self._heard[stream.rank] = max(step, self._heard.get(stream.rank, step))

    def _on(self, rank: int | None, step: int) -> str:
        """Return which rank had it; as the first one only if the others have reported that step."""
        others = [newest for other, newest in self._heard.items() if other != rank]
        known = bool(others) and min(others) >= step
        return f", {'first ' * known}on rank {rank}"

    def _others_have_come(self) -> None:
        """Name a rank as the first once all others have reported the step."""
        place = None if self._home is None else self._open.get((self._home, ""))
        if place is None or len(self._ranks) != 1:
            return
        finding = self.found[place]
        (rank,) = self._ranks
        early = f", on rank {rank}"
        if finding.summary.endswith(early) and (on_rank := self._on(rank, finding.step)) != early:
            corrected = replace(finding, summary=finding.summary.removesuffix(early) + on_rank)
            self.found[place] = corrected
            self.changed.append(corrected)

    def _named(self, stream: Stream) -> str:
        """Return the content of a series, in words."""
        if stream.layer == MODEL_INPUT:
            return "the model's input"
        return f"{self.what} of {stream.layer}" if stream.layer else self.what

    def _tell(self, at: At, value: float, is_count: bool) -> None:
        stream = at.stream
        self._home = stream
        what = self._named(stream)
        # Gradients and activations are of all ranks together, whoever records them.
        own = stream.rank is not None and stream.role in OF_A_RANK
        self._ranks = {stream.rank} if own else set()
        rank = self._on(stream.rank, at.step) if own else ""
        text = _counted(value, what) if is_count else f"{what} is {worded(value)}"
        values = {"value": value}
        if stream in self._good and not is_count:
            values["last_finite"] = self._good[stream]
        self.open(at, f"{text} at step {at.step}{rank}", values)

    def _before(self, at: At, value: float) -> None:
        """Correct the report if another rank had its bad value at an earlier step, or at the same one.

        Clocks of ranks differ, and a collective spreads the value everywhere one step later: steps count.
        """
        stream = at.stream
        place = None if self._home is None else self._open.get((self._home, ""))
        if place is None or not self._ranks or stream.rank is None or stream.role not in OF_A_RANK:
            return
        finding = self.found[place]
        if at.step > finding.step or (at.step == finding.step and stream.rank in self._ranks):
            return
        text = f"{self._named(stream)} is {worded(value)} at step {at.step}"
        if at.step < finding.step:
            self._ranks = {stream.rank}
            newest = replace(
                finding, rank=stream.rank, tag=stream.tag, summary=text + self._on(stream.rank, at.step)
            )
            first = min(at.step, finding.first_step)
            newest = replace(newest, step=at.step, first_step=first, since_step=first)
        else:
            self._ranks.add(stream.rank)
            ranks = ", ".join(map(str, sorted(rank for rank in self._ranks if rank is not None)))
            newest = replace(finding, rank=None, summary=f"{text}, on the ranks {ranks} at once")
        self.found[place] = newest
        self.changed.append(newest)


def worded(value: float) -> str:
    """Return a value that is not finite in words."""
    return "NaN" if value != value else "infinite" if value > 0 else "minus infinite"


class NonFiniteLoss(NonFinite):
    """The training loss, and others beside it: evaluation losses, parts, perplexities.

    A value that is only recorded beside a training loss does not break the model: a part may have no example
    in a batch, and a perplexity may overflow although its loss does not. That is a finding of its own, unless
    the training loss is not finite either.
    """

    id = "nonfinite-loss"
    title = "Loss is not finite"
    what = "the loss"
    formula = (
        "a value is NaN or infinite; medium for an evaluation loss, a perplexity, and a part next to a "
        "recorded training loss"
    )
    roles = ("loss", "part_loss", "rank_loss")
    applied = dict.fromkeys(CLIPPED, "clip gradients, ")
    action = (
        "load a checkpoint from before this step; lower the learning rate, clip gradients, look for log(0), "
        "division by 0 and bad inputs (PyTorch: torch.autograd.set_detect_anomaly; JAX: jax_debug_nans; "
        "TensorFlow: tf.debugging.enable_check_numerics)"
    )
    action_beside = (
        "as long as the training loss is finite, look at how this value is computed: a mean over no example, "
        "log(0), exp of a large loss, 16-bit numbers, bad inputs of an evaluation; if it has no value at "
        "some steps, do not record it there"
    )

    def __init__(self, limits: dict[str, float] | None = None) -> None:
        super().__init__(limits)
        self._beside: set[Stream] = set()
        self._told: Stream | None = None

    def _is_calm(self) -> bool:
        return super()._is_calm() and not self._beside

    def _named(self, stream: Stream) -> str:
        if stream.role == "part_loss":
            return stream.tag
        return "the evaluation loss" if stream.split == "eval" else super()._named(stream)

    def _point(self, point: Point) -> None:
        stream, step, value, wall = point
        if not self._is_beside(stream, wall):
            super()._point(point)
            return
        if stream in self._bad:  # from before the first training loss
            self._bad.discard(stream)
            if not self._bad and self._home is not None:
                self.close(At(self._home, step, wall, step))
        at = At(stream, step, wall, step)
        change = self._gate(stream).see(not np.isfinite(value), step)
        if change == "open":
            if not self._bad and not self._beside:
                self._told = stream
                text = f"{self._named(stream)} is {worded(value)} at step {step}"
                self.open(
                    at,
                    text,
                    {"value": value},
                    severity="medium",
                    about=BESIDE,
                    action=self.action_beside,
                )
            self._beside.add(stream)
        elif change == "close":
            self._beside.discard(stream)
            if not self._beside and self._told is not None:
                self.close(replace(at, stream=self._told), about=BESIDE)

    def _is_beside(self, stream: Stream, wall: float) -> bool:
        """Return whether a series does not decide the training, as of a time."""
        if stream.role == "part_loss":
            is_power = _POWER.search(stream.tag) is not None
            return is_power or stream.split == "eval" or self.context.trains(stream.run, wall)
        return stream.split == "eval"


class NonFiniteGradient(NonFinite):
    """A gradient. Mixed precision tries scales that overflow: single steps are meant to, and are exempt."""

    id = "nonfinite-gradient"
    title = "Gradient is not finite"
    what = "the gradient"
    roles = ("gradient_norm", "gradient_nonfinite", "layer_gradient", "loss_scale", "clipped_norm")
    formula = (
        "a gradient norm is NaN or infinite, or a count of non-finite gradients is above 0; with a loss "
        "scale, opens_amp times in a row"
    )
    window = "at the first such value; with a loss scale, at the sixth in a row"
    defaults = thresholds(opens=1, opens_amp=6, calm=100)
    applied = dict.fromkeys(CLIPPED, "clip gradients, ")
    action = (
        "look at gradients/LAYER/nonfinite_count, which says in which layer it begins; clip gradients, "
        "lower the learning rate, keep softmax, norms and reductions in float32"
    )

    def look(self, batch: StreamBatch) -> None:
        """Find out whether a loss scale is recorded; point by point, so that portions do not matter."""
        if any(chunk.stream.role == "loss_scale" for chunk in batch.chunks) or "loss_scale" in self._seen:
            for point in batch.points(self.roles):
                if point[0].role == "loss_scale":
                    for gate in self._gates.values():
                        gate.require(self.limit("opens_amp"))
                    self.limits["opens"] = self.limits["opens_amp"]
                else:
                    self._point(point)
            self.judged_by(batch)
        else:
            super().look(batch)

    @property
    def missing(self) -> str | None:
        """A loss scale alone is not a gradient."""
        seen = set(self._seen) - {"loss_scale"}
        return super().missing if seen else "not recorded: " + "the global gradient norm, as gradients/norm"


class NonFiniteActivation(NonFinite):
    """An activation."""

    id = "nonfinite-activation"
    title = "Activation is not finite"
    what = "the activation"
    # Not the standard deviation: that of a single value, as of an expert with one token, is none.
    roles = ("activation_nonfinite", "activation")
    action = (
        "look at the layer in the evidence, the first in the order of computation that had one: its input "
        "scale, its norm, exp and division in it"
    )


_JUDGED_ABOVE = {*NonFiniteLoss.roles, *NonFiniteGradient.roles, *NonFiniteActivation.roles} - {"loss_scale"}


class NonFiniteSeries(Rule):
    """Any other series, whatever its name: metrics, statistics, measured times, a user's own values.

    Once the training loss is not finite, everything else follows, and nonfinite-loss says so. A finding
    therefore waits for the next training loss and is dropped if that is not finite either. Series of one
    severity are one finding.
    """

    id = "nonfinite-series"
    title = "A recorded value is not finite"
    severity = "medium"
    formula = (
        "a value is NaN or infinite while the training loss is finite; medium for a metric and for any value "
        "of an evaluation, else low"
    )
    source = (
        "IEEE 754: each comparison with NaN is false, so that no other rule and no early stopping sees it"
    )
    window = "at the next training loss after the first such value"
    chance = "none: it reports what was recorded"
    fewest = "1 point"
    grouped = in_a_row = True
    defaults = thresholds(opens=1, calm=5)
    roles = tuple(role for role in (*ROLES, "other") if role not in _JUDGED_ABOVE)
    action = (
        "look at how this value is computed: 0/0 (F1 without a positive, a class without an example), a mean "
        "over nothing, log(0), the root of a negative number; early stopping and the choice of the best "
        "checkpoint by this value do not work while it is so; if it has no value at some steps, do not "
        "record it there"
    )

    def __init__(self, limits: dict[str, float] | None = None) -> None:
        super().__init__(limits)
        self._gates: dict[Stream, AlarmGate] = {}
        self._good: dict[Stream, float] = {}
        self._waiting: dict[Stream, tuple[At, float]] = {}
        """Values that are not finite, each until the next training loss."""
        self._opened_for: set[Stream] = set()
        self._trains = self._is_broken = False
        """Whether a training loss is recorded, and whether the last one was not finite."""

    @property
    def missing(self) -> str | None:
        """Any series will do, so none is named."""
        return None if self._seen else "not recorded: a series besides losses, gradients and activations"

    def look(self, batch: StreamBatch) -> None:
        """Look at each column, and point by point if one is not finite or was not."""
        losses = [chunk for chunk in batch.of(("loss",)) if chunk.stream.split != "eval"]
        suspect = [chunk for chunk in batch.of(self.roles) if not self._passes(chunk)]
        calm = not suspect and not self._waiting and not self._is_broken
        if calm and all(np.isfinite(chunk.values).all() for chunk in losses):
            self._trains = self._trains or bool(losses)
            return
        for point in StreamBatch([*suspect, *losses]).points((*self.roles, "loss")):
            if point[0].role == "loss":
                self._loss(point)
            else:
                self._point(point)

    def _passes(self, chunk: Chunk) -> bool:
        """Return whether nothing of a series has to be looked at closely."""
        gate = self._gates.get(chunk.stream)
        bad = ~np.isfinite(chunk.values)
        if bad.any() or (gate is not None and gate.is_open):
            return False
        if gate is not None:
            gate.run(bad)
        self._good[chunk.stream] = float(chunk.values[-1])
        return True

    def _point(self, point: Point) -> None:
        stream, step, value, wall = point
        bad = not np.isfinite(value)
        gate = self._gates.get(stream)
        if gate is None:
            gate = AlarmGate(opens=self.limit("opens"), closes=self.limit("calm"))
            self._gates[stream] = gate
        if not bad:
            self._good[stream] = value
        else:  # it is over once it was finite for as often as it was not
            gate.closes = max(gate.closes, gate.bad + 1)
        change = gate.see(bad, step)
        if bad and gate.is_open and not self._is_broken and stream not in self._opened_for:
            self._opened_for.add(stream)
            self._waiting[stream] = At(stream, step, wall, min(step, gate.since)), value
            if not self._trains:
                self._open_waiting()
        elif change == "close" and stream in self._opened_for:
            self._opened_for.discard(stream)
            if stream in self._waiting:
                self._open_waiting()
            self.close(At(stream, step, wall, step), about=_severity_of(stream))

    def _loss(self, point: Point) -> None:
        self._trains, self._is_broken = True, not np.isfinite(point[2])
        if self._is_broken:
            self._opened_for -= set(self._waiting)
            self._waiting.clear()
        elif self._waiting:
            self._open_waiting()

    def finish(self) -> None:
        """Open the findings that no further training loss explained."""
        self._open_waiting()

    def _open_waiting(self) -> None:
        for stream, (at, value) in self._waiting.items():
            values = {"value": value}
            if stream in self._good:
                values["last_finite"] = self._good[stream] / stream.scale  # as recorded
            text = f"{stream.tag} is {worded(value)} at step {at.step:,}"
            severity = _severity_of(stream)
            self.open(at, text, values, severity=severity, about=severity)
        self._waiting.clear()

    def joined(self, finding: Finding, stream: Stream) -> Finding:
        """Name further series, by their tags: most are of no layer."""
        return finding if stream.tag == finding.tag else with_also(finding, stream.tag)


def _severity_of(stream: Stream) -> Severity:
    return "medium" if stream.role == "metric" or stream.split == "eval" else "low"


def _counted(value: float, what: str) -> str:
    if value == 1:
        return f"1 value of {what} is not finite"
    return f"{number(value)} values of {what} are not finite"
