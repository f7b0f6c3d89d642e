"""overfitting: the evaluation loss rises while the training loss still falls."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np

from stepscope.health.evaluations import Evaluated
from stepscope.health.noise import Floats, curve_noise, rise_chance, step_noise, taken_back
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

MOST = 512
"""Evaluations that are kept."""
FEWEST = 8
SINCE = 5
"""Evaluations after the best one."""
FEW = 4
"""Evaluations after the best, each worse than the one before, that are enough for a large rise."""
LARGE = 0.5
"""Share of the best by which so few must have risen."""
LOST = 0.25
"""Share of the progress that so few must have lost again; as many as ``SINCE`` as in longer runs."""
HALVED = 0.5
"""Share of its value at the best evaluation to which the training loss must have fallen meanwhile."""


@dataclass
class _OverfittingState:
    values: list[float] = field(default_factory=list)
    trains: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    start: float = -inf
    is_open: bool = False
    done: bool = False

    @property
    def train_now(self) -> float:
        """Median training loss of the last three evaluations."""
        return float(np.median(self.trains[-3:]))

    def train_at(self, best: int) -> float:
        """Return the median training loss of the three evaluations around the best one."""
        return float(np.median(self.trains[best : best + 3]))


class Overfitting(Evaluated):
    """Reports a rise of the evaluation loss that its own noise does not explain, once a run.

    The best evaluation is the least median of three in a row, so that a lucky one does not count.
    """

    id = "overfitting"
    title = "Overfitting"
    formula = (
        "median of the last 5 L_eval > best + max(rise * |best|, learnt * (the largest of the first 3 - "
        "best), z * their noise, back * the largest rise that was undone later), and p of the Mann-Kendall "
        "test for a rise since the best, with the effective number of points, < p, and L_eval > L_train + "
        "gap * |L_train|, and L_train is below its value at the best; best: the lowest median of 3 in a row; "
        "noise: from differences of neighbours; or the 4 evaluations after the lowest each above the one "
        "before, by half of the lowest, a quarter of what was learnt (from 5 on: learnt) and z * the noise "
        "of second differences in all, while L_train fell to half; once a run"
    )
    source = (
        "SageMaker Debugger Overfit (gap 0.1); the rise against noise: Mann 1945, Kendall 1975, Hamed and "
        "Rao 1998"
    )
    window = (
        "at the seventh evaluation or so after the best, from the eighth on; at the fourth or fifth after "
        "the best where it rose by much"
    )
    chance = "below 1e-3 a run, from noise without memory (p at its smallest, z 4)"
    fewest = "8 evaluations, 7 of them after the best; 5 for a large rise"
    unfit = ("adversarial", "reinforcement", "contrastive", "variational")
    defaults = thresholds(gap=0.1, rise=0.25, learnt=0.03, z=4, back=2.0, p=1e-3)
    action = (
        "keep the checkpoint of the best evaluation; stop early, add weight decay, dropout, augmentation or "
        "data, or take a smaller model"
    )

    def __init__(self, limits: dict[str, float] | None = None) -> None:
        super().__init__(limits)
        self._states: dict[Stream, _OverfittingState] = {}

    def forget(self, stream: Stream) -> None:
        """Judge a series as if it had just begun."""
        self._states.pop(stream, None)

    def evaluation(self, at: At, value: float, train: float) -> None:
        """Judge one evaluation."""
        state = self._states.setdefault(at.stream, _OverfittingState())
        if len(state.values) < 3:
            state.start = max(state.start, value)
        state.values = [*state.values, value][-MOST:]
        state.trains = [*state.trains, train][-MOST:]
        state.steps = [*state.steps, at.step][-MOST:]
        if len(state.values) < FEWEST:
            self._in_a_row(state, at, value, train)
            return
        self.judged()
        values = np.array(state.values)
        middles = np.median(np.lib.stride_tricks.sliding_window_view(values, 3), axis=1)
        best = int(np.argmin(middles))
        if state.is_open and best >= len(middles) - 2:
            state.is_open = False
            self.close(at)
        if not state.done:
            self._in_a_row(state, at, value, train)
        if state.done or len(middles) - 1 - best < SINCE or not self._rose(state, values, middles, best):
            return
        state.is_open = state.done = True
        step = state.steps[best + 1]
        recent = number(float(np.median(values[-SINCE:])))
        text = (
            f"the evaluation loss rose from {number(middles[best])} at step {step} to {recent}, "
            f"while the training loss fell from {number(state.train_at(best))} to {number(state.train_now)}"
        )
        here = At(at.stream, at.step, at.wall, min(step, at.step))
        evidence = {"eval": value, "best_eval": float(middles[best]), "best_step": step, "train": train}
        self.open(here, text, evidence, since_step=min(step, at.step))

    def _in_a_row(self, state: _OverfittingState, at: At, value: float, train: float) -> None:
        """Judge a large rise without a fall in between, which few evaluations show, as of a fine-tuning.

        The noise is that of second differences: a short training falls steeply in most of its evaluations,
        and that is no noise.
        """
        values = np.array(state.values)
        best = int(np.argmin(values))
        after = len(values) - 1 - best
        if state.done or after < FEW:
            return
        limits, least, then = self.limits, float(values[best]), state.trains[best]
        lost = LOST if after < SINCE else limits["learnt"]
        rise = max(LARGE * abs(least), lost * (state.start - least), limits["z"] * curve_noise(values))
        learnt = train < then - (1 - HALVED) * abs(then) and value - train > limits["gap"] * abs(train)
        if not learnt or value - least <= rise or (np.diff(values[best:]) <= 0).any():
            return
        state.is_open = state.done = True
        step = state.steps[best]
        text = (
            f"the evaluation loss rose from {number(least)} at step {step} to {number(value)}, "
            f"while the training loss fell from {number(then)} to {number(train)}"
        )
        here = At(at.stream, at.step, at.wall, min(step, at.step))
        evidence = {"eval": value, "best_eval": least, "best_step": step, "train": train}
        self.open(here, text, evidence, since_step=min(step, at.step))

    def _rose(self, state: _OverfittingState, values: Floats, middles: Floats, best: int) -> bool:
        limits, least, recent = self.limits, float(middles[best]), float(np.median(values[-SINCE:]))
        train, then = state.train_now, state.train_at(best)
        # Next to nothing of what was learnt is nothing to stop for, however large it is beside a loss near 0.
        learning = limits["learnt"] * (state.start - least)
        noise = max(limits["z"] * step_noise(values), limits["back"] * taken_back(middles))
        clear = recent - least > max(limits["rise"] * abs(least), learning, noise)
        learnt = train < then and recent - train > limits["gap"] * abs(train)
        return bool(clear and learnt and rise_chance(values[best + 1 :][-64:]) < limits["p"])
