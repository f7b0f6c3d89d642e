"""Measures gradients, weights and updates around an optimizer's step, for a ``GradientHook``.

The moment at which the optimizer uses its gradients is the only one at which they are accumulated, reduced,
unscaled and clipped whatever the trainer. That is the entry of its step, unless the step is given a closure
that computes them, as by Lightning: then it is the end of the closure. Each rank measures its stretch of the
parameters that it holds; ``Rounds`` adds the ranks up on a thread; ``RoundsReport`` finishes and records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.errors import RecordError
from stepscope.integrations.guard import SelfEnding
from stepscope.integrations.torch import clipping, measure
from stepscope.integrations.torch.activations import look_at_inputs
from stepscope.integrations.torch.clipping import ClipCall, Clips, Cut, cuts
from stepscope.integrations.torch.exchange import GroupExchange, running
from stepscope.integrations.torch.ledger import (
    SILENT_STEPS,
    Evaluations,
    Silence,
    closure_in,
    is_nested,
    ledger_of,
    parameters_of,
    with_closure,
)
from stepscope.integrations.torch.noise import OwnGradients, replicated
from stepscope.integrations.torch.norms import Norms
from stepscope.integrations.torch.pace import Pace
from stepscope.integrations.torch.parameters import ParameterShare, TableLayout
from stepscope.integrations.torch.report import RoundsReport
from stepscope.integrations.torch.sample import SamplePlan, StepSample, blocks, part_of
from stepscope.integrations.torch.updates import Joined
from stepscope.integrations.torch.watched import WatchedParameters
from stepscope.kernels.marks import Gate
from stepscope.record import Run
from stepscope.record.statistics import GradientHook
from stepscope.record.statistics.sampling import SamplingBudget
from stepscope.record.statistics.table import COUNT, Array, Round, Rounds, StatisticsTable

NAMED = 4
"""Modules that a statement names."""
THOROUGH = 3
"""Steps that are measured thoroughly after a change of the parameters."""


def attach(
    run: Run,
    model: nn.Module | None,
    optimizers: Mapping[str, Optimizer],
    hook: GradientHook,
    *,
    process_group: Any = None,
    same_model: bool = False,
) -> list[Gradients]:
    """Measure the parameters of optimizers, for a hook. Every rank calls this, once the model is wrapped.

    Args:
        run: The run.
        model: Names the parameters; None if nothing does.
        optimizers: By name; each has global statistics of its own, unless each has a single parameter, as
            with optimizers that step inside backward: these are measured as one.
        hook: Chooses the quantities, the steps and the layers.
        process_group: The ranks that train this model; None for all.
        same_model: Whether the hook measures other parameters of this model already.
    """
    lone = len(optimizers) > 1 and all(
        len(list(parameters_of(optimizer))) <= 1 for optimizer in optimizers.values()
    )
    groups = (
        {"": list(optimizers.values())}
        if lone
        else {name: [optimizer] for name, optimizer in optimizers.items()}
    )
    taken = {name for part in hook.parts if isinstance(part, Gradients) for name in part.names}
    named = () if model is None or same_model else model.named_parameters()
    clash = any(name in taken for name, _ in named)
    prefix = type(model).__name__ if clash else ""
    followers = [
        Gradients(run, hook, model, several, name=name or prefix, prefix=prefix, process_group=process_group)
        for name, several in groups.items()
    ]
    hook.parts.extend(followers)
    return followers


class Gradients(SelfEnding, Gate):
    """The gradients of one optimizer, or of several that make one.

    Args:
        run: The run.
        hook: Chooses the quantities.
        model: Names the parameters.
        optimizers: Whose step is the moment.
        name: Stands between ``gradients`` and the name of a global statistic; "" for nothing.
        prefix: Stands before the parameters' names.
        process_group: The ranks; None for all.
    """

    what = "gradient statistics"

    def __init__(
        self,
        run: Run,
        hook: GradientHook,
        model: nn.Module | None,
        optimizers: Sequence[Optimizer],
        *,
        name: str = "",
        prefix: str = "",
        process_group: Any = None,
    ) -> None:
        self._run, self._hook, self._optimizers = run, hook, tuple(optimizers)
        self._ranks = GroupExchange(process_group) if running() else None
        self._sampling = hook.sampling()
        # Ranks that chose steps by their own times would not measure the same ones.
        every = hook.norm_every_step
        self._norms = self._ranks is None if every is None else every
        self._watched = WatchedParameters(
            model, prefix, self._optimizers, hook.wants, self._ranks, norms=self._norms
        )
        self._rounds = Rounds(self._done, self._ranks, relayout=self._agree_again, failed=self._post)
        ranks = 1 if self._ranks is None else self._ranks.ranks
        self._report = RoundsReport(run, hook, name, ranks, partial(look_at_inputs, run))
        self._own: OwnGradients | None = None
        if hook.noise_scale and self._ranks is not None and replicated(model):
            self._own = OwnGradients([entry.parameter for entry in self._watched.entries])
        self._sample: StepSample | None = None
        self._clips = Clips()
        self._pace, self._budget = Pace(), SamplingBudget(hook, self._sampling)
        self._normed: tuple[Norms, int] | None = None
        self._norm_seconds = self._clip_seconds = 0.0
        self._unclipped: Array | None = None
        self._count = self._short = -1
        self._failures = self._thorough = 0
        self._first_full: int | None = None
        self._said: set[str] = set()
        self._known_names = self.names
        self._lost: dict[str, str] = {}
        self._between: set[str] = set()
        whose = f"optimizer {name}" if name else "" if model is None else type(model).__name__
        self._what = f"gradients of {whose}" if whose else "gradients"
        self._silence = Silence(self._watched.owned, run.current_step or 0)
        Gate.__init__(self, run.step_counter, self._silence, rests=every is None and hook.steps is None)
        self._evaluations: dict[int, tuple[Evaluations, StepSample | None]] = {}
        self._handles: dict[int, Joined] = {}
        for optimizer in self._optimizers:
            self._attach(optimizer)
        clipping.listen(self)
        self.before_step(run.current_step or 0)

    @property
    def names(self) -> list[str]:
        """Names of the parameters that are measured."""
        return self._watched.layout.names

    # --- what the integration calls -----------------------------------------------------------------

    def clipped(self, clip: ClipCall, begun: float) -> None:
        """Note a call that clips, if it is about these parameters."""
        if not clip.parameters.isdisjoint(self._watched.identities):
            self._clips.add(clip)
            self._unclipped = None
            if clip.norm.is_cpu and not isfinite(float(clip.norm)):
                with self._guarded(), torch.no_grad():
                    self._unclipped = self._watched.squares(clip.parameters)
            self._clip_seconds += time.perf_counter() - begun

    def cut(self, gradients: Sequence[Tensor]) -> None:
        """Measure the norm of gradients whose values are about to be clipped."""
        begun = time.perf_counter()
        with self._guarded(), torch.no_grad():
            number = self._run.current_step
            due = self._sampling.ahead(self._count + 1 if number is None else number)
            alone = self._watched.layout.alone
            if not (due or self._norms) or (alone and not self._run.role.writes):
                return
            about = {id(gradient) for gradient in gradients}
            shares = [
                share for share in self._watched.layout.shares if id(share.entry.parameter.grad) in about
            ]
            if shares:
                parts = [(share.row, part_of(share, share.entry.parameter.grad, alone)) for share in shares]
                table = StatisticsTable(len(self._watched.layout.names))
                wait = measure.measure(table, parts, squares_only=True)
                identities = frozenset(id(share.entry.parameter) for share in shares)
                self._clips.add(Cut(identities, tuple(row for row, _ in parts), table, wait))
        self._clip_seconds += time.perf_counter() - begun

    def before_step(self, step: int) -> None:
        """Look at the ranks' own gradients if the step is to be measured."""
        if self._own is not None and not self._own.armed and self._sampling.ahead(step):
            self._own.arm()

    def finish(self, timeout: float) -> None:
        """Record the measurements so far, and stop measuring."""
        last = self._run.current_step
        if last is not None and last - self._silence.last >= SILENT_STEPS and self._silence.since is None:
            self._silence.since = self._silence.last + 1
            if self._run.role.writes:
                self._unmeasured("its optimizer did not step to the end of the run")
        self.remove()
        self._rounds.close(timeout)

    def follow(self, old: Optimizer, new: Optimizer) -> None:
        """Measure another optimizer in place of one that it replaced."""
        if not any(optimizer is old for optimizer in self._optimizers):
            return
        self._take_norm(there=False)
        self._detach(old)
        self._optimizers = tuple(new if optimizer is old else optimizer for optimizer in self._optimizers)
        if self._watched.replace(old, new):
            self._changed()
        self._attach(new)

    def _changed(self) -> None:
        """Measure the next steps thoroughly: new parameters have no series yet, whatever the budget."""
        if self._ranks is None:
            self._thorough, self.awake = THOROUGH, self.measured
            self._note_names()

    def _note_names(self) -> None:
        """State which parameters are not measured any more, and which are again."""
        before, self._known_names = self._known_names, list(self._watched.layout.names)
        parts = [part for part in self._hook.parts if isinstance(part, Gradients)]
        now = {name for part in parts or [self] for name in part.names}
        step = self._run.current_step
        step = self._count + 1 if step is None else step
        lost = [name for name in before if name not in now]
        if lost:
            what = f"gradients of {summary(lost, now)}"
            why = "no watched optimizer has these parameters any more"
            self._run.unmeasured(what, why, step)
            self._lost.update(dict.fromkeys(lost, what))
        for name in [name for name in self._lost if name in now]:
            self._run.measured_again(self._lost.pop(name), step)

    def _is_due(self, number: int) -> bool:
        return self._thorough > 0 or self._sampling.ahead(number)

    def _attach(self, optimizer: Optimizer) -> None:
        self._handles[id(optimizer)] = Joined(self, optimizer)

    def _detach(self, optimizer: Optimizer) -> None:
        joined = self._handles.pop(id(optimizer), None)
        if joined is not None:
            joined.remove()
        self._evaluations.pop(id(optimizer), None)

    def remove(self) -> None:
        """Take the hooks off the optimizers."""
        handles = bool(self._handles)
        for optimizer in self._optimizers:
            self._detach(optimizer)
        if handles:
            clipping.ignore(self)
            self._take_norm(there=False)
            self._close()
            if self._watched.norms is not None:
                self._watched.norms.close()
        if self._own is not None:
            self._own.disarm()

    # --- around the optimizer's step ----------------------------------------------------------------

    def look(self, step: int) -> None:
        """State since when the optimizers have not stepped, after a step of the run."""
        silence = self._silence
        if step - silence.last > SILENT_STEPS and self._run.role.writes and silence.look(step):
            never = self._first_full is None and self._short < 0
            why = "its optimizer has not stepped" + ("" if never else " since")
            self._unmeasured(f"{why}; if another one trains these parameters, watch() that one")

    def _unmeasured(self, why: str) -> None:
        self._run.unmeasured(self._what, why, self._silence.since)

    def _note(self, step: int, gradients: bool) -> None:
        """Note whether a step that was measured had gradients."""
        silence = self._silence
        if silence.measured(step, gradients):
            if self._run.role.writes:
                self._unmeasured(
                    "no parameter of its optimizer has a gradient when it steps: is it the optimizer of the "
                    "model that is trained, and does PyTorch keep the gradients, rather than an engine?"
                )
        elif gradients and silence.since is not None and silence.over():
            self._run.measured_again(self._what, step)

    def before_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        """Measure the gradients, or have them measured by the closure that computes them."""
        begun, current = time.perf_counter(), self.steps.current
        if self.rests and current is not None and current != self.measured:
            self._rest_after(current)
        if (current is None or self._evaluations) and is_nested(optimizer):
            return None
        try:  # a context of any kind would cost more than what is due at most steps
            if self._normed is not None:
                self._take_norm(there=False)
            if self._watched.moved(optimizer) and self._watched.look_for_changes():
                self._changed()
            if kwargs or len(args) > 1:
                closure = closure_in(args, kwargs)
                if closure is not None:
                    return self._before_closure(optimizer, closure, args, kwargs)
            if self._watched.plain and self._measure_shortly(optimizer):
                self._norm_seconds = time.perf_counter() - begun
                if self._normed is None:
                    self._pace.normed(self._norm_seconds)
                return None
        except Exception as error:  # noqa: BLE001  tensors of any kind
            self._failed(error)
            return None
        with self._guarded(), torch.no_grad():
            sample = self._join(optimizer)
            if sample is not None:
                sample.clips.extend(self._clips.take())
                sample.gradients(optimizer, self._shares(optimizer, sample))
                sample.seconds += time.perf_counter() - begun + self._spent_on_clips()
        return None

    def _rest_after(self, number: int) -> None:
        """Rest after a step until the budget has room for the next norm, or a sample is due.

        The first measurement takes longer than later ones, so a rest is at most twice the one before.
        """
        usual, before = self._sampling.next(number), self.awake - self.measured
        self.measured, self.awake = number, usual if self._own is None else usual - 1
        if self._norms:
            distance = self._pace.norm_distance(self._hook.max_overhead)
            self.awake = min(self.awake, number + min(distance, 2 * max(before, 1)))
        if self._thorough:
            self.awake = number

    def _before_closure(
        self, optimizer: Optimizer, closure: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """Read the gradients that a closure computes, and the weights before it if they are due."""
        number = self._run.current_step
        ahead = self._count + 1 if number is None else number
        begun, sample = time.perf_counter(), None
        with torch.no_grad():
            self._forget_evaluations(optimizer)
            if self._is_due(ahead):
                sample = self._join(optimizer)
                if sample is None:
                    return None  # a further step of the optimizer in one step of the run
                sample.weights(optimizer, self._shares(optimizer, sample))
                sample.seconds += time.perf_counter() - begun
            elif number is not None and self._is_measured(optimizer, number):
                return None
        evaluations = Evaluations(optimizer, closure, partial(self._read, optimizer))
        self._evaluations[id(optimizer)] = evaluations, sample
        return with_closure(args, kwargs, evaluations)

    def _is_measured(self, optimizer: Optimizer, number: int) -> bool:
        """Return whether an optimizer's step was measured already in this step of the run."""
        sample = self._sample
        if number == self._short:
            return True
        return (
            sample is not None
            and sample.plan.number == number
            and (sample.closed or id(optimizer) in sample.begun)
        )

    def _forget_evaluations(self, optimizer: Optimizer) -> None:
        """Drop a step of an optimizer that an exception ended."""
        left = self._evaluations.pop(id(optimizer), None)
        if left is not None and left[1] is not None and left[1] is self._sample:
            left[1].closed = True

    def _read(self, optimizer: Optimizer) -> StatisticsTable | StepSample | None:
        """Return the gradients that a closure has computed: their norm alone, or all that is due."""
        evaluations, sample = self._evaluations.get(id(optimizer), (None, None))
        if evaluations is None:
            return None
        begun = time.perf_counter()
        with self._guarded(), torch.no_grad():
            if sample is None and self._watched.plain:
                norms = self._read_shortly(optimizer)
                if norms is not None:
                    self._norm_seconds = time.perf_counter() - begun
                    return norms
            if sample is None:
                sample = self._join(optimizer)
                self._evaluations[id(optimizer)] = evaluations, sample
            if sample is not None:
                reading = sample.reading(optimizer, self._shares(optimizer, sample))
                reading.clips.extend(self._clips.take())
                sample.seconds += time.perf_counter() - begun + self._spent_on_clips()
                return reading
        return None

    def _read_shortly(self, optimizer: Optimizer) -> StatisticsTable | None:
        """Return the norm of the gradients as one row; None if there may be more to the step."""
        if not self._is_short(optimizer):
            return None
        if not (self._norms and self._run.role.writes):
            return StatisticsTable(1)
        norms = self._watched.norms
        if norms is None or getattr(optimizer, "grad_scale", None) is not None or not norms.begin():
            return None
        table = norms.finish()
        if table is None:
            return None
        whole = StatisticsTable(1)
        whole.merge(table)
        return whole

    def _after_closure(self, optimizer: Optimizer) -> bool:
        """Take the readings of the gradients that the step used; return False if there was no closure."""
        left = self._evaluations.get(id(optimizer))
        if left is None:
            return False
        evaluations, sample = left
        used = evaluations.used()
        if not evaluations.count:  # the optimizer did not ask for it: its gradients were there before
            used = self._read(optimizer)
            sample = self._evaluations[id(optimizer)][1]
        del self._evaluations[id(optimizer)]
        if isinstance(used, StatisticsTable):
            number = self._run.current_step
            number = self._count + 1 if number is None else number
            self._note_short(number)
            if self._norms and self._run.role.writes:
                self._note(number, bool(used.moments[0, COUNT]))
            self._report.norm_only(number, used, self._watched.layout, self._watched.squares)
            self._pace.normed(self._norm_seconds)
        elif used is not None and sample is not None:
            sample.absorb(used)
        return True

    def after_update(self, optimizer: Optimizer) -> None:
        """Take the norm that was begun, and measure the updates."""
        opened = self._sample is not None and not self._sample.closed
        if (opened or self._evaluations) and is_nested(optimizer):
            return
        if self._evaluations:
            with self._guarded(), torch.no_grad():
                self._after_closure(optimizer)
        if self._normed is not None:
            begun, reading = time.perf_counter(), self._normed[0].reading_seconds
            with self._guarded():
                self._take_norm()
            self._pace.normed(self._norm_seconds + time.perf_counter() - begun + reading)
        if self._sample is None or self._sample.closed:
            return
        with self._guarded(), torch.no_grad():
            sample = self._sample
            if sample is None or sample.closed or id(optimizer) not in sample.begun:
                return
            begun = time.perf_counter()
            sample.updates(optimizer)
            sample.seconds += time.perf_counter() - begun
            if len(sample.begun) == len(self._optimizers):
                self._close()

    def _spent_on_clips(self) -> float:
        """Return the seconds that noting what was clipped took since the last call."""
        seconds, self._clip_seconds = self._clip_seconds, 0.0
        return seconds

    def _is_short(self, optimizer: Optimizer) -> bool:
        """Return whether no more than the norm is due of a step, as far as is known before its gradients."""
        if self._sample is not None and not self._sample.closed:
            return False
        return not (
            self._clips
            or self._watched.coming is not None
            or self._watched.stale
            or not self._rounds.idle
            or (self._own is not None and self._own.armed)
        )

    def _measure_shortly(self, optimizer: Optimizer) -> bool:
        """Record a step of which only the norm is due; return False if there may be more to it."""
        sample, number = self._sample, self._run.current_step
        if sample is not None and not sample.closed:
            return False
        if number is None:
            number = self._count + 1
        elif number == self._short:
            return True  # several steps of one optimizer in one step of the run: the first one counts
        elif sample is not None and sample.plan.number == number:
            return False
        if not self._is_short(optimizer) or self._is_due(number):
            return False
        if self._norms and self._run.role.writes:
            unscales = getattr(optimizer, "grad_scale", None) is not None
            norms = self._watched.norms
            if norms is None or unscales or not norms.begin():
                return False
            self._normed = norms, number
            if not norms.watches:
                self._take_norm()
        self._note_short(number)
        return True

    def _trained_s(self) -> float:
        """Return a time that passes in steps alone, so that pauses between them buy no measurement."""
        stages = self.steps.stages
        return stages.took_s if stages is not None and self.steps.has_begun else time.perf_counter()

    def _note_short(self, number: int) -> None:
        """Note that the norm alone was due of a step."""
        self._pace.begin(number, self._trained_s())
        self._sample, self._short, self._failures = None, number, 0
        if self._run.current_step is None:
            self._count = number
        self.before_step(number + 1)

    def _take_norm(self, *, there: bool = True) -> None:
        """Record the norm of a step that was begun, if any; its gradients may be gone."""
        if self._normed is None:
            return
        (norms, number), self._normed = self._normed, None
        table = norms.finish()
        if table is not None:
            self._note(number, bool(table.moments[0, COUNT]))
            layers = self._watched.squares if there else lambda: None
            self._report.norm_only(number, table, self._watched.layout, layers)
        else:
            what = f"the norm of the gradient at step {number}, which the optimizer changed as it was read"
            self._tell(what, "further gradients are read before the optimizer's step")

    def _join(self, optimizer: Optimizer) -> StepSample | None:
        """Return the step that an optimizer's step belongs to; None if that was measured already."""
        sample, number, key = self._sample, self._run.current_step, id(optimizer)
        if number is None:
            again = sample is None or sample.closed or key in sample.begun
            number = self._count = self._count + 1 if again or sample is None else sample.plan.number
        if sample is not None and sample.plan.number == number:
            if sample.closed or key in sample.begun:
                return None  # several steps of one optimizer in one step of the run: the first one counts
        else:
            self._close()
            sample = self._sample = self._new(number)
        sample.begun.add(key)
        return sample

    def _new(self, number: int) -> StepSample:
        """Begin a step."""
        self._pace.begin(number, self._trained_s())
        if self._watched.take_coming(number):
            self._note_names()
            for what in self._between:
                self._run.measured_again(what, number)
            self._between.clear()
        if self._watched.stale:
            return self._interim(number)
        full = self._sampling.due(number) or self._thorough > 0
        self._thorough = max(self._thorough - 1, 0)
        if self._rounds.full:
            full = False
            if not self._rounds.over:
                what = "gradient statistics of some steps, as earlier ones still wait for other ranks"
                self._tell(what, "check whether a rank takes fewer optimizer steps than the others")
        histograms = full and self._sampling.histogram_due(number)
        if full:
            if self._first_full is None:
                self._first_full = number
            self._watched.look_for_changes()
            self._look_for_left_out()
        plan = SamplePlan(
            number,
            self._watched.layout,
            self._hook.of,
            full,
            histograms,
            self._chosen(number),
            full or self._norm_due(),
        )
        return StepSample(plan, self._tell)

    def _interim(self, number: int) -> StepSample:
        """Begin a step before the ranks have agreed on the parameters that changed.

        The norm alone is measured, if each rank has all of them; otherwise nothing is.
        """
        watched = self._watched
        if not watched.asked and not self._rounds.full:
            watched.asked = True
            table = StatisticsTable(len(watched.layout.names) * len(blocks(self._hook.of)))
            version = watched.layout.version
            self._rounds.put(Round(number, table, False, version=version, loose=np.zeros(4), relayout=True))
        layout = watched.interim
        what = "gradients" if layout is None else "statistics of the layers' gradients"
        if what not in self._between:
            self._between.add(what)
            why = "the parameters changed, and the ranks agree anew on who measures which"
            self._run.unmeasured(what, why, number)
        if layout is None:
            layout = TableLayout([], np.zeros(0, bool), [])
        due = self._norms and self._run.role.writes and watched.interim is not None
        none = np.zeros(len(layout.names), bool)
        return StepSample(SamplePlan(number, layout, self._hook.of, False, False, none, due), self._tell)

    def _shares(self, optimizer: Optimizer, sample: StepSample) -> list[ParameterShare]:
        return self._watched.shares_of(optimizer, sample.plan.layout)

    def _norm_due(self) -> bool:
        """Return whether this rank has to measure the norm: not if clipping has, or the chief can."""
        if not self._norms or self._clips.cover(self._watched.identities):
            return False
        return self._run.role.writes if self._watched.layout.alone else not self._rounds.full

    def _chosen(self, number: int) -> Any:
        """Return the rows whose turn it is."""
        turns, wanted = self._hook.rotate, self._watched.layout.wanted
        if number != self._first_full:  # the weights of frozen parameters stay as they were then
            frozen = [
                share.row for share in self._watched.layout.shares if not share.entry.parameter.requires_grad
            ]
            if frozen:
                wanted = wanted.copy()
                wanted[frozen] = False
        if turns == 1:
            return wanted
        return wanted & ((np.cumsum(wanted) - 1) % turns == self._sampling.turn(number, turns))

    def _close(self) -> None:
        """Hand a step's measurements on."""
        sample = self._sample
        if sample is None or sample.closed:
            return
        begun, sample.closed = time.perf_counter(), True
        if sample.table is not None:
            self._note(sample.plan.number, sample.seen > 0)
        self._watched.changed = self._watched.changed or sample.pending_sums
        own = None
        if self._own is not None and self._own.armed:
            own = self._own.take(sample.seen)
            if not sample.plan.full:
                own = None
        self.before_step(sample.plan.number + 1)
        self._failures = 0
        if sample.table is None:
            if sample.clips and self._run.role.writes and self._norms:
                self._in_order(
                    sample.plan.number, lambda: self._report.clipped_only(sample.plan.number, sample.clips)
                )
        elif sample.plan.whole and sample.there:
            round_ = Round(sample.plan.number, sample.table, False)
            unclipped, self._unclipped = self._unclipped, None
            self._in_order(
                sample.plan.number, lambda: self._report.take(sample.plan, round_, sample.clips, unclipped)
            )
        else:
            self._hand_on(sample, own)
        if not sample.plan.full:  # a norm that clipping told, or that needed a closer look
            self._pace.normed(sample.seconds + time.perf_counter() - begun)

    def _in_order(self, number: int, report: Callable[[], None]) -> None:
        """Record values that need no other rank, now or after the earlier steps that still wait."""
        if self._rounds.idle:
            report()
        elif not self._rounds.stuck:
            self._rounds.put(Round(number, StatisticsTable(0), False, alone=True, done=report))

    def _hand_on(self, sample: StepSample, own: Any) -> None:
        """Give a step to the thread that waits for devices and for other ranks."""
        plan, table = sample.plan, sample.table
        if table is None:
            return
        if plan.full:
            self._pace.took(sample.seconds)
        alone = plan.whole
        round_ = Round(
            plan.number,
            table,
            plan.full,
            version=plan.layout.version,
            loose=np.zeros(4),
            cost_seconds=self._pace.cost_seconds(self._hook.max_overhead),
            step_seconds=self._pace.step_seconds,
            relayout=self._watched.changed,
            alone=alone,
        )

        def wait() -> None:
            round_.raw = sample.wait()
            if own is not None:
                round_.loose[:2] = float(own), 1.0
            for cut in () if plan.layout.alone else cuts(sample.clips):
                round_.loose[2] += cut.gone(table.moments[plan.block("gradients")])

        unclipped, self._unclipped = self._unclipped, None
        round_.wait = wait
        round_.done = lambda: self._report.take(plan, round_, sample.clips, unclipped)
        self._rounds.put(round_)

    def _agree_again(self) -> None:
        version = self._rounds.version + 1
        step = self._run.current_step
        self._watched.agree_again(version, self._count if step is None else step)
        self._rounds.version = version

    def _look_for_left_out(self) -> None:
        """Record gradients of the model's parameters that no watched optimizer has."""
        if not self._run.role.writes:
            return
        parts = [part for part in self._hook.parts if isinstance(part, Gradients)]
        owned = {id(parameter) for part in parts or [self] for parameter in part._watched.owned()}
        ledger = ledger_of(self._run)
        for tag, norm in self._watched.left_out(owned | ledger.owned(), ledger.left_out):
            self._run.scalar(tag, norm)

    # --- on the thread of the rounds ----------------------------------------------------------------

    def _done(self, round_: Round) -> None:
        if round_.full:
            self._budget.spent(round_.step, round_.cost_seconds, round_.step_seconds)
        if self._run.role.writes and round_.done is not None:
            round_.done()

    # --- problems -----------------------------------------------------------------------------------

    def _tell(self, what: str, hint: str) -> None:
        """Report the omitted measurements once."""
        if what not in self._said:
            self._said.add(what)
            error = RecordError(f"not recorded: {what}", hint=hint, path=self._run.log_dir)
            self._run.report("gradients", error)

    def _failed(self, error: Exception) -> None:
        self._sample = None
        super()._failed(error)


def summary(names: Sequence[str], others: Iterable[str]) -> str:
    """Return names of parameters in few words: those of modules all of whose parameters are among them."""
    remaining, modules = list(others), []
    for name in names:
        words = name.split(".")
        for depth in range(1, len(words) + 1):
            module = ".".join(words[:depth])
            if not any(name_ == module or name_.startswith(f"{module}.") for name_ in remaining):
                break
        modules.append(module)
    modules = list(dict.fromkeys(modules))
    more = f" and {len(modules) - NAMED} more" if len(modules) > NAMED else ""
    return ", ".join(modules[:NAMED]) + more
