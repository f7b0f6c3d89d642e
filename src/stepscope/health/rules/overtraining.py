"""overtraining: neither training nor evaluation improves any more."""

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
    best_train: float = inf
    since: int = 0
    train_since: int = 0
    count: int = 0


class Overtraining(Evaluated):
    """Counts evaluations since the last improvement of either loss."""

    id = "overtraining"
    title = "Overtraining"
    severity = "low"
    formula = (
        "no training loss below (1 - delta) * its best for patience_train evaluations, and no evaluation "
        "loss below (1 - delta) * its best for patience_eval evaluations"
    )
    source = "SageMaker Debugger Overtraining (patience 5 and 10; its delta of 0.1 absolute made relative)"
    window = "at the tenth evaluation without an improvement"
    defaults = thresholds(patience_train=5, patience_eval=10, delta=0.01)
    action = "stop: more steps cost time and change nothing; keep the checkpoint of the best evaluation"

    def __init__(self, limits: dict[str, float] | None = None) -> None:
        super().__init__(limits)
        self._states: dict[Stream, _State] = {}

    def evaluation(self, at: At, value: float, train: float) -> None:
        """Judge one evaluation."""
        state = self._states.setdefault(at.stream, _State(Gate()))
        delta = self.limits["delta"]
        better = state.best == inf or value < state.best - delta * abs(state.best)
        if better:
            state.best, state.best_step, state.since = value, at.step, 0
        else:
            state.since += 1
        if state.best_train == inf or train < state.best_train - delta * abs(state.best_train):
            state.best_train, state.train_since = train, 0
        else:
            state.train_since += 1
        state.count += 1
        if state.count > self.limits["patience_eval"]:
            self.judged()
        idle = (
            state.train_since >= self.limits["patience_train"] and state.since >= self.limits["patience_eval"]
        )
        # Once open, only a better evaluation closes it.
        change = state.gate.see(not better if state.gate.is_open else idle)
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
