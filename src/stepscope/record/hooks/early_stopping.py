"""EarlyStoppingHook: enough is enough."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from stepscope.errors import UsageError
from stepscope.record.arguments import integer, positive
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.hooks.hook import Hook
from stepscope.record.problems import shown

if TYPE_CHECKING:
    from stepscope.record.run import Run

_FLUSH_SECS = 5.0


class EarlyStoppingHook(Hook):
    """Asks the run to stop when a metric has not improved for long enough.

    A value improves on the best one so far if it is better by more than ``min_delta``; NaN never is. As in
    Keras, the run stops at the ``patience``-th value in a row that does not improve; as in tf.estimator,
    ``patience_steps`` counts steps since the best value instead. Like ``NanHook`` it hears of values from the
    thread that writes, and acts at the next boundary of a step.

    Args:
        metric: Tag, as ``eval/loss``.
        patience: Values without improvement.
        patience_steps: Steps without improvement, instead.
        mode: "min" where less is better, "max" where more is.
        min_delta: Smallest improvement that counts, in the metric's own unit.
        baseline: The first value must be better than this to be an improvement.
        min_steps: Values at earlier steps are only remembered.

    Attributes:
        best: The best value so far; None before the first.
        best_step: Its step.

    Raises:
        UsageError: Both patiences are given, or none, or an argument is out of range.
    """

    def __init__(
        self,
        metric: str,
        patience: int | None = None,
        *,
        patience_steps: int | None = None,
        mode: Literal["min", "max"] = "min",
        min_delta: float = 0.0,
        baseline: float | None = None,
        min_steps: int = 0,
    ) -> None:
        if not isinstance(metric, str) or not metric:
            raise UsageError(f"metric must be a tag, got {shown(metric)}", hint="metric='eval/loss'")
        if (patience is None) == (patience_steps is None):
            found = "both" if patience is not None else "neither"
            raise UsageError(f"give either patience or patience_steps, got {found}", hint="patience=5")
        if mode not in ("min", "max"):
            raise UsageError(
                f"mode must be 'min' or 'max', got {shown(mode)}", hint="mode='max' for accuracy"
            )
        if not isinstance(min_delta, int | float) or not 0 <= min_delta < math.inf:
            raise UsageError(f"min_delta must be 0 or more, got {shown(min_delta)}", hint="min_delta=0.001")
        self.metric, self.mode = metric, mode
        self._patience = None if patience is None else integer("patience", patience)
        self._patience_steps = positive("patience_steps", patience_steps)
        self._sign = 1.0 if mode == "min" else -1.0
        self._delta, self._min_steps = float(min_delta), integer("min_steps", min_steps)
        self._bar = math.inf if baseline is None else self._sign * float(baseline)
        self.best: float | None = None
        self.best_step: int | None = None
        self._first_step: int | None = None
        self._waited, self._done = 0, False
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to listen."""
        self._run = run
        run.listen(self._take, {self.metric})

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Say so where the metric never came: a misspelt name would otherwise go unnoticed."""
        if status == "finished" and self._first_step is None and run.last_step is not None:
            run.flush(timeout=deadline.left(_FLUSH_SECS))
            if self._first_step is None:
                found = f"EarlyStoppingHook waited for {self.metric!r}, which was never logged"
                run.warn(f"{found}\nhint: metric= is the tag as it is logged")

    def _take(self, tag: str, steps: Any, values: Any, walls: Any) -> None:
        """Judge new values, on the thread that writes."""
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            if not self._done:
                self._judge(step, value)

    def _judge(self, step: int, value: float) -> None:
        if self._first_step is None:
            self._first_step = step
        if self._sign * value + self._delta < self._bar:
            self._bar, self._waited = self._sign * value, 0
            self.best, self.best_step = value, step
            return
        self._waited += 1
        since = self._first_step if self.best_step is None else self.best_step
        if step >= self._min_steps and self._enough(step - since):
            self._done = True
            self._run.request_stop(self._reason(step), alone=True)

    def _enough(self, steps: int) -> bool:
        if self._patience is not None:
            return self._waited >= max(self._patience, 1)
        return steps >= (self._patience_steps or 0)

    def _reason(self, step: int) -> str:
        found = f"{self.metric} has not improved for {self._waited} values, at step {step}"
        if self.best is None:
            return f"{found}; it never did"
        return f"{found}; the best is {self.best:.6g} at step {self.best_step}"
