"""overfitting: the evaluation loss rises while the training loss still falls."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from stepscope.health.evaluations import Evaluated
from stepscope.health.finding import number
from stepscope.health.gate import Gate
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream


@dataclass
class _State:
    gate: Gate
    best: float = inf
    best_step: int = 0
    train_at_best: float = inf
    count: int = 0


class Overfitting(Evaluated):
    """Compares every evaluation with the best one so far, and with training."""

    id = "overfitting"
    title = "Overfitting"
    formula = (
        "(L_eval - L_train) / |L_train| > gap and L_eval > (1 + rise) * its best and L_train < L_train at "
        "that best; so many evaluations in a row"
    )
    source = "SageMaker Debugger Overfit (gap 0.1); the rise: ours"
    window = "at the third such evaluation, from the fourth on"
    defaults = thresholds(gap=0.1, rise=0.05, evaluations=3, calm=2)
    action = (
        "keep the checkpoint of the best evaluation; stop early, add weight decay, dropout, augmentation or "
        "data, or take a smaller model"
    )

    def __init__(self, limits: dict[str, float] | None = None) -> None:
        super().__init__(limits)
        self._states: dict[Stream, _State] = {}

    def evaluation(self, at: At, value: float, train: float) -> None:
        """Judge one evaluation."""
        state = self._states.get(at.stream)
        if state is None:
            gate = Gate(opens=self.limit("evaluations"), closes=self.limit("calm"))
            state = self._states[at.stream] = _State(gate)
        state.count += 1
        if state.count > state.gate.opens:
            self.judged()
        limits = self.limits
        rose = value > state.best + limits["rise"] * abs(state.best)
        bad = rose and train < state.train_at_best and value - train > limits["gap"] * abs(train)
        change = state.gate.see(bad)
        if value < state.best:
            state.best, state.best_step, state.train_at_best = value, at.step, train
        if change == "close":
            self.close(at)
        elif change == "open":
            text = (
                f"the evaluation loss rose from {number(state.best)} at step {state.best_step} to "
                f"{number(value)}, while the training loss fell to {number(train)}"
            )
            here = At(at.stream, at.step, at.wall, min(state.best_step, at.step))
            values = {"eval": value, "best_eval": state.best, "best_step": state.best_step, "train": train}
            self.open(here, text, values)
