"""ProfilerHook: captures steps while a run trains, inside an overhead budget."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from stepscope.capture.backend import LOOKS, Backend, CaptureOptions, choose, framework, watch_workers
from stepscope.capture.budget import CaptureBudget
from stepscope.capture.capture import Order, Past, RunningCapture, new_ring
from stepscope.capture.files import FOLDER
from stepscope.capture.schedule import (
    SKIP_FIRST,
    Due,
    Limits,
    Planner,
    Schedule,
    SlowSteps,
    measured,
    measured_inside,
)
from stepscope.capture.triggers import Triggers
from stepscope.capture.writing import Writing
from stepscope.errors import CaptureError, UsageError
from stepscope.kernels.steps import LONGEST, Rest
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.config import integer, positive, share
from stepscope.record.protocol import Hook
from stepscope.record.steps import StepFollower

if TYPE_CHECKING:
    from stepscope.record.run import Run

Ranks = Literal["chief", "all"] | Collection[int] | Callable[[int], bool]
NUM_STEPS = 3
MAX_PROFILES = 20
MAX_OVERHEAD = 0.01
"""Share of the time that captures which nobody asked for may take, such as those after slow steps."""
OOM_TRIES = 20
"""Number of first steps after which the hook checks whether a CUDA device is in use."""
END_SECS = 120.0
"""The longest that the end waits for a profile to be written; the end of a run has its own deadline."""


class ProfilerHook(Hook):
    """Captures a few steps at intervals: ``Run(…, hooks=[ProfilerHook(save_steps=500)])``.

    The first capture is made after ``skip_first`` steps, so that a short run has one; the next ones at the
    multiples of ``save_steps``, or ``save_secs`` after the previous one. Your requests are met: a capture is
    skipped or moved only if ``max_overhead`` requires it, if the previous profile is still being written, or
    if another hook measures those steps; the console and the page then say so. Without an interval, steps are
    only captured on request: from the page, by ``stepscope capture RUN``, by a signal, an alert or a slow
    step.

    Profiles are written and analysed off the training thread. A profile never stops the training:
    failures are counted under "profile" in ``run.problems`` and shown on the page.

    Args:
        save_steps: Steps between two captures.
        save_secs: Seconds between two captures; not both.
        num_steps: Steps in one capture.
        warmup_steps: Steps before each capture in which the profiler runs but nothing is kept; devices need
            one, above all for the first capture on a GPU.
        skip_first: The number of steps at the beginning that are not captured, because they compile; with 0
            the first step is captured.
        max_profiles: Profiles kept per rank. The oldest are deleted, except those that were requested or
            whose advice is not repeated. Once there are twice as many of these, schedule and alerts make no
            more.
        output_dir: Directory of the profiles; by default ``profiles`` in the run's directory.
        show_dataflow: Record which operator feeds which, if that is optional.
        show_memory: Record allocations.
        record_shapes: Record the shapes of operators' inputs.
        with_stack: Record every Python call; expensive.
        sample_stacks: While steps are captured, sample the stack of the training thread every few
            milliseconds, so that advice can name the line.
        modules: Give every ``nn.Module`` a scope.
        ranks: Which ranks capture by schedule: "chief", "all", numbers, or a function of the rank. Requests
            name their own ranks.
        max_overhead: The share of the run's time, from 0 to 1, that scheduled captures and captures after
            slow steps may cost at most. None keeps the schedule whatever it costs, and limits captures
            after slow steps to 1 %. Requests, signals, alerts and predicates have no limit.
        slow_step: Capture after a step that took this many times the median; None for never.
        signal: Capture when the process gets this signal, such as ``signal.SIGUSR2``; None for none.
        backend: "torch", "jax", "tensorflow" or "python", or an object; by default that of the framework
            that the program has imported when the first capture begins.
        analyse: Whether to have each profile analysed by a process of low priority.
        oom_snapshot: Write a snapshot of the allocator when a CUDA device runs out of memory.
        poll_secs: How often requests are looked for.

    Raises:
        UsageError: An argument cannot be right.
    """

    ranks = "all"  # who captures is decided here, because a request may name any rank
    _rest: Rest
    _last: ClassVar[ProfilerHook | None] = None
    """The hook that captured last in this process; only one can at a time."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        *,
        num_steps: int = NUM_STEPS,
        warmup_steps: int = 0,
        skip_first: int = SKIP_FIRST,
        max_profiles: int = MAX_PROFILES,
        output_dir: str | Path | None = None,
        show_dataflow: bool = True,
        show_memory: bool = False,
        record_shapes: bool = False,
        with_stack: bool = False,
        sample_stacks: bool = True,
        modules: bool = True,
        ranks: Ranks = "chief",
        max_overhead: float | None = None,
        slow_step: float | None = None,
        signal: int | None = None,
        backend: str | Backend | None = None,
        analyse: bool = True,
        oom_snapshot: bool = True,
        poll_secs: float = 0.3,
        _steady: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.schedule = Schedule(save_steps=save_steps, save_secs=save_secs, skip_first=skip_first)
        self.num_steps = positive("num_steps", num_steps) or NUM_STEPS
        self.max_profiles = positive("max_profiles", max_profiles) or MAX_PROFILES
        self.max_overhead = None if max_overhead is None else share("max_overhead", max_overhead)
        self._warmup = integer("warmup_steps", warmup_steps)
        self._who = who(ranks)
        self._output_dir = None if output_dir is None else Path(output_dir)
        self._options: dict[str, bool] = {
            "show_dataflow": show_dataflow, "show_memory": show_memory, "record_shapes": record_shapes,
            "with_stack": with_stack, "modules": modules, "sample_stacks": sample_stacks,
        }  # fmt: skip
        self._slow = SlowSteps(slow_step)
        self._signal, self._analyse, self._poll_secs = signal, analyse, poll_secs
        self._steady = _steady
        self._backend: Backend | None = None if isinstance(backend, str) else backend
        self._backend_name = backend if isinstance(backend, str) else None
        self._ring = new_ring()
        self._capture: RunningCapture | None = None
        self._orders: deque[Order] = deque()
        self._planned: Order | None = None
        self._run: Run | None = None
        self._asked_first = False
        self._oom_tries = OOM_TRIES if oom_snapshot else 0
        self._rest = Rest()
        self._past: StepFollower

    # --- the run --------------------------------------------------------------------------------------

    def begin(self, run: Run) -> None:
        """Prepare; nothing is loaded before the first capture."""
        if self._run is not None:
            raise UsageError("this ProfilerHook belongs to another run", hint="create one for each run")
        self._run = run
        self._budget = CaptureBudget(self.max_overhead or MAX_OVERHEAD, self._steady())
        mine = self._who(run.role.rank) if not isinstance(self._who, str) else run.role.writes
        limits = Limits(
            self.num_steps, self._warmup, self.max_profiles, held=self.max_overhead is not None,
            exact=getattr(self._backend, "overlaps", False),
        )  # fmt: skip
        folder = self._output_dir or Path(run.log_dir) / FOLDER
        self._writing = Writing(
            run, folder, self._budget, limits.holds, self.max_profiles, analyse=self._analyse
        )
        self._due = Due(self._writing.skipped, self.schedule.save_steps)
        self._triggers = Triggers(
            run, self.order, poll_secs=self._poll_secs, on_signal=self._signal, first=self._prepare
        )
        self._planner = Planner(
            run, self.schedule if mine else Schedule(), self._orders, limits, self._budget, self._writing,
            self._due, ready=self._ready, free=lambda: self._free, missed=self._triggers.missed,
            now=self._steady,
        )  # fmt: skip
        self._triggers.start()
        self._forget_workers = watch_workers()
        run.step_counter.on_leave.append(self._left)
        self._past = StepFollower(run.step_counter)

    def _prepare(self) -> None:
        """Load the backend off the training thread if it is clear which; otherwise the first capture does."""
        name = self._backend_name or framework(sys.modules)
        if self._backend is not None or name == "python":
            return
        backend = choose(name)
        prepare = getattr(backend, "prepare", None)
        if prepare is not None:
            prepare()
        self._backend = self._backend or backend

    def before_step(self, step: int) -> None:
        """Begin a capture that could not begin at the end of the previous step."""
        capture = self._capture
        if capture is not None:
            capture.entered = True
            capture.loaded()
            capture.open_step(step)
            return
        order = self._planned
        if order is None and not self._asked_first:
            self._asked_first = True
            order = self._planner.choose(step)
        if order is not None:
            self._planned = None
            self._start(order, step)
            if self._capture is not None:
                self._capture.entered = True

    def after_step(self, step: int) -> None:
        """Note the step's times; begin, continue or end a capture."""
        assert self._run is not None
        # What it slept through first, as if it had been called then.
        *slept, last = self._past.take()
        self.schedule.skip(len(slept))
        for past in slept:
            self._quiet(past)
        self.note(*last, looping=self._run.step_counter.looping)
        if self._idle:
            self._sleep()

    @property
    def _idle(self) -> bool:
        """True if nothing is in progress or requested."""
        return not (
            self._capture or self._planned or self._orders or self._oom_tries or self._writing.current
        )

    def _sleep(self) -> None:
        """Rest until something may be due or is requested."""
        steps, low, high, when = self._planner.rest(self._steady())
        limited, above_s = self._slow.rest
        # A schedule speaks of the step that comes next, a rest of the one that ended.
        self._rest.until(min(steps, limited, LONGEST), low - 1, high - 1, when, above_s)
        if self._orders:  # came from another thread meanwhile
            self._rest.on = False

    def note(self, step: int, seconds: float, waited: float | None, *, looping: bool = False) -> None:
        """Act after a step, no matter who measured it.

        Args:
            step: Its number.
            seconds: Its duration.
            waited: Seconds it waited for data; None if nobody measured that.
            looping: The next step's data is asked for right after; else the time between two steps belongs to
                neither.
        """
        self._asked_first = True
        if self._oom_tries:
            self._oom_tries -= 1
            self._watch_out_of_memory()
        past = step, seconds, waited
        if self._capture is not None:
            self._ring.append(past)
            self._continue(self._capture, step, seconds, looping=looping)
        elif self._writing.current is not None:
            self._ring.append(past)
            self._writing.disturbed(seconds)
        elif self._quiet(past):
            self.order(Order("slow step", self.num_steps, self._slow.reason(step, seconds)))
        if (self._orders or self._planner.follows) and self._capture is None and self._planned is None:
            self._plan(step + 1, looping=looping)

    def _quiet(self, past: Past) -> bool:
        """Note the times of an undisturbed step; return whether it was slow."""
        self._ring.append(past)
        self._budget.normal(past[1])
        return self._slow.found(past[1])

    def _left(self) -> None:
        """End recording with a loop over data: work after it may take long, and is not a step.

        Steps that were recorded are kept. A capture that has none yet is made when the next loop begins.
        """
        capture = self._capture
        if capture is None:
            return
        if capture.steps:
            capture.notes.append("the loop over data ended during the capture")
        else:
            capture.entered = self._asked_first = False
            if capture.order.cause != "predicate":  # which is asked again
                self._orders.appendleft(capture.order)
        self._finish(capture)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Keep the steps captured so far and wait a bounded time for it to be written."""
        self._triggers.stop()
        forget = getattr(self._backend, "forget_out_of_memory", None)
        if forget is not None:
            forget()
        capture = self._capture
        if capture is not None:
            if capture.entered:
                capture.notes.append(f"the run ended ({status}) during the capture")
                capture.ended = status
            self._finish(capture)
        self._due.close()
        self._writing.close(deadline.within(END_SECS))
        self._forget_workers()
        if ProfilerHook._last is self:
            ProfilerHook._last = None

    # --- wishes ---------------------------------------------------------------------------------------

    def request_capture(self, reason: str, facts: Mapping[str, Any] | None = None) -> bool:
        """Request a capture of the next ``num_steps`` steps; from any thread.

        Args:
            reason: The cause, for the page.
            facts: Its facts; JSON.

        Returns:
            Whether it will be done; False while such a request is waiting already.
        """
        return self.order(Order("alert", self.num_steps, reason, facts=dict(facts or {})))

    def order(self, order: Order) -> bool:
        """Take an order; one may wait for each cause."""
        order.num_steps = order.num_steps or self.num_steps
        waiting = [order_ for order_ in tuple(self._orders) if order_.cause == order.cause]
        if any(waiter.request == order.request for waiter in waiting):
            return False
        self._orders.append(order)
        self._rest.on = False
        return True

    # --- the course of a capture ----------------------------------------------------------------------

    def _plan(self, step: int, *, looping: bool) -> None:
        """Decide about the step that comes next; in a loop over data, begin before its data is fetched."""
        order = self._planner.choose(step)
        if order is None:
            return
        if looping:
            self._start(order, step, loading=True)
        else:
            self._planned = order

    def _ready(self) -> bool:
        """Return whether a capture that does not wait for the previous analysis may begin."""
        self._writing.tidy()
        if getattr(self._backend, "overlaps", False):
            return self._capture is None and self._writing.has_room(self.num_steps)
        return self._free

    @property
    def _free(self) -> bool:
        """True if no profile of this run is being written and no other run of the process is captured."""
        if self._writing.busy:
            return False
        last = ProfilerHook._last
        return last is None or (last._capture is None and not last._writing.recording)

    def _start(self, order: Order, step: int, *, loading: bool = False) -> None:
        assert self._run is not None
        role = self._run.role
        before = [] if order.scheduled else list(self._ring)
        try:
            if self._backend is None:
                self._backend = choose(self._backend_name)
            capture = RunningCapture(order, self._backend, before, self._steady)
            capture.notes += self._due.begun(step, order)
            most = step + self._warmup + order.num_steps
            capture.measured = measured(self._run.hooks, range(step, most))
            options = self._options if order.with_stack is None else {**self._options, "with_stack": True}
            wanted = CaptureOptions(
                rank=role.rank, world_size=role.world_size, warmup_steps=self._warmup,
                values=self._has_room(order), **options,
            )  # fmt: skip
            capture.start(wanted, between=loading, usual_s=self._budget.usual_s)
        except Exception as error:  # noqa: BLE001  a profiler's own code
            self._failed(order, step, error)
            return
        self._capture, ProfilerHook._last = capture, self
        begun = self._steady()
        capture.open_step(step, loading=loading)
        if loading:
            capture.account.calls_s += self._steady() - begun

    def _has_room(self, order: Order) -> bool:
        """Return whether the steps in which values are followed fit before the next capture is due."""
        every = self.schedule.save_steps
        most = self._warmup + order.num_steps + LOOKS
        return order.cause != "predicate" and (every is None or every > most)

    def _continue(self, capture: RunningCapture, step: int, seconds: float, *, looping: bool) -> None:
        begun = self._steady()
        capture.ended_step(step, seconds)
        over = capture.complete or not (
            capture.warmup_left or self._planner.still_wanted(capture.order, step + 1)
        )
        if looping and not over:
            capture.open_step(step + 1, loading=True)
        capture.account.calls_s += self._steady() - begun
        if over:
            self._finish(capture)

    def _finish(self, capture: RunningCapture) -> None:
        self._capture = None
        capture.notes += measured_inside(capture.steps, capture.measured)
        try:
            export = capture.stop()
        except Exception as error:  # noqa: BLE001  a profiler's own code
            self._failed(capture.order, capture.steps[0] if capture.steps else -1, error)
            return
        self._writing.take(capture, export)

    def _watch_out_of_memory(self) -> None:
        """Have snapshots written once a CUDA device is in use; without one, nothing is imported."""
        cuda = sys.modules.get("torch.cuda")
        if cuda is None or not cuda.is_initialized():
            return
        self._oom_tries = 0
        backend = self._backend = self._backend or choose(self._backend_name)
        watch = getattr(backend, "watch_out_of_memory", None)
        if watch is not None:
            watch(self._writing.snapshot_path, self._writing.snapshot_written)

    # --- what goes wrong ------------------------------------------------------------------------------

    def _failed(self, order: Order, step: int, error: Exception) -> None:
        message = error.message if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        hint = error.hint if isinstance(error, CaptureError) else ""
        self._budget.captures += 1  # a schedule that fails at once must not try at every step
        self._writing.failed(
            order, step, message, hint, getattr(self._backend, "name", self._backend_name or "")
        )


class LambdaProfilerHook(ProfilerHook):
    """Captures exactly the steps for which a function returns true.

    ``LambdaProfilerHook(lambda step: 100 <= step < 110)``: consecutive steps become one profile.
    The overhead is measured and reported but never prevents a capture; ``skip_first`` is 0.

    Args:
        predicate: Called with the number of every step.
        options: As for ``ProfilerHook``, without ``save_steps`` and ``save_secs``.

    Raises:
        UsageError: An argument cannot be right.
    """

    def __init__(self, predicate: Callable[[int], object], **options: Any) -> None:
        if not callable(predicate):
            raise UsageError(
                f"LambdaProfilerHook takes a function of the step, got {predicate!r:.60}",
                hint="LambdaProfilerHook(lambda step: step in (100, 1000))",
            )
        if {"save_steps", "save_secs"} & set(options):
            raise UsageError("give a predicate or an interval, not both", hint="ProfilerHook(save_steps=500)")
        super().__init__(**{"skip_first": 0, **options})
        self.schedule = Schedule(predicate=predicate, skip_first=self.schedule.skip_first)


def who(ranks: Ranks) -> Literal["chief"] | Callable[[int], bool]:
    """Return a function that says whether a rank captures; "chief" is decided by the run's role.

    Raises:
        UsageError: It is none of the forms.
    """
    if isinstance(ranks, str):
        if ranks == "chief":
            return "chief"
        if ranks == "all":
            return lambda rank: True
    elif callable(ranks):
        return ranks
    elif isinstance(ranks, Collection) and all(isinstance(rank, int) and rank >= 0 for rank in ranks):
        return frozenset(ranks).__contains__
    raise UsageError(
        f'ranks is "chief", "all", a list of numbers or a function of the rank, got {ranks!r:.60}',
        hint="ProfilerHook(ranks=[0, 8])",
    )
