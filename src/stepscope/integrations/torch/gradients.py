"""Measures gradients, weights and updates around an optimizer's step, for a ``GradientHook``.

The point just before the step is the only one at which gradients are accumulated, reduced, unscaled and
clipped whatever the trainer. Each rank measures its stretch of what it holds; ``Rounds`` adds the ranks up on
a thread; ``RoundsReport`` finishes and records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.errors import RecordError
from stepscope.integrations.torch import clipping, measure
from stepscope.integrations.torch.activations import look_at_inputs
from stepscope.integrations.torch.clipping import ClipCall, Clips, Cut, cuts
from stepscope.integrations.torch.exchange import GroupExchange, running
from stepscope.integrations.torch.noise import OwnGradients, replicated
from stepscope.integrations.torch.norms import Norms
from stepscope.integrations.torch.pace import Pace
from stepscope.integrations.torch.report import RoundsReport
from stepscope.integrations.torch.sample import SamplePlan, StepSample, part_of
from stepscope.integrations.torch.watched import WatchedParameters, parameters_of
from stepscope.record import Run
from stepscope.record.statistics import GradientHook
from stepscope.record.statistics.sampling import SamplingBudget
from stepscope.record.statistics.table import Array, Round, Rounds, StatisticsTable

MAX_FAILURES = 3


def attach(
    run: Run,
    model: nn.Module | None,
    optimizers: Mapping[str, Optimizer],
    hook: GradientHook,
    *,
    process_group: Any = None,
) -> list[Gradients]:
    """Measure what optimizers work on, for a hook. Every rank calls this, once the model is wrapped.

    Args:
        run: The run.
        model: Names the parameters; None if nothing does.
        optimizers: By name; each has global statistics of its own, unless each has a single parameter, as
            where optimizers step inside backward: these are measured as one.
        hook: Says what, when and of which layers.
        process_group: The ranks that train this model; None for all.
    """
    lone = len(optimizers) > 1 and all(len(list(parameters_of(each))) <= 1 for each in optimizers.values())
    groups = {"": list(optimizers.values())} if lone else {name: [each] for name, each in optimizers.items()}
    taken = {name for part in hook.parts if isinstance(part, Gradients) for name in part.names}
    clash = model is not None and any(name in taken for name, _ in model.named_parameters())
    prefix = type(model).__name__ if clash else ""
    found = [
        Gradients(run, hook, model, several, name=name or prefix, prefix=prefix, process_group=process_group)
        for name, several in groups.items()
    ]
    hook.parts.extend(found)
    return found


class Gradients:
    """The gradients of one optimizer, or of several that make one.

    Args:
        run: The run.
        hook: Says what is measured.
        model: Names the parameters.
        optimizers: Whose step is the moment.
        name: Stands between ``gradients`` and the name of a global statistic; "" for nothing.
        prefix: Stands before the parameters' names.
        process_group: The ranks; None for all.
    """

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
        self._watched = WatchedParameters(
            model, prefix, self._optimizers, hook.wants, self._ranks, norms=hook.norm_every_step
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
        self._norm_seconds = 0.0
        self._unclipped: Array | None = None
        self._count = self._short = -1
        self._failures = 0
        self._first_full: int | None = None
        self._said: set[str] = set()
        self._handles: list[Any] = []
        for optimizer in self._optimizers:
            self._handles.append(optimizer.register_step_pre_hook(self._before))
            self._handles.append(optimizer.register_step_post_hook(self._after))
        clipping.listen(self)
        self.before_step(run.current_step or 0)

    @property
    def names(self) -> list[str]:
        """Names of the parameters that are measured."""
        return self._watched.layout.names

    # --- what the integration calls -----------------------------------------------------------------

    def clipped(self, clip: ClipCall) -> None:
        """Note a call that clips, if it is about these parameters."""
        if not clip.parameters.isdisjoint(self._watched.identities):
            self._clips.add(clip)
            self._unclipped = None
            if clip.norm.is_cpu and not torch.isfinite(clip.norm):
                with self._guarded(), torch.no_grad():
                    self._unclipped = self._watched.squares(clip.parameters)

    def cut(self, gradients: Sequence[Tensor]) -> None:
        """Measure the norm of gradients whose values are about to be clipped."""
        with self._guarded(), torch.no_grad():
            number = self._run.current_step
            due = self._sampling.ahead(self._count + 1 if number is None else number)
            alone = self._watched.layout.alone
            if not (due or self._hook.norm_every_step) or (alone and not self._run.role.writes):
                return
            about = {id(each) for each in gradients}
            shares = [
                share for share in self._watched.layout.shares if id(share.entry.parameter.grad) in about
            ]
            if shares:
                parts = [(share.row, part_of(share, share.entry.parameter.grad, alone)) for share in shares]
                table = StatisticsTable(len(self._watched.layout.names))
                wait = measure.measure(table, parts, squares_only=True)
                identities = frozenset(id(share.entry.parameter) for share in shares)
                self._clips.add(Cut(identities, tuple(row for row, _ in parts), table, wait))

    def before_step(self, step: int) -> None:
        """Look at the ranks' own gradients if the step is to be measured."""
        if self._own is not None and not self._own.armed and self._sampling.ahead(step):
            self._own.arm()

    def finish(self, timeout: float) -> None:
        """Record what is measured already, and stop measuring."""
        self.remove()
        self._rounds.close(timeout)

    def remove(self) -> None:
        """Take the hooks off the optimizers."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        if handles:
            clipping.ignore(self)
            self._take_norm(there=False)
            self._close()
            if self._watched.norms is not None:
                self._watched.norms.close()
        if self._own is not None:
            self._own.disarm()

    # --- around the optimizer's step ----------------------------------------------------------------

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        begun = time.perf_counter()
        try:  # a context of any kind would cost more than what is due at most steps
            if self._normed is not None:
                self._take_norm(there=False)
            if self._watched.plain and self._measure_shortly(optimizer, begun):
                self._norm_seconds = time.perf_counter() - begun
                if self._normed is None:
                    self._pace.normed(self._norm_seconds)
                return
        except Exception as error:  # noqa: BLE001  tensors of any kind
            self._failed(error)
            return
        with self._guarded(), torch.no_grad():
            sample = self._join(optimizer)
            if sample is not None:
                sample.clips.extend(self._clips.take())
                sample.gradients(optimizer, self._watched.shares[id(optimizer)])
                sample.seconds += time.perf_counter() - begun

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
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

    def _measure_shortly(self, optimizer: Optimizer, now: float) -> bool:
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
        waiting = self._clips or self._watched.coming is not None or not self._rounds.idle
        if waiting or (self._own is not None and self._own.armed) or self._sampling.ahead(number):
            return False
        if self._hook.norm_every_step and self._run.role.writes:
            unscales = getattr(optimizer, "grad_scale", None) is not None
            norms = self._watched.norms
            if norms is None or unscales or not norms.begin():
                return False
            self._normed = norms, number
            if not norms.watches:
                self._take_norm()
        self._pace.begin(number, now)
        self._sample, self._short, self._failures = None, number, 0
        if self._run.current_step is None:
            self._count = number
        self.before_step(number + 1)
        return True

    def _take_norm(self, *, there: bool = True) -> None:
        """Record the norm of a step that was begun, if any; its gradients may be gone."""
        if self._normed is None:
            return
        (norms, number), self._normed = self._normed, None
        table = norms.finish()
        if table is not None:
            layers = self._watched.squares if there else lambda: None
            self._report.norm_only(number, table, self._watched.layout, layers)
        else:
            what = f"the norm of the gradient at step {number}, which the optimizer changed as it was read"
            self._tell(what, "further gradients are read before the optimizer's step")

    def _join(self, optimizer: Optimizer) -> StepSample | None:
        """Return the step that an optimizer's step belongs to; None if that was measured already."""
        sample, number, key = self._sample, self._run.current_step, id(optimizer)
        if number is None:
            again = sample is None or key in sample.begun
            number = self._count = self._count + 1 if again or sample is None else sample.plan.number
        if sample is not None and sample.plan.number == number:
            if key in sample.begun:
                return None  # several steps of one optimizer in one step of the run: the first one counts
        else:
            self._close()
            sample = self._sample = self._new(number)
        sample.begun.add(key)
        return sample

    def _new(self, number: int) -> StepSample:
        """Begin a step."""
        self._pace.begin(number, time.perf_counter())
        self._watched.take_coming()
        full = self._sampling.due(number)
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

    def _norm_due(self) -> bool:
        """Return whether this rank has to measure the norm: not where clipping has, or the chief can."""
        if not self._hook.norm_every_step or self._clips.cover(self._watched.identities):
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
        sample.closed = True
        self._watched.changed = self._watched.changed or sample.pending_sums
        own = None
        if self._own is not None and self._own.armed:
            own = self._own.take(sample.seen)
            if not sample.plan.full:
                own = None
        self.before_step(sample.plan.number + 1)
        self._failures = 0
        if sample.table is None:
            if sample.clips and self._run.role.writes and self._hook.norm_every_step:
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

    def _in_order(self, number: int, report: Callable[[], None]) -> None:
        """Record what needs no other rank, now or after the earlier steps that still wait."""
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
            for each in () if plan.layout.alone else cuts(sample.clips):
                round_.loose[2] += each.gone(table.moments[plan.block("gradients")])

        unclipped, self._unclipped = self._unclipped, None
        round_.wait = wait
        round_.done = lambda: self._report.take(plan, round_, sample.clips, unclipped)
        self._rounds.put(round_)

    def _agree_again(self) -> None:
        version = self._rounds.version + 1
        self._watched.agree_again(version)
        self._rounds.version = version

    def _look_for_left_out(self) -> None:
        """Record gradients of the model's parameters that no watched optimizer has."""
        if not self._run.role.writes:
            return
        parts = [part for part in self._hook.parts if isinstance(part, Gradients)]
        owned = {id(each) for part in parts or [self] for each in part._watched.owned()}
        for tag, norm in self._watched.left_out(owned):
            self._run.scalar(tag, norm)

    # --- on the thread of the rounds ----------------------------------------------------------------

    def _done(self, round_: Round) -> None:
        if round_.full:
            self._budget.spent(round_.step, round_.cost_seconds, round_.step_seconds)
        if self._run.role.writes and round_.done is not None:
            round_.done()

    def _post(self, reason: str, words: str, hint: str, over: bool) -> None:
        found = f"gradient statistics: {words}" + ("; they are switched off" if over else "")
        error = RecordError(found, hint=hint or "the training is not affected", path=self._run.log_dir)
        self._run.report(reason, error, later=True)

    # --- problems -----------------------------------------------------------------------------------

    def _tell(self, what: str, hint: str) -> None:
        """Report once what is left out."""
        if what not in self._said:
            self._said.add(what)
            error = RecordError(f"not recorded: {what}", hint=hint, path=self._run.log_dir)
            self._run.report("gradients", error)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Report what goes wrong instead of raising it, and stop after some failures in a row."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  tensors of any kind, and a function of the user's
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Report what went wrong, and stop after some failures in a row."""
        self._failures += 1
        self._sample = None
        off = self._failures >= MAX_FAILURES
        if off:
            self.remove()
        then = "switched off" if off else "the training goes on"
        found = f"gradient statistics: {type(error).__name__}: {error}; {then}"
        refusal = RecordError(found, hint="see where it raises with STEPSCOPE_STRICT=1")
        refusal.__cause__ = error
        self._run.report("statistics", refusal)
