"""When a device finished each stage of a step, from events on its stream that nobody waits for.

The host dispatches work and goes on, so a stage that has ended on the host need not have ended on the device.
At each moment at which the host marks a stage, an event is put into the current stream; the thread that
writes asks later whether it has passed, and takes the time between two events only if both have. The parts
of a step are then those of the device: the time between two steps is the wait for data, if the host waited.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import nn

from stepscope.integrations.guard import report_raised
from stepscope.record.problems import Reporter

SHARE = 0.001
"""Share of a step that its events may take; if they take more, fewer steps are timed."""
BLOCK = 16
"""Consecutive steps that are timed together: ranks are compared from meeting to meeting."""
MOST_WAITING = 4096
"""Most steps whose events may wait; beyond it, none is timed until some have passed."""
RARELY = 1 << 10
"""At least one block in this many is timed."""
LOOKS = 64
"""Number of steps from which the cost of their events is estimated."""


class TimedStep(NamedTuple):
    """The events of a step, the stages that begin at them, and the waits for data before and within it."""

    step: int
    before: Any
    marks: list[tuple[int, Any]]
    end: Any
    waited: float
    within: float


class DeviceStages:
    """Times the stages of steps on one device.

    ``take`` and ``waits`` are called by the thread that writes, the rest by the one that trains.

    Args:
        accelerator: Such as ``torch.cuda``: its events and streams.
        place: The device.
        reporter: Called if events cannot be had; nothing is timed from then on.
    """

    def __init__(self, accelerator: Any, place: Any, reporter: Reporter) -> None:
        self._accelerator, self._place, self._reporter = accelerator, place, reporter
        self._capturing = getattr(accelerator, "is_current_stream_capturing", None)
        self._free: deque[Any] = deque()
        self._waiting: deque[TimedStep] = deque()
        self._marks: list[tuple[int, Any]] = []
        self._before: Any = None
        self._step = 0
        self._waited = 0.0
        self._begun = False
        self._timing = False
        self._over = False
        self._every = 1
        self._cost = self._spent = 0.0
        self._looks = 0
        self._ended: float | None = None

    def begin(self, step: int, first: int, waited: float) -> None:
        """Begin a step whose data came after the given time; below 0 if nobody measured that."""
        self._leave()
        self._step, self._waited, self._begun = step, max(waited, 0.0), True
        self._timing = self._timed(step) and len(self._waiting) < MOST_WAITING
        if self._timing:
            self._put(first)

    def _timed(self, step: int) -> bool:
        return not self._over and (step // BLOCK) % self._every == 0

    def mark(self, number: int) -> None:
        """Begin a stage."""
        if self._timing:
            self._put(number)

    def rename(self, number: int) -> None:
        """Give the running stage another number."""
        if self._timing and self._marks:
            self._marks[-1] = (number, self._marks[-1][1])

    def end(self, now: float, waited: float) -> None:
        """End the step, given the total wait for its data."""
        if not self._begun:  # nobody takes what is timed
            return
        self._begun = False
        try:
            self._end(now, waited)
        except Exception as error:  # noqa: BLE001  a device that is gone: training goes on
            self._fail(error)

    def drop(self) -> None:
        """Forget the running step."""
        self._leave()
        self._timing = self._begun = False

    def stop(self) -> None:
        """Time no more steps; those whose events wait can still be taken."""
        self._over, self._timing = True, False

    @property
    def stopped(self) -> bool:
        """Whether no more steps are timed."""
        return self._over

    def _end(self, now: float, waited: float) -> None:
        if self._timing or self._timed(self._step + 1):
            begun = perf_counter()
            end = self._event()
            self._cost += perf_counter() - begun
            if self._timing and end is not None:
                within = max(max(waited, 0.0) - self._waited, 0.0)
                self._waiting.append(
                    TimedStep(self._step, self._before, self._marks, end, self._waited, within)
                )
                self._marks = []
            self._before = end
        else:
            self._before = None
        if self._timing:
            self._account(now)
        self._ended = now
        self._timing = False

    def _account(self, now: float) -> None:
        """Time fewer blocks if their events take more of the steps than they may."""
        if self._ended is not None and now > self._ended:
            self._spent += now - self._ended
            self._looks += 1
        if self._looks < LOOKS:
            return
        wanted = self._cost / (SHARE * self._spent)
        every = 1
        while every < wanted and every < RARELY:
            every *= 2  # powers of two: ranks that time fewer blocks time some of the others'
        self._every = every
        self._cost = self._spent = 0.0
        self._looks = 0

    def _put(self, number: int) -> None:
        begun = perf_counter()
        try:
            event = self._event()
        except Exception as error:  # noqa: BLE001  a device that is gone: training goes on
            self._fail(error)
            return
        if event is None:
            self._timing = False
        else:
            self._marks.append((number, event))
        self._cost += perf_counter() - begun

    def _event(self) -> Any:
        """Put an event into the current stream; None if a graph is being captured."""
        if self._capturing is not None and self._capturing():
            return None
        try:
            event = self._free.popleft()
        except IndexError:
            event = self._accelerator.Event(enable_timing=True)
        event.record(self._accelerator.current_stream(self._place))
        return event

    def _fail(self, error: Exception) -> None:
        self._over, self._timing, self._marks = True, False, []
        report_raised(self._reporter, "watch: events of stages", error)

    def _leave(self) -> None:
        """Release the events of a step that did not end."""
        if self._marks:
            self._free.extend(event for _, event in self._marks)
            self._marks = []

    # --- on the thread that writes ----------------------------------------------------------------------

    def waits(self, step: int) -> bool:
        """Return whether events of a step may still be pending."""
        return bool(self._waiting) and self._waiting[0].step <= step <= self._waiting[-1].step

    def take(self) -> list[tuple[int, tuple[float, ...]]]:
        """Return number and seconds by part of each step whose events have passed since the last call.

        The parts are the wait for data, then each stage by number, the rest first. Nothing is waited for.
        """
        seconds_ = []
        try:
            while self._waiting and passed(self._waiting[0]):
                timed = self._waiting[0]
                seconds_.append((timed.step, parts_of(timed)))
                self._waiting.popleft()
                self._free.extend(event for _, event in timed.marks)
                if timed.before is not None:
                    self._free.append(timed.before)
        except Exception as error:  # noqa: BLE001  a device that is gone: what was timed so far counts
            self._fail(error)
            self._waiting.clear()
        return seconds_


def passed(timed: TimedStep) -> bool:
    """Return whether a device has passed all events of a step."""
    return bool(timed.end.query()) and all(bool(event.query()) for _, event in timed.marks)


def parts_of(timed: TimedStep) -> tuple[float, ...]:
    """Return the seconds of a step by part: the wait for data, then each stage by number.

    Time before the step's first event is the wait for data as far as the host waited then; the rest, such as
    saving between two loops, belongs to no part. The host's wait for data within the step is taken from the
    first stage.
    """
    events = [*(event for _, event in timed.marks), timed.end]
    taken = [max(first.elapsed_time(second), 0.0) / 1e3 for first, second in pairwise(events)]
    gap = 0.0 if timed.before is None else max(timed.before.elapsed_time(events[0]), 0.0) / 1e3
    within = min(timed.within, taken[0])
    seconds = [0.0] * (1 + max(number for number, _ in timed.marks))
    for (number, _), seconds_taken in zip(timed.marks, taken, strict=True):
        seconds[number] += seconds_taken
    seconds[timed.marks[0][0]] -= within
    return (min(gap, timed.waited) + within, *seconds)


def device_stages(model: nn.Module | None, reporter: Reporter) -> DeviceStages | None:
    """Return the timer of stages on a model's device; None if the device has no events."""
    parameter = None if model is None else next(model.parameters(), None)
    if parameter is None or parameter.device.type in ("cpu", "meta"):
        return None
    accelerator = getattr(torch, parameter.device.type, None)
    if not hasattr(accelerator, "Event") or not hasattr(accelerator, "current_stream"):
        return None
    return DeviceStages(accelerator, parameter.device, reporter)
