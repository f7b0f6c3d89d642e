"""The cost of capturing to the training, and whether the budget allows more.

The unit is stolen time: seconds that training took longer because of a capture. It has three parts.

- Of the captured steps: their durations less as many usual ones, and the hook's own calls if they lie outside
of steps. That is never less than the stalls at start and stop.
- Of the steps that ran while the profiler's result was written, likewise.
- Of the steps that ran while the profile was analysed, and the few after that, likewise.

A machine's speed varies by more than the last two cost, so a single capture's share may be negative by
chance. Chance evens out in the sum over all captures, and only that sum, of each part by itself, is taken to
be at least 0.

The usual duration is the mean of the last undisturbed steps, without the rare long ones caused by a
checkpoint or an evaluation: a median would count as stolen the time that chance adds to some steps of any
loop. A capture is booked by those before it, and again once as many have come after it: a drift in speed then
adds as much on one side as it takes on the other.

A capture that is held to the budget may begin once the stolen time of all such captures, with the expected
cost of this one, is below ``max_overhead`` of the time since the run began. Above half of that, it also waits
until the one before is booked for good: a run that captured whenever its account happens to be low would cost
more than it says. The first one is always allowed, so that a short run has a profile; a run shorter than its
cost over ``max_overhead`` stays above the budget, and the profile says so. The user's own captures are
counted, too, but the budget neither limits it nor pays for it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import fmean, median

TYPICAL_STEPS = 64
"""Undisturbed steps needed to know how long a step takes."""
CALM_STEPS = TYPICAL_STEPS // 2
"""Most undisturbed steps after a capture with which it is booked for good; no more than it disturbed."""
TRAILING = 2
"""Steps after a capture is booked in which the run records that; they are disturbed, too."""
MIN_STEPS = 3
LONG = 3.0
"""Medians at which the duration of an undisturbed step is cut off: something else made it long."""


@dataclass
class CaptureAccount:
    """Stolen time of one capture, while it is being measured.

    Attributes:
        steps: Durations in seconds of the captured steps, and of those that warmed up.
        writing: Durations in seconds of the steps while the profiler's result was written.
        after: Durations in seconds of the steps while the profile was analysed, and of a few more.
        calls_s: Seconds in the hook's own calls outside of steps.
        start_s: Stall at the start, in seconds.
        stop_s: Stall at the stop, in seconds.
    """

    steps: list[float] = field(default_factory=list)
    writing: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    calls_s: float = 0.0
    start_s: float = 0.0
    stop_s: float = 0.0

    def captured_s(self, usual_s: float | None) -> float:
        """Return the seconds stolen up to the stop: at least the stalls at start and stop.

        Args:
            usual_s: Duration of an undisturbed step in seconds; None if that is not known.
        """
        direct = max(self.start_s + self.stop_s, self.calls_s)
        if usual_s is None or not self.steps:
            return direct
        return max(sum(self.steps) - usual_s * len(self.steps) + self.calls_s, direct)

    def writing_s(self, usual_s: float | None) -> float:
        """Return the seconds stolen while the profile was written, which chance may make negative."""
        return _beyond(self.writing, usual_s)

    def after_s(self, usual_s: float | None) -> float:
        """Return the seconds stolen after that, likewise."""
        return _beyond(self.after, usual_s)

    @property
    def disturbed(self) -> int:
        """How many steps it disturbed."""
        return len(self.steps) + len(self.writing) + len(self.after)


def _beyond(steps: list[float], usual_s: float | None) -> float:
    return 0.0 if usual_s is None else sum(steps) - usual_s * len(steps)


class CaptureBudget:
    """The running account of one run.

    Args:
        max_overhead: Largest ratio of stolen to elapsed time.
        began: Steady time in seconds at which the run began.
    """

    def __init__(self, max_overhead: float, began: float) -> None:
        self.max_overhead, self.began = max_overhead, began
        self.captured_s = self.writing_s = self.after_s = 0.0
        """Of all captures that are settled, by part."""
        self.expected_s = 0.0
        """Expected cost of the next capture."""
        self.captures = self.held = 0
        """How many are settled, and how many of them were held to the budget."""
        self._free_s = 0.0
        """The stolen time of captures that are not held to it."""
        self._normal: deque[float] = deque(maxlen=TYPICAL_STEPS)
        self._trailing = 0
        self._calm_left = 0
        """Undisturbed steps until the last capture is booked for good."""
        self._last: tuple[CaptureAccount, float | None] | None = None
        """The last capture and by which it was counted, until that is done for good."""
        self._last_held = True

    def normal(self, seconds: float) -> None:
        """Note the duration of a step that no capture disturbs, in seconds."""
        if not self._trailing:
            self._normal.append(seconds)
            if self._last is not None:
                self._calm_left -= 1
                if self._calm_left <= 0:
                    self._rebook()
            return
        self._trailing -= 1
        usual = self.usual_s
        if usual is not None:
            before = self.stolen_s
            self.after_s += seconds - usual
            self._excuse(before)

    @property
    def usual_s(self) -> float | None:
        """Mean duration of an undisturbed step; None before there are enough."""
        if len(self._normal) < MIN_STEPS:
            return None
        most = LONG * median(self._normal)
        return fmean(min(duration, most) for duration in self._normal)

    @property
    def stolen_s(self) -> float:
        """Seconds that all settled captures stole."""
        return self.captured_s + max(self.writing_s, 0.0) + max(self.after_s, 0.0)

    def settle(self, account: CaptureAccount, *, held: bool = True) -> float:
        """Count a capture and return its stolen time in seconds, by chance below 0.

        Args:
            account: Its cost.
            held: Whether it was held to the budget.
        """
        self._rebook()
        usual, before, self._last_held = self.usual_s, self.stolen_s, held
        stolen = self._book(account, usual)
        self._excuse(before)
        self.held += held
        # The first capture pays for loading the profiler; later ones are expected to cost what they did.
        captured = account.captured_s(usual)
        again = captured if self.captures else min(captured, max(account.stop_s, captured / 2))
        self.captures += 1
        self._last, self._trailing = (account, usual), TRAILING
        self._calm_left = min(account.disturbed, CALM_STEPS)
        self.expected_s = again + (self.stolen_s - self.captured_s) / self.captures
        return stolen

    def _book(self, account: CaptureAccount, usual: float | None, sign: int = 1) -> float:
        captured, writing, after = account.captured_s(usual), account.writing_s(usual), account.after_s(usual)
        self.captured_s += sign * captured
        self.writing_s += sign * writing
        self.after_s += sign * after
        return captured + writing + after

    def _rebook(self) -> None:
        """Book the last capture for good, by the steps on both sides of it."""
        if self._last is None:
            return
        account, usual = self._last
        before = self.stolen_s
        self._book(account, usual, -1)
        self._book(account, self.usual_s)
        self._excuse(before)
        self._last = None

    def _excuse(self, before: float) -> None:
        """Take the time stolen since off the account, if the last capture is not held to the budget."""
        if not self._last_held:
            self._free_s += self.stolen_s - before

    def allows(self, now: float) -> bool:
        """Return whether a capture may begin that is held to the budget."""
        if not self.held:
            return True
        cost = self.stolen_s - self._free_s + self.expected_s
        limit = self.max_overhead * (now - self.began)
        return cost <= (limit if self._last is None else limit / 2)

    def ratio(self, now: float) -> float:
        """Return stolen over elapsed time."""
        elapsed = now - self.began
        return self.stolen_s / elapsed if elapsed > 0 else 0.0
