"""nonfinite-loss, -gradient, -activation, -series: a value is NaN or infinite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.finding import Finding, Severity
from stepscope.health.looks import Known, Row, RunFacts, Seen
from stepscope.health.ring import Floats
from stepscope.health.rule import CLIPPED, At, thresholds, with_also
from stepscope.health.series import Stream
from stepscope.names.roles import MODEL_INPUT, ROLES
from stepscope.text import not_finite, number

OF_A_RANK = ("loss", "part_loss", "rank_loss")
"""Facts that each rank records of itself."""
_POWER = re.compile(r"perplexity|(?:^|[/_\-. ])ppl(?:$|[/_\-. ])", re.IGNORECASE)
"""Names of powers of losses."""


class Place(NamedTuple):
    """The finding that several series share.

    Attributes:
        about: Distinguishes findings about one series.
        severity: By default the rule's.
        action: By default the rule's.
        run: Name of the run, and the rank, if those of others have a finding of their own.
    """

    about: str = ""
    severity: Severity | None = None
    action: str | None = None
    run: str = ""
    rank: int | None = None


class Bad(NamedTuple):
    """The fault of one series, and the place at which it was noticed."""

    seen: Seen
    at: At

    @property
    def rank(self) -> int | None:
        """The rank that had a bad value, if that is a fact of its own.

        Gradients and activations are of all ranks together, whoever records them.
        """
        return self.at.stream.rank if self.at.stream.role in OF_A_RANK else None


class NonFinite(Row):
    """Opens at the first value that is not finite; names the first series, layer and rank that had one.

    One finding at a time: once a NaN has spread to every layer and rank, only the first is useful.

    Formula: a value is NaN or infinite, or a count of such values is above 0
    Fires: at the first such value
    Chance: none: it reports what was recorded
    Source: SageMaker Debugger ExplodingTensor
    """

    severity: ClassVar[Severity] = "high"
    fewest = "1 point"
    looks_often = False
    what: ClassVar[str]
    defaults = thresholds(opens=1, calm=100)

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._bad: dict[Stream, tuple[Place, Bad]] = {}
        self._members: dict[Place, set[Stream]] = {}
        self._first: dict[Place, list[Bad]] = {}
        """The evidence of each open finding: of the first series, and of other ranks at the same step."""
        self._told: dict[Place, tuple[Stream, str]] = {}
        """The series under which each finding is open, and its sentence."""
        self._over: dict[Stream, int] = {}
        """Number of the values of a series that were not finite when it was finite again."""

    def place_of(self, known: Known) -> Place:
        """Return the finding that a series shares with others."""
        return Place()

    def is_due(self, place: Place, known: Known, run: RunFacts) -> bool | None:
        """Return whether a finding about a series may open; None if that is not known yet."""
        return True

    def opens(self, stream: Stream, wall: float) -> int:
        """Return how many values in a row it takes."""
        return self.limit("opens")

    def calms(self, bad: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return after how many finite values in a row it is over, by how many were not."""
        return np.full(len(bad), self.limits["calm"])

    def named(self, stream: Stream) -> str:
        """Return the content of a series, in words."""
        if stream.layer == MODEL_INPUT:
            return "the model's input"
        return f"{self.what} of {stream.layer}" if stream.layer else self.what

    def urgent(self, known: Known, values: Floats) -> NDArray[np.bool_] | Literal[False]:
        if known.stream not in self._bad and not known.streak.are_bad(values).any():
            return False
        lengths, bads = known.streak.lengths(values)
        first, last = (-self.opens(known.stream, wall) for wall in (-inf, inf))
        return np.asarray((lengths == first) | (lengths == last) | (lengths == self.calms(bads)))

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        stream, streak = known.stream, known.streak
        opens = self.opens(stream, known.at.wall)
        if streak.longest < opens or streak.bad <= self._over.get(stream, 0):
            return None
        since, wall, value = streak.first
        at = At(stream, since, wall, since)
        if opens > 1:
            at, value = replace(known.at, first_step=since), streak.last
        values = {"value": value}
        if known.facts.finite and not streak.counts:
            values["last_finite"] = known.facts.last / abs(stream.scale)  # as recorded
        what = self.named(stream)
        text = counted_values(value, what) if streak.counts else f"{what} is {not_finite(value)}"
        return Seen(f"{text} at step {at.step:,}", values, since, at=at)

    def judge(self, known: Known, run: RunFacts) -> None:
        """Open the finding that a series shares, correct it, or close it."""
        self.judged()
        stream, place = known.stream, self.place_of(known)
        before, bad = self._bad.get(stream, (place, None))
        if before != place:
            self._leave(known, before)
        if bad is None:
            seen = self.see(known, run)
            if seen is None:
                return
            bad = Bad(seen, seen.at or known.at)
        self._bad[stream] = place, bad
        self._members.setdefault(place, set()).add(stream)
        is_due = self.is_due(place, known, run)
        if is_due is None and self.ended:
            is_due = True
        if is_due:
            self._tell(place, bad, known, run)
        if is_due is not None and known.streak.length >= self.calms(np.array([known.streak.bad]))[0]:
            self._over[stream] = known.streak.bad
            self._leave(known, place)

    def _leave(self, known: Known, place: Place) -> None:
        """Take a series out of a finding, and close that with its last one."""
        del self._bad[known.stream]
        self._members[place].remove(known.stream)
        if not self._members[place] and place in self._told:
            del self._first[place]
            stream, _ = self._told.pop(place)
            self.close(replace(known.at, stream=stream), about=place.about)

    def _tell(self, place: Place, bad: Bad, known: Known, run: RunFacts) -> None:
        """Open a finding, or correct it if another rank had its bad value at an earlier step, or the same.

        Clocks of ranks differ, and a collective spreads the value everywhere one step later: steps count.
        """
        first = self._first.setdefault(place, [bad])
        ranks = sorted(one.rank for one in first if one.rank is not None)
        if bad.rank is not None and ranks:
            since = first[0].seen.since_step
            if bad.seen.since_step < since:
                first[:], ranks = [bad], [bad.rank]
            elif bad.seen.since_step == since and bad.rank not in ranks:
                first.append(bad)
                ranks = sorted([*ranks, bad.rank])
            elif bad.seen.since_step == since and bad.rank == first[0].rank and _names_better(bad, first[0]):
                first[0] = bad
        lead, at = first[0]
        text = lead.text
        if len(ranks) > 1:
            text += f", on the ranks {', '.join(map(str, ranks))} at once"
            at = replace(at, stream=replace(at.stream, rank=None))
        elif ranks:
            text += self._on(ranks[0], lead.since_step, known, run)
        stream, sentence = self._told.get(place, (at.stream, ""))
        if (at.stream, text) != (stream, sentence):
            self._told[place] = at.stream, text
            if (stream, place.about) in self._open:
                self._open[at.stream, place.about] = self._open.pop((stream, place.about))
            about, grade, action, *_ = place
            self.open(at, text, lead.values, grade, about=about, since_step=lead.since_step, action=action)
        number = self._open.get((self._told[place][0], place.about))
        if number is not None:
            self._put(number, self.joined(self.found[number], known.stream))

    def _on(self, rank: int, step: int, known: Known, run: RunFacts) -> str:
        """Return which rank had it; as the first one only if the others have reported that step."""
        newest: dict[int, Known] = {}
        for other in run.of(known.stream.run, *OF_A_RANK):
            of = other.stream.rank
            if of is None or of == rank:
                continue
            if of not in newest or other.facts.last_step > newest[of].facts.last_step:
                newest[of] = other
        late = min(newest.values(), key=lambda other: other.facts.last_step, default=None)
        if late is not None and late.facts.last_step < step:
            run.look_again(known, late)
            late = None
        return f", {'first ' if late is not None else ''}on rank {rank}"

    def joined(self, finding: Finding, stream: Stream) -> Finding:
        """Return the finding: its first series says it all."""
        return finding

    def _renew(self, place: int, newest: Finding) -> None:
        """Correct an open finding; it keeps the time at which it was noticed."""
        before = self.found[place]
        self._put(place, replace(newest, wall=before.wall, number=before.number, causes=before.causes))


def _names_better(bad: Bad, other: Bad) -> bool:
    """Return whether a series has the name that the program gave it, of two that a rank recorded of a loss.

    A rank's own file holds the loss once more; which of the two is read first is chance.
    """
    return bad.at.stream.role != "rank_loss" == other.at.stream.role


def counted_values(value: float, what: str) -> str:
    """Return how many values are not finite in words."""
    if value == 1:
        return f"1 value of {what} is not finite"
    return f"{number(value)} values of {what} are not finite"


class NonFiniteLoss(NonFinite):
    """The training loss, and others beside it: evaluation losses, parts, perplexities.

    A value that is only recorded beside a training loss does not break the model: a part may have no example
    in a batch, and a perplexity may overflow although its loss does not. That is a finding of its own, unless
    the training loss is not finite either.

    Formula: a value is NaN or infinite; medium for an evaluation loss, a perplexity, and a part next to a
        recorded training loss
    """

    id = "nonfinite-loss"
    title = "Loss is not finite"
    what = "the loss"
    explains = ("worse-than-best",)
    roles = OF_A_RANK
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

    def named(self, stream: Stream) -> str:
        if stream.role == "part_loss":
            return stream.tag
        return "the evaluation loss" if stream.split == "eval" else super().named(stream)

    def place_of(self, known: Known) -> Place:
        stream = known.stream
        beside = stream.split == "eval"
        if stream.role == "part_loss" and not beside:
            beside = bool(_POWER.search(stream.tag)) or self.context.trains(stream.run, known.at.wall)
        return Place("beside", "medium", self.action_beside) if beside else Place()

    def is_due(self, place: Place, known: Known, run: RunFacts) -> bool | None:
        return place == Place() or place in self._told or not self._members.get(Place())


class NonFiniteGradient(NonFinite):
    """A gradient. Mixed precision tries scales that overflow: single steps are meant to, and are exempt.

    Formula: a gradient norm is NaN or infinite, or a count of non-finite gradients is above 0; with a
        loss scale, opens_amp times in a row
    Fires: at the first such value; with a loss scale, at the sixth in a row
    """

    id = "nonfinite-gradient"
    title = "Gradient is not finite"
    what = "the gradient"
    roles = ("gradient_norm", "gradient_nonfinite", "layer_gradient", "clipped_norm", "loss_scale")
    leads = roles[:-1]
    needs = ("gradient_norm",)
    defaults = thresholds(opens=1, opens_amp=6, calm=100)
    applied = dict.fromkeys(CLIPPED, "clip gradients, ")
    action = (
        "look at gradients/LAYER/nonfinite_count, which says in which layer it begins; clip gradients, "
        "lower the learning rate, keep softmax, norms and reductions in float32"
    )

    def opens(self, stream: Stream, wall: float) -> int:
        return self.limit("opens_amp" if self.context.records("loss_scale", stream.run, wall) else "opens")


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


_JUDGED_ABOVE = {*NonFiniteLoss.roles, *NonFiniteGradient.leads, *NonFiniteActivation.roles}


class NonFiniteSeries(NonFinite):
    """Any other series, whatever its name: metrics, statistics, measured times, a user's own values.

    Once the training loss is not finite, everything else follows, and nonfinite-loss says so. A finding
    therefore waits for the next training loss and is dropped if that is not finite either. Series of one
    severity are one finding.

    Formula: a value is NaN or infinite while the training loss is finite; medium for a metric and for any
        value of an evaluation, else low
    Fires: at the next training loss after the first such value
    Chance: none: it reports what was recorded
    Source: IEEE 754: each comparison with NaN is false, so that no other rule and no early stopping sees
        it
    """

    id = "nonfinite-series"
    title = "A recorded value is not finite"
    severity = "medium"
    fewest = "1 point"
    defaults = thresholds(opens=1, calm=5)
    leads = tuple(role for role in (*ROLES, "other") if role not in _JUDGED_ABOVE)
    roles = (*leads, "loss")
    action = (
        "look at how this value is computed: 0/0 (F1 without a positive, a class without an example), a mean "
        "over nothing, log(0), the root of a negative number; early stopping and the choice of the best "
        "checkpoint by this value do not work while it is so; if it has no value at some steps, do not "
        "record it there"
    )

    @property
    def missing(self) -> str | None:
        """Any series will do, so none is named."""
        if set(self._seen) - {"loss"}:
            return None
        return "not recorded: a series besides losses, gradients and activations"

    def named(self, stream: Stream) -> str:
        return stream.tag

    def place_of(self, known: Known) -> Place:
        stream = known.stream
        severity: Severity = "medium" if stream.role == "metric" or stream.split == "eval" else "low"
        return Place(severity, severity, None, stream.run, stream.rank)

    def is_due(self, place: Place, known: Known, run: RunFacts) -> bool | None:
        loss = run.training_loss(known.stream.run)
        if loss is None or loss.streak.length < 0:
            return loss is None
        if loss.at.wall > self._bad[known.stream][1].at.wall:
            return True
        run.look_again(known, loss)
        return None

    def calms(self, bad: NDArray[np.int64]) -> NDArray[np.float64]:
        """It is over once it was finite for as often as it was not."""
        return np.maximum(bad, self.limits["calm"])

    def joined(self, finding: Finding, stream: Stream) -> Finding:
        """Return a finding that also names a series by its tag: most are of no layer."""
        return finding if stream.tag == finding.tag else with_also(finding, stream.tag)


ROWS = (NonFiniteLoss, NonFiniteGradient, NonFiniteActivation, NonFiniteSeries)
