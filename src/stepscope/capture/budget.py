"""What capturing costs the training, and whether there is room for more.

The unit is stolen time: seconds that training took longer because of a capture. It has two parts.

- Of the captured steps: their durations less as many usual ones, and the hook's own calls where they lie
  outside of steps. That is never less than the stalls at start and stop.
- Of the steps that ran while the profile was written and analysed, likewise. A machine's speed wanders by
  more than this costs, so a single capture's share may be negative by chance. Chance evens out in the sum
  over all captures, and only that sum is held to be at least nothing.

What is usual is the mean of the last steps that were left alone, without the rare long ones, which a
checkpoint or an evaluation makes: a median would book as stolen what chance adds to some steps of any loop.

A scheduled capture may begin once all stolen time, with what this capture is expected to cost, is below
``max_overhead`` of the time since the run began. The first one is always allowed, so that a short run has a
profile; a run shorter than its cost over ``max_overhead`` stays above the budget, and the profile says so.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import fmean, median

TYPICAL_STEPS = 64
"""Undisturbed steps by which it is known what a step takes."""
TRAILING = 2
"""Steps after a capture is booked in which the run writes that down: disturbed, too."""
FEWEST = 3
LONG = 3.0
"""Beyond so many medians a step that was left alone counts as so many: something else made it long."""


@dataclass
class Account:
    """Stolen time of one capture, in the making.

    Attributes:
        steps: Durations in seconds of the captured steps, and of those that warmed up.
        after: Durations in seconds of the steps while the profile was written and analysed.
        calls_s: Seconds in the hook's own calls outside of steps.
        start_s: Stall at the start, in seconds.
        stop_s: Stall at the stop, in seconds.
    """

    steps: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    calls_s: float = 0.0
    start_s: float = 0.0
    stop_s: float = 0.0

    def captured_s(self, usual_s: float | None) -> float:
        """Return the seconds stolen up to the stop: at least what the stalls at start and stop took.

        Args:
            usual_s: Duration of an undisturbed step in seconds; None where that is not known.
        """
        direct = max(self.start_s + self.stop_s, self.calls_s)
        if usual_s is None or not self.steps:
            return direct
        return max(sum(self.steps) - usual_s * len(self.steps) + self.calls_s, direct)

    def after_s(self, usual_s: float | None) -> float:
        """Return the seconds stolen after the stop, which chance may make negative."""
        return 0.0 if usual_s is None else sum(self.after) - usual_s * len(self.after)


class Budget:
    """The running account of one run.

    Args:
        max_overhead: Largest ratio of stolen to elapsed time.
        began: Steady time in seconds at which the run began.
    """

    def __init__(self, max_overhead: float, began: float) -> None:
        self.max_overhead, self.began = max_overhead, began
        self.captured_s = self.after_s = 0.0
        """Of all captures that are settled, by part."""
        self.expected_s = 0.0
        """What the next capture will cost."""
        self.captures = 0
        self._normal: deque[float] = deque(maxlen=TYPICAL_STEPS)
        self._trailing = 0

    def normal(self, seconds: float) -> None:
        """Note the duration of a step that no capture disturbs, in seconds."""
        if not self._trailing:
            self._normal.append(seconds)
            return
        self._trailing -= 1
        usual = self.usual_s
        if usual is not None:
            self.after_s += seconds - usual

    @property
    def usual_s(self) -> float | None:
        """Mean duration of an undisturbed step; None before there are enough."""
        if len(self._normal) < FEWEST:
            return None
        most = LONG * median(self._normal)
        return fmean(min(each, most) for each in self._normal)

    @property
    def stolen_s(self) -> float:
        """Seconds that all settled captures stole."""
        return self.captured_s + max(self.after_s, 0.0)

    def settle(self, account: Account) -> float:
        """Book a capture and return what it stole in seconds, by chance below 0."""
        usual = self.usual_s
        captured, after = account.captured_s(usual), account.after_s(usual)
        self.captured_s += captured
        self.after_s += after
        # The first capture pays for loading the profiler; later ones are expected to cost what they did.
        again = captured if self.captures else min(captured, max(account.stop_s, captured / 2))
        self.captures += 1
        self._trailing = TRAILING
        self.expected_s = again + max(self.after_s, 0.0) / self.captures
        return captured + after

    def allows(self, now: float) -> bool:
        """Whether a scheduled capture may begin."""
        if not self.captures:
            return True
        return self.stolen_s + self.expected_s <= self.max_overhead * (now - self.began)

    def ratio(self, now: float) -> float:
        """Return stolen over elapsed time."""
        elapsed = now - self.began
        return self.stolen_s / elapsed if elapsed > 0 else 0.0
