"""Hooks that end a training: after so many steps, on all ranks together, without progress, or at NaN."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal

from stepscope.errors import DivergedError, UsageError
from stepscope.kernels.steps import MAX_STEP, Rest
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.config import check_either, integer, positive, word
from stepscope.record.hooks.functions import needed
from stepscope.record.problems import shown
from stepscope.record.protocol import Hook, Wanted
from stepscope.text import counted, not_finite

if TYPE_CHECKING:
    from stepscope.record.run import Run


class StopAtStepHook(Hook):
    """Asks the run to stop after a step. Every rank counts for itself, so all stop after the same one.

    Args:
        last_step: The number of steps to do, including those before a resume; if they are already done, no
            step begins.
        num_steps: Number of steps from the run's first one, instead.

    Raises:
        UsageError: Both are given, or neither, or one is not 1 or more.
    """

    ranks = "all"

    def __init__(self, last_step: int | None = None, *, num_steps: int | None = None) -> None:
        check_either("last_step=10_000", last_step=last_step, num_steps=num_steps)
        self._last = positive("last_step", last_step) or 0
        self._steps = positive("num_steps", num_steps)
        self._rest: Rest = Rest()
        self._run: Run

    def begin(self, run: Run) -> None:
        """Work out the last step, and set it as the length of the run if nothing else has."""
        self._run = run
        begun = run.step_counter.next
        if self._steps is not None:
            self._last = begun + self._steps
        run.expect_steps(self._last)
        if begun >= self._last:
            self._stop()

    def after_step(self, step: int) -> None:
        """Stop after the last one."""
        if step + 1 >= self._last:
            self._stop()
        self._rest.until(MAX_STEP, high=self._last - 1)

    def _stop(self) -> None:
        self._run.request_stop(f"{self._last} steps are done")


class StopTogetherHook(Hook):
    """Lets the ranks of a job agree to stop: if one was asked to, all of them stop after the same step.

    If one rank left the loop alone, the others would wait for it in their next collective operation.

    Args:
        any_of: Called on every rank at the same steps with a truth value, whether this rank wants to stop;
            returns whether any rank does, by a collective of the user's own framework.
        every_n_steps: Number of steps between two calls.

    Raises:
        UsageError: ``any_of`` is not a function, or the interval is out of range.
    """

    ranks = "all"

    def __init__(self, any_of: Callable[[bool], bool], every_n_steps: int = 1) -> None:
        self._any_of = needed("any_of", any_of)
        self._every = positive("every_n_steps", every_n_steps) or 1
        self._run: Run

    def begin(self, run: Run) -> None:
        """Make ``steps()`` leave the decision to this hook."""
        self._run = run
        run.share_stops()

    def after_step(self, step: int) -> None:
        """Ask the other ranks."""
        if step % self._every == 0 and self._run.cost.call(self._any_of, self._run.should_stop):
            self._run.stop_together()


_FLUSH_SECS = 5.0


class EarlyStoppingHook(Hook):
    """Asks the run to stop when a metric has not improved for long enough.

    A value improves on the best one so far if it is better by more than ``min_delta``; NaN never is. As in
    Keras, the run stops at the ``patience``-th value in a row that does not improve; as in tf.estimator,
    ``patience_steps`` counts steps since the best value instead. Like ``NanHook`` it receives values from the
    writer's thread, and acts at the next step boundary.

    Args:
        metric: A tag, such as ``eval/loss``.
        patience: Number of values without improvement.
        patience_steps: Number of steps without improvement, instead.
        mode: "min" if lower is better, "max" if higher is.
        min_delta: The smallest improvement that counts, in the unit of the metric.
        baseline: The first value must be better than this to count as an improvement.
        min_steps: Values at earlier steps are remembered but never stop the run.

    Attributes:
        best: The best value so far; None before the first.
        best_step: Its step.

    Raises:
        UsageError: Both patiences are given, or neither, or an argument is out of range.
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
        check_either("patience=5", patience=patience, patience_steps=patience_steps)
        self.mode = word("mode", mode, "min", "max", hint="mode='max' for accuracy")
        if not isinstance(min_delta, int | float) or not 0 <= min_delta < math.inf:
            raise UsageError(f"min_delta must be 0 or more, got {shown(min_delta)}", hint="min_delta=0.001")
        self.metric = metric
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
        """Warn if the metric was never logged: a misspelt name would otherwise go unnoticed."""
        if status == "finished" and self._first_step is None and run.last_step is not None:
            run.flush(timeout=deadline.left(_FLUSH_SECS))
            if self._first_step is None:
                message = f"EarlyStoppingHook waited for {self.metric!r}, which was never logged"
                run.warn(f"{message}\nhint: metric= is the tag as it is logged")

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
        message = f"{self.metric} has not improved for {counted(self._waited, 'value')}, at step {step}"
        if self.best is None:
            return f"{message}; it never did"
        return f"{message}; the best is {self.best:.6g} at step {self.best_step}"


Action = Literal["raise", "stop", "warn"]
_LOSS = re.compile(r"(^|[^a-z])loss([^a-z]|$)", re.IGNORECASE)
_HINT = "look at the steps before it: the learning rate, the gradients' norm, the data of that step"


class NanHook(Hook):
    """Ends the training, or warns, when a logged value is NaN or infinite.

    It receives values on the writer's thread, a quarter of a second after they were logged or once
    their device has computed them, and so never makes the training wait. It acts at the next step boundary,
    or when the run is closed. On every rank it watches the values logged there.

    Args:
        tags: Names, or a function that takes a name and returns whether to watch it; by default every tag
            with the word "loss" in it, and those that a stored correction calls a loss.
        action: "raise" a ``DivergedError`` in the loop, "stop" as ``run.request_stop`` does, or "warn" once
            per tag.

    Raises:
        UsageError: The action is none of these.
    """

    ranks = "all"

    def __init__(
        self, tags: Collection[str] | Callable[[str], bool] | None = None, *, action: Action = "raise"
    ) -> None:
        self._tags: Wanted | None = tags
        self._action = word("action", action, "raise", "stop", "warn", hint="action='stop'")
        self._told: set[str] = set()
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to listen."""
        self._run = run
        run.listen(self._take, losses_of(run.log_dir) if self._tags is None else self._tags)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Hear of the last steps too."""
        if status == "finished":
            run.flush(timeout=deadline.left(_FLUSH_SECS))

    def _take(self, tag: str, steps: Any, values: Any, walls: Any) -> None:
        """Look at new values, on the thread that writes."""
        if tag in self._told:
            return
        finite = abs(values) < float("inf")  # False for NaN too
        if finite.all():
            return
        self._told.add(tag)
        at = int(finite.argmin())
        self._act(f"{tag} is {not_finite(float(values[at]))} at step {int(steps[at])}")

    def _act(self, value: str) -> None:
        run = self._run
        if self._action == "warn":
            error = DivergedError(value, hint=_HINT, path=run.log_dir)
            run.warn(str(error), later=True)
        elif self._action == "stop":
            run.request_stop(value, alone=True)
        else:
            run.request_stop(value, error=DivergedError(value, hint=_HINT, path=run.log_dir))


def losses_of(log_dir: str) -> Callable[[str], bool]:
    """Return which tags of a run are losses: by a correction, or else by the word."""
    from stepscope.names.meanings import meanings_at  # takes some milliseconds to import

    meanings = meanings_at(log_dir)
    return lambda tag: meanings.kind(tag) == "loss" if meanings.corrects(tag) else is_loss(tag)


def is_loss(tag: str) -> bool:
    """Return whether a tag holds the word "loss": ``train/loss`` and ``loss_g`` do, ``glossy`` does not."""
    return _LOSS.search(tag) is not None
