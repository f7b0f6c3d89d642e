"""The calls that tell of a step, as they are made by frameworks: fetches, backward passes and updates.

A step has a dozen such calls. After the work of a training nothing of ours is in the processor's caches, so
each Python function called there takes microseconds. These are what frameworks call directly; they go on to
Python where something is unusual.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import ref

import cython

if cython.compiled:
    from cython import critical_section
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
    from cython.cimports.cpython.time import perf_counter
    from cython.cimports.stepscope.kernels.steps import HotCalls, Steps
else:
    from contextlib import nullcontext as critical_section
    from threading import get_ident
    from time import perf_counter

    from stepscope.kernels.steps import HotCalls, Steps


@cython.final
@cython.cclass
class Phases:
    """Which stage of its step a run is in, as far as calls of PyTorch tell; one for all models of a run.

    Args:
        steps: The steps of the run.
        learns: Returns whether gradients are recorded now.

    Attributes:
        users: How many parts mark stages through this.
        seen: Whether the forward pass before the last backward pass was seen.
    """

    def __init__(self, steps: Steps, learns: Callable[[], bool]) -> None:
        stages = steps.stages
        assert stages is not None
        self._steps, self._stages, self._learns = steps, stages, learns
        self._copy, self._forward = stages.number("copy"), stages.number("forward")
        self._backward, self._optimizer = stages.number("backward"), stages.number("optimizer")
        self._differentiating = self._after_backward = False
        self._stepping = 0
        # Whether the running step of the optimizer has called no closure yet, and is the first.
        self._entered = self._new = False
        self.users, self.seen = 0, True

    def _begin(self):
        """Forget the stages of a step that did not come to its end."""
        if self._stages.fresh:
            self._stepping = 0
            self._entered = self._after_backward = self._differentiating = False
        return 0

    def called(self, module, copies):
        """Note that a module is called.

        Args:
            module: The module.
            copies: Whether the data has to be copied to another device before.
        """
        stages = self._stages
        running: cython.int = stages.running
        if running == self._forward or stages.held or not stages.marks():
            return
        self._begin()
        if self._differentiating:  # a checkpoint computes it again
            return
        if copies and running == 0 and stages.fresh and stages.arrived:
            stages.rename(self._copy)
            stages.mark(0)
        if not module.training or not self._learns():
            return  # a rollout, a target, an evaluation: what it is, is not known
        if running == self._optimizer and self._entered:
            self._closure(0)  # before it called the model
        self._entered = self._after_backward = False
        stages.mark(self._forward)

    def backward_begins(self):
        """Note that gradients are asked for."""
        stages = self._stages
        running: cython.int
        self._begin()
        if self._differentiating or stages.held or not stages.marks():
            return
        running = stages.running
        self.seen = running == self._forward
        if not self.seen:
            if running == self._optimizer and self._entered:
                self._closure(self._forward)
            elif running == 0 and (stages.arrived or not stages.fresh):
                stages.rename(self._forward)
        self._differentiating, self._entered = True, False
        stages.mark(self._backward)

    def _closure(self, number):
        """Give the time since the optimizer's step began to another stage, as a closure is called."""
        self._stages.rename(number)
        if self._new:  # the optimizer itself has not worked yet: it follows the stages of the closure
            self._stages.order.remove(self._optimizer)
        return 0

    def backward_ended(self):
        """Note that the gradients are there."""
        if not self._differentiating:
            return
        self._differentiating = False
        if self._stepping:
            self._stages.mark(self._optimizer)
        else:
            self._stages.mark(0)
            self._after_backward = True

    def optimizer_begins(self):
        """Note that an optimizer steps."""
        stages = self._stages
        self._steps.optimized()
        self._begin()
        if stages.held or not stages.marks():
            return
        if stages.running == 0 and self._after_backward and not stages.fresh:
            stages.rename(self._backward)  # clipping, and waiting for other ranks
        elif stages.running == self._forward:
            stages.rename(0)  # nothing says where the backward pass began
        self._stepping += 1
        self._entered, self._after_backward = True, False
        self._new = self._optimizer not in stages.order
        stages.mark(self._optimizer)

    def optimizer_ended(self):
        """Note that it has stepped."""
        if not self._stepping:
            return
        self._stepping -= 1
        self._entered = False
        self._stages.mark(self._backward if self._differentiating else 0)


@cython.cclass
class Marks:
    """Hooks that mark the stages of the steps of one model.

    Attributes:
        phases: Of the run; None once nothing is marked any more.
        copies: Whether the data has to be copied to the model's device.
        left: Backward passes for which the subclass still learns which modules are called.
    """

    def __init__(self, phases: Phases, copies: cython.bint) -> None:
        self.phases: Phases | None = phases
        self.copies, self.left = copies, 0

    def look(self, seen: bool) -> None:
        """Learn from a backward pass that was not preceded by a known forward pass, or while ``left``."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """End marking after an exception."""
        raise NotImplementedError

    def called(self, module: Any, inputs: Any) -> None:
        """Note that a module is called; a hook of modules."""
        if self.phases is None:
            return
        try:
            self.phases.called(module, self.copies)
        except Exception as error:  # noqa: BLE001  the module's own attributes
            self.fail(error)

    def backward_begins(self, outputs: Any) -> None:
        """Begin the backward stage."""
        if self.phases is None:
            return
        try:
            self.phases.backward_begins()
            if self.left or not self.phases.seen:
                self.look(self.phases.seen)
        except Exception as error:  # noqa: BLE001  the training goes on, whatever is wrong here
            self.fail(error)

    def backward_ended(self) -> None:
        """End the backward pass; the time after it belongs to its stage if the optimizer comes next."""
        if self.phases is not None:
            self.phases.backward_ended()


@cython.cclass
class Switches:
    """Says whether the calls of a loop count, which each of them asks first.

    Attributes:
        off: True if nothing is recorded here: the program records by itself, or this is a forked child.
        led: True while the callback of a framework counts the steps.
    """

    def __init__(self) -> None:
        self.off = self.led = False


@cython.cclass
class LoopMarks:
    """The calls of a loop of the user's own that make its steps.

    A subclass makes the run: ``first`` is called with what updates first, and sets ``run`` and ``steps``.
    Calls within are by the class, ``LoopMarks.now(self)``: these go to the compiled function at once, where
    ``self.now()`` would look for a method of the subclass first.

    Args:
        process: Says whether calls count.
        learns: Returns whether gradients are recorded now: batches fetched without are no steps.
        steady: Gives the time in seconds; by default ``time.perf_counter``.

    Attributes:
        run: None before the first update.
        steps: The steps of the run.
        thread: The one that trains; 0 before the first update.
        differentiated: Whether a backward pass began since the step did.
        got: Whether any batch was fetched.
        ahead: Whether the running step began at the end of an update.
        eager: Whether steps end at the end of an update, as no batch was fetched.
        updated: What has updated since the step began, by identity.
        asked: When the batch was asked for that comes before the first update.
        begun: When the first backward pass began, below 0 if none has.
        waited: Seconds that the batches before the first update took.
        ended: When the last update ended.
        evaluated_s: Seconds of evaluations since.
        updates: How many updates were seen.
        fetching: Whether a batch is being fetched: loaders may fetch through others.
        by_hand: Notices updates that no optimizer makes; None where one does.
    """

    def __init__(
        self, process: Switches, learns: Callable[[], bool], steady: Callable[[], float] | None = None
    ) -> None:
        self.process, self._learns, self._steady = process, learns, steady
        self.run: Any = None
        self.steps: Steps | None = None
        self.thread = self._noted = 0
        self.asked = self.begun = -1.0
        self.waited = 0.0
        self.differentiated = self.got = False
        self.updated: set[int] = set()
        self.ended = self.evaluated_s = 0.0
        self.ahead = self.eager = self._shared = False
        # What updates in every step without a loader, and the most that a step of it has had.
        self._leader, self._expected = 0, 1
        self._number = -1
        self.updates, self.fetching = 0, False
        self.by_hand: Any = None

    def first(self, updater: Any) -> bool:
        """Make the run at the first update; return whether there is one."""
        raise NotImplementedError

    def now(self) -> float:
        """Return the time in seconds."""
        return perf_counter() if self._steady is None else self._steady()

    def _is_its_step(self):
        """Return whether the running step was begun here."""
        steps = self.steps
        return steps is not None and steps.running and steps.number == self._number

    def _mine(self):
        """Return whether this thread trains, as far as is known, and no framework counts the steps."""
        if self.process.off or self.process.led:
            return False
        if self.thread:
            return self.thread == get_ident()
        return self._notes(threading.main_thread().ident or 0)

    def _notes(self, trains):
        """Return whether what this thread does is noted before the first update.

        Args:
            trains: The thread that trains if it does anything at all; what others did is forgotten then.
        """
        thread: cython.ulong = get_ident()
        if thread != self._noted and (thread == trains or not self._noted):
            self._noted, self.differentiated, self.got = thread, False, False
            self.asked = self.begun = -1.0
            self.waited = 0.0
        return thread == self._noted

    def note_updater(self) -> cython.bint:
        """Return whether what this thread does is noted, as it is the one that updates."""
        if self.steps is None:
            self._notes(get_ident())  # it is the one that trains
        if self._mine():
            return True
        return self.thread != 0 and not self.process.off and not self.process.led and self.succeeds()

    def succeeds(self) -> bool:
        """Take over from the training thread if it has ended, and return whether."""
        raise NotImplementedError

    def before_fetch(self) -> cython.double:
        """Note that a batch is asked for; return the time."""
        if self.by_hand is not None and self.differentiated and self._mine():
            self.by_hand.look()
        now: cython.double = LoopMarks.now(self)
        if not self._mine():
            return now
        if self.steps is None:
            if not self.differentiated:
                self.asked, self.waited = now, 0.0
        elif self._is_its_step():
            if self.updated:
                self.steps.end(now)
            elif not self.differentiated:
                LoopMarks.drop_step(self)
        return now

    def fetched(self, asked: cython.double) -> None:
        """Note that the batch is there."""
        now: cython.double = LoopMarks.now(self)
        if not self._mine():
            return
        self.got = True
        if self.steps is None:
            self.waited += now - asked
        elif self._learns():
            if self._is_its_step():
                self.steps.wait_more(now - asked)
            elif not self.steps.running:
                LoopMarks._begin_step(self, asked, now - asked)

    def backward_begins(self, outputs: Any = None) -> None:
        """Note a backward pass."""
        if not self.differentiated and self._mine():
            self.differentiated = True
            if self.steps is None:
                self.begun = LoopMarks.now(self)

    def backward_ended(self) -> None:
        """Note that it is over."""

    def update_begins(self, updater: Any, args: Any = None, kwargs: Any = None) -> None:
        """Note that an optimizer, or what else changes the parameters, begins to."""
        self._update_begins(updater)

    def _update_begins(self, updater):
        evaluated_s: cython.double
        divided: cython.bint
        if not LoopMarks.note_updater(self):
            return 0
        if self.steps is None and not self.first(updater):
            return 0
        steps: Steps = self.steps
        if not self._shared and steps.running and id(updater) in self.updated:
            # No batch came since its last update: this is a step of its own.
            evaluated_s = self.evaluated_s
            divided = LoopMarks.end_at_update(self)
            again: cython.bint = self._leader == id(updater)
            self._expected = max(len(self.updated), self._expected if again else 1)
            self._leader, self.eager = id(updater), True
            LoopMarks._begin_step(self, self.ended, -1.0)
            steps.leave_out(evaluated_s)
            if not divided and steps.stages is not None:
                steps.stages.drop()  # those that are over were counted for the step before
        if not steps.running:
            self.eager = True
            LoopMarks._begin_step(self, self.ended or LoopMarks.now(self), -1.0)
        return 0

    def update_ended(self, updater: Any, args: Any = None, kwargs: Any = None) -> None:
        """Note that it has stepped."""
        self._update_ended(updater)

    def _update_ended(self, updater):
        if self.steps is None or not self._mine():
            return 0
        self.updates += 1
        self.updated.add(id(updater))
        self.ended, self.evaluated_s = LoopMarks.now(self), 0.0
        if self.got and len(self.updated) > 1:
            self._shared = True
        if not self.eager or self._shared or (self._leader and self._leader not in self.updated):
            return 0
        if len(self.updated) >= self._expected:
            self._expected = len(self.updated)
            self.steps.end(self.ended)
            LoopMarks._begin_step(self, self.ended, -1.0)
            self.ahead = True
        return 0

    def begin_step(self, asked: cython.double, waited: object = None) -> None:
        """Begin the next step; its arguments are those of ``Steps.begin``."""
        LoopMarks._begin_step(self, asked, -1.0 if waited is None else waited)

    def _begin_step(self, asked, waited):
        steps = self.steps
        steps._begin(asked, waited)
        self._number = steps.number
        self.updated.clear()
        self.differentiated = self.ahead = False
        self.evaluated_s = 0.0
        return 0

    def drop_step(self) -> None:
        """Drop the running step, and give its number to the next one."""
        self.steps.abandon()
        self.steps.next = self._number

    def end_at_update(self) -> cython.bint:
        """End the running step where its last update ended; return whether its stages are known.

        Stages that began since are not parts of it, and what ran before them is not kept apart.
        """
        steps = self.steps
        stages = steps.stages
        divided: cython.bint
        steps.leave_out(-self.evaluated_s)  # which was after its end
        divided = stages is None or stages.since <= self.ended
        if stages is not None and not divided:
            stages.drop()
        steps.end(self.ended)
        return divided


@cython.cclass
class StepMarks:
    """Begins and ends the steps of a run from callbacks.

    A trainer asks for data somewhere between two callbacks. ``asking`` is called at the last one before it
    does, so the time until ``begin`` is the step's wait for data.

    Args:
        run: Whose steps.

    Attributes:
        running: True if a step has begun here and not ended.
    """

    def __init__(self, run: Any) -> None:
        self._steps: Steps = run.step_counter
        self._asked = self._waited = self._fetched = -1.0  # not known
        self._number, self.running = 0, False

    def _is_its_step(self):
        """Return whether the step that runs, or ran last, was begun here and has not ended."""
        return self.running and self._steps.has_begun and self._steps.number == self._number

    def asking(self) -> None:
        """Note that the trainer asks for data from now on."""
        self._asked, self._fetched = self._steps._now(), -1.0

    def fetched(self, seconds: cython.double) -> None:
        """Note how long a batch took to come, by a clock around the loader alone; those of a step add up.

        Args:
            seconds: The wait.
        """
        if self._asked >= 0:
            self._fetched = max(self._fetched, 0.0) + seconds

    def got(self) -> None:
        """Note that the data is there: for trainers that do more before they begin the step.

        If a running step asks for a further part of its data, that wait is added.
        """
        if self._asked < 0:
            return
        waited: cython.double = self._steps._now() - self._asked
        if self._is_its_step():
            self._steps.wait_more(waited)
            self._asked = -1.0
        else:
            self._waited = waited

    def begin(self, number: object = None) -> None:
        """Begin a step; one that still runs is dropped unmeasured.

        Args:
            number: Its number; by default the one after the last.
        """
        steps: Steps = self._steps
        StepMarks.abandon(self)
        steps.led = True
        if number is not None and number >= 0:
            steps.next = number
        now: cython.double = steps._now()
        asked: cython.double = self._asked
        waited: cython.double = self._waited
        fetched: cython.double = self._fetched
        self._asked = self._waited = self._fetched = -1.0
        if asked < 0:
            steps._begin(now, -1.0)
        else:
            waited = now - asked if waited < 0 else waited
            steps._begin(now - waited, waited if fetched < 0 else fetched)
            steps.asked = asked
        self._number, self.running = steps.number, True

    def renumber(self, number: cython.longlong) -> None:
        """Change the number of the running step, if it is known late; the next one follows it."""
        self._number = self._steps.current = number
        self._steps.next = number + 1

    def end(self) -> None:
        """End the running step and record its times."""
        ours: cython.bint = self._is_its_step()
        self.running = False
        if ours:
            self._steps._end(self._steps._now())

    def abandon(self) -> None:
        """Drop the running step unmeasured, as it did not come to its end; another loop may count steps."""
        if self._is_its_step():
            self._steps.abandon()
        self.running = False
        self._steps.led = False


def timed(original: Any, loop: LoopMarks) -> Any:
    """Return the ``__next__`` of a loader's iterator, which notes when a batch is asked for and is there."""

    @wraps(original)
    def following(self: Any) -> Any:
        if loop.fetching:
            return original(self)
        asked: cython.double = LoopMarks.before_fetch(loop)
        batch = original(self)
        LoopMarks.fetched(loop, asked)
        return batch

    return following


@cython.cclass
class Rhythm:
    """How many steps of the run lie between two of an optimizer.

    Args:
        step: The step of the run that comes next.
        least: See ``patience``.

    Attributes:
        last: The last step of the run in which the optimizer stepped.
        longest: The longest distance so far.
        patience: Steps of the run without one of the optimizer after which it counts as not used any more.
    """

    def __init__(self, step: cython.longlong, least: cython.longlong) -> None:
        self.last, self.longest, self.patience, self._least = step - 1, 1, least, least

    def stepped(self, step):
        """Note that the optimizer steps."""
        self.longest = max(self.longest, step - self.last)
        self.last = step
        self.patience = max(self._least, 3 * self.longest)


@cython.cclass
class Gate:
    """Hooks of an optimizer that rest in the steps in which nothing is measured.

    Args:
        steps: Of the run.
        rhythm: Is told of every step of the optimizer.
        rests: Whether there are such steps.

    Attributes:
        measured: The last step that was measured ...
        awake: ... and the first that may be again.
    """

    def __init__(self, steps: Steps, rhythm: Rhythm, *, rests: cython.bint) -> None:
        self.steps, self.rhythm, self.rests = steps, rhythm, rests
        self.measured, self.awake = -1, 0

    @property
    def resting(self) -> bool:
        """Whether nothing of the running step is measured, so that the whole stays within its budget."""
        return self._rests_now()

    def _rests_now(self):
        steps = self.steps
        return steps.has_begun and self.measured < steps.number and steps.number < self.awake

    def _update_begins(self, optimizer, args, kwargs):
        """Pass the beginning of the optimizer's step on, unless this rests."""
        if self.steps.has_begun:
            Rhythm.stepped(self.rhythm, self.steps.number)
            if self.rests and self._rests_now():
                return None
        return self.before_update(optimizer, args, kwargs)

    def _update_ended(self, optimizer):
        """Likewise its end."""
        if not (self.rests and self._rests_now()):
            self.after_update(optimizer)
        return 0

    def before_update(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Measure what there is before the optimizer's step; return other arguments for it, or None."""
        raise NotImplementedError

    def after_update(self, optimizer: Any) -> None:
        """Measure what there is after it."""
        raise NotImplementedError


@cython.cclass
class RateMarks:
    """Records the learning rate of an optimizer after each of its steps, if that is one number.

    Args:
        optimizer: Whose.
        run: Takes the numbers.
        tag: Their series.

    Attributes:
        apart: Whether groups of parameters have rates of their own.
    """

    def __init__(self, optimizer: Any, run: Any, tag: str) -> None:
        self.optimizer, self.tag, self.apart = optimizer, tag, False
        # A run with a ``scalar`` of its own is asked for every point. Only compiled code sees a run's points.
        usual = (
            cython.compiled
            and isinstance(run, HotCalls)
            and type(run).scalar is HotCalls.scalar
            and "scalar" not in vars(run)
        )
        self._direct: HotCalls | None = run if usual else None

    def _update_ended(self):
        """Record the rate."""
        try:
            groups = self.optimizer.param_groups
            recorded = (
                self._direct is not None
                and not self.apart
                and (len(groups) == 1 or alike(groups))
                # A tag is known only where this rank has recorded it before.
                and self._direct._points.put(self.tag, groups[0]["lr"])
            )
        except Exception:  # noqa: BLE001  of an optimizer of the user's own; ``record`` reports it
            recorded = False
        if not recorded:
            self.record()
        return 0

    def record(self) -> None:
        """Record rates that are new or several."""
        raise NotImplementedError


def alike(groups: list[dict[str, Any]]) -> bool:
    """Return whether all groups have one rate, now and at the beginning of a schedule.

    Rates that are tensors are not compared: that would wait for their device.
    """
    first = groups[0]
    rate, initial = first["lr"], first.get("initial_lr")
    for group in groups:
        if type(group["lr"]) not in (float, int) or group["lr"] != rate or group.get("initial_lr") != initial:
            return False
    return True


@cython.final
@cython.cclass
class Newcomers:
    """Passes on the optimizers that are not known.

    Args:
        meet: Returns what is called with such an optimizer when it is about to step; None once nobody asks.

    Attributes:
        known: Weak references to the others.
    """

    def __init__(self, meet: Callable[[], Callable[[Any], None] | None]) -> None:
        self.known: set[ref[Any]] = set()
        self._meet = meet

    def _update_begins(self, optimizer):
        """Look at an optimizer that is about to step."""
        if ref(optimizer) not in self.known:
            meet = self._meet()
            if meet is not None:
                meet(optimizer)
        return 0


@cython.final
@cython.cclass
class UpdateHooks:
    """The two hooks of one optimizer, or of all, through which everybody hears of their steps.

    PyTorch calls each hook anew, which costs more than most of what is done in them.
    """

    def __init__(self) -> None:
        self._loops: tuple[LoopMarks, ...] = ()
        self._newcomers: tuple[Newcomers, ...] = ()
        self._marks: tuple[Marks, ...] = ()
        self._rates: tuple[RateMarks, ...] = ()
        self._gates: tuple[Gate, ...] = ()

    def _of(self, kind, listeners, listener, joins):
        """Return the listeners of a kind with or without one of them."""
        if not isinstance(listener, kind):
            return listeners
        return (*[each for each in listeners if each is not listener], *((listener,) if joins else ()))

    def change(self, listener: object, joins: bool) -> bool:
        """Tell a listener from now on, or no more; return whether there are any."""
        self._loops = self._of(LoopMarks, self._loops, listener, joins)
        self._newcomers = self._of(Newcomers, self._newcomers, listener, joins)
        self._marks = self._of(Marks, self._marks, listener, joins)
        self._rates = self._of(RateMarks, self._rates, listener, joins)
        self._gates = self._of(Gate, self._gates, listener, joins)
        return bool(self._loops or self._newcomers or self._marks or self._rates or self._gates)

    def update_begins(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Pass on that an optimizer is about to step; return other arguments for it, or None."""
        changed: Any = None
        for each in self._loops:
            cython.cast(LoopMarks, each)._update_begins(optimizer)
        for each in self._newcomers:
            cython.cast(Newcomers, each)._update_begins(optimizer)
        for each in self._marks:
            if cython.cast(Marks, each).phases is not None:
                cython.cast(Marks, each).phases.optimizer_begins()
        for each in self._gates:
            result = cython.cast(Gate, each)._update_begins(optimizer, args, kwargs)
            if result is not None:
                args, kwargs = changed = result
        return changed

    def update_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Pass on that it has stepped."""
        for each in self._marks:
            if cython.cast(Marks, each).phases is not None:
                cython.cast(Marks, each).phases.optimizer_ended()
        for each in self._rates:
            cython.cast(RateMarks, each)._update_ended()
        for each in self._gates:
            cython.cast(Gate, each)._update_ended(optimizer)
        for each in self._loops:
            cython.cast(LoopMarks, each)._update_ended(optimizer)


@cython.final
@cython.cclass
class BackwardPasses:
    """Those who listen for backward passes, and the threads that are in one.

    Attributes:
        listeners: Weak references; replaced rather than changed, as they are gone through twice in each step.
    """

    def __init__(self) -> None:
        self.listeners: tuple[ref[Any], ...] = ()
        self._thread = 0  # of the pass that began while none ran
        self._others: set[int] = set()

    def heard(self, original: Any) -> Any:
        """Return a function of autograd that computes gradients, so that the listeners hear of it."""

        @wraps(original)
        def backward(*arguments: Any, **named: Any) -> Any:
            return BackwardPasses.run(self, original, arguments, named)

        return backward

    def run(self, original: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of autograd between the two calls of the listeners."""
        thread: cython.ulong = get_ident()
        first: cython.bint
        with critical_section(self):
            # Of passes within a pass, as checkpoints make them, the outermost counts.
            inside: cython.bint = thread == self._thread or (bool(self._others) and thread in self._others)
            first = not inside and self._thread == 0
            if first:
                self._thread = thread
        if inside:
            return original(*arguments, **named)
        if not first:
            self._others.add(thread)
        outputs = arguments[0] if arguments else named.get("tensors", named.get("outputs"))
        try:
            for listener in self.listeners:
                alive = listener()
                if isinstance(alive, LoopMarks):
                    LoopMarks.backward_begins(alive, outputs)
                elif isinstance(alive, Marks):
                    Marks.backward_begins(alive, outputs)
                elif alive is not None:
                    alive.backward_begins(outputs)
            return original(*arguments, **named)
        finally:
            if first:
                self._thread = 0
            else:
                self._others.discard(thread)
            for listener in self.listeners:
                alive = listener()
                if isinstance(alive, Marks):
                    Marks.backward_ended(alive)
                elif alive is not None and not isinstance(alive, LoopMarks):
                    alive.backward_ended()
