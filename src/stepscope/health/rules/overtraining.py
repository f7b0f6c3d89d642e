"""overtraining: neither training nor evaluation improves any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

import numpy as np

from stepscope.health.evaluations import Evaluated
from stepscope.health.gate import AlarmGate
from stepscope.health.noise import step_noise
from stepscope.health.rule import At, thresholds
from stepscope.health.rules.loss_not_decreasing import TINY_RATE
from stepscope.health.series import Stream
from stepscope.text import number

MOST = 64


@dataclass
class _OvertrainingState:
    gate: AlarmGate = field(default_factory=AlarmGate)
    recent: list[float] = field(default_factory=list)
    best: float = inf
    best_step: int = 0
    best_wall: float = -inf
    best_train: float = inf
    until: int = 0
    since: int = 0
    train_since: int = 0
    count: int = 0


class Overtraining(Evaluated):
    """Counts evaluations since the last improvement of either loss, once the schedule has ended.

    A learning rate that still changes may bring the next improvement, so it must not have changed for all of
    that time, or be near 0.
    """

    id = "overtraining"
    title = "Overtraining"
    severity = "low"
    formula = (
        "no training loss below (1 - delta) * its best for patience_train evaluations, and no evaluation "
        "loss below (1 - delta) * its best for patience_eval evaluations and for half as many as there were "
        "until the best; the noise of the evaluations is below delta; the recorded learning rate stayed the "
        "same meanwhile, after falling below a hundredth of its largest value, or is at most 1e-8"
    )
    source = "SageMaker Debugger Overtraining (patience 5 and 10; its delta of 0.1 absolute made relative)"
    window = "at the tenth evaluation without an improvement, or at half as many as until the best"
    chance = "none from noise (it is below delta); the recorded learning rate says that the schedule is over"
    fewest = "20 evaluations and the learning rate"
    roles = ("loss", "learning_rate")
    unfit = ("adversarial", "reinforcement", "contrastive", "variational")
    defaults = thresholds(patience_train=5, patience_eval=10, delta=0.01)
    action = "stop: more steps cost time and change nothing; keep the checkpoint of the best evaluation"

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._states: dict[Stream, _OvertrainingState] = {}

    def forget(self, stream: Stream) -> None:
        """Judge a series as if it had just begun."""
        self._states.pop(stream, None)

    def evaluation(self, at: At, value: float, train: float) -> None:
        """Judge one evaluation."""
        state = self._states.setdefault(at.stream, _OvertrainingState())
        delta = self.limits["delta"]
        state.count += 1
        state.recent = [*state.recent, value][-MOST:]
        better = state.best == inf or value < state.best - delta * abs(state.best)
        if better:
            state.best, state.best_step, state.best_wall = value, at.step, at.wall
            state.since, state.until = 0, state.count
        else:
            state.since += 1
        if state.best_train == inf or train < state.best_train - delta * abs(state.best_train):
            state.best_train, state.train_since = train, 0
        else:
            state.train_since += 1
        # Once open, only a better evaluation closes it.
        change = state.gate.see(not better if state.gate.is_open else self._idles(state, at))
        if change == "close":
            self.close(at)
        elif change == "open":
            text = (
                f"{state.since} evaluations without an improvement: the best, {number(state.best)}, was at "
                f"step {state.best_step}, and the training loss stands at {number(train)}"
            )
            here = At(at.stream, at.step, at.wall, min(state.best_step, at.step))
            values = {"best_eval": state.best, "best_step": state.best_step, "eval": value, "train": train}
            self.open(here, text, values)

    def _idles(self, state: _OvertrainingState, at: At) -> bool:
        """Return whether there is nothing more to come."""
        if state.count > self.limits["patience_eval"]:
            self.judged()
        if state.train_since < self.limits["patience_train"]:
            return False
        if state.since < max(self.limits["patience_eval"], state.until // 2):
            return False
        run = at.stream.run if self._training is None else self._training.run
        rate, most = self.context.rate(run, at.wall), self.context.largest_rate(run, at.wall)
        if rate is None or most is None:
            return False
        spent = rate <= TINY_RATE or (
            rate < 0.01 * most and not self.context.rescheduled(run, state.best_wall, at.wall)
        )
        noise = step_noise(np.array(state.recent[-state.since :]))
        return spent and noise <= self.limits["delta"] * abs(state.best)
