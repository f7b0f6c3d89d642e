"""``StepscopeCallback``: steps, waits for data, learning rates and the end of a Lightning training."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stepscope.errors import UsageError
from stepscope.integrations.guard import guarded
from stepscope.integrations.holder import RunHolder
from stepscope.integrations.lightning.logger import StepscopeLogger
from stepscope.integrations.lightning.package import Callback
from stepscope.integrations.stepper import Stepper, examples
from stepscope.integrations.torch.training import Training
from stepscope.record import Run
from stepscope.record.endings import outcome
from stepscope.record.problems import Problems, Reporter
from stepscope.record.steps import Pause

FETCHES = "_on_before_fetch", "_on_after_fetch"
"""Methods of Lightning's loop that are called before and after the wait for a batch."""
SETTINGS = (
    "max_epochs",
    "max_steps",
    "accumulate_grad_batches",
    "gradient_clip_val",
    "precision",
    "world_size",
)


class StepscopeCallback(Callback):  # type: ignore[misc]
    """Measures the steps of a Lightning training, and ends it when the run is asked to stop.

    ``Trainer(logger=StepscopeLogger("runs/first"), callbacks=[StepscopeCallback()])``. Steps are Lightning's:
    one per step of the optimizer, numbered from 0 and continued when a checkpoint is resumed; they call the
    run's hooks. The model and its optimizers are watched as by ``stepscope.integrations.torch.watch``.

    Args:
        run: The run's directory, or a run; by default that of the trainer's ``StepscopeLogger``.
        options: For ``stepscope.Run``, if a directory is given.
        watching: For ``watch``: further records of the model.

    Raises:
        UsageError: Options are invalid; or, when the training begins, there is neither a run nor a logger.
    """

    def __init__(
        self,
        run: Run | str | os.PathLike[str] | None = None,
        *,
        watching: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if run is None and options:
            raise UsageError(
                f"options for a run, {', '.join(sorted(options))}, and no directory",
                hint="StepscopeCallback('runs/first', …), or pass them to StepscopeLogger",
            )
        self._own = None if run is None else RunHolder(run, options)
        self._holder: RunHolder | None = self._own
        self._watching = dict(watching or {})
        self.before = 0
        """Steps of the run before the training's first one, if another Trainer took them."""
        self._training: Training | None = None
        self._restore: Callable[[], None] | None = None
        self._validation: Pause | None = None

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""
        return Problems() if self._holder is None else self._holder.reporter

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Find the run."""
        logger = next(
            (candidate for candidate in trainer.loggers if isinstance(candidate, StepscopeLogger)), None
        )
        if logger is not None:
            logger._know(trainer)
        self._holder = self._own or (logger and logger.holder)
        if self._holder is None:
            raise UsageError(
                "StepscopeCallback has no run to record in",
                hint="Trainer(logger=StepscopeLogger('runs/first'), …), or StepscopeCallback('runs/first')",
            )

    @guarded
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Record the model's facts, and begin to measure."""
        if self._holder is None:
            return
        run = self._holder.run()
        self._holder.describe({"trainer": _settings(trainer)})
        total = trainer.estimated_stepping_batches
        if isinstance(total, int) and total > 0:
            run.expect_steps(total)
        scaler = getattr(getattr(trainer, "precision_plugin", None), "scaler", None)
        self._training = Training(run, trainer.log_every_n_steps)
        self._restore = _listen(trainer, self._training.stepper)
        self._training.attach(trainer.model, trainer.optimizers, self._watching, scaler=scaler)

    def step_of(self, trainer: Any) -> int | None:
        """Return the number under which Lightning will log this step, None if it does not tell."""
        number = getattr(getattr(trainer.fit_loop, "epoch_loop", None), "_batches_that_stepped", None)
        return self.before + number if isinstance(number, int) else None

    def accumulates(self, trainer: Any) -> bool:
        """Return whether the batch that ended was not the last one of its step."""
        asks = getattr(trainer.fit_loop, "_should_accumulate", None)
        return bool(asks()) if callable(asks) else False

    @guarded
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Begin a step, unless this batch is a further part of one."""
        if self._training is not None and not self._training.stepper.running:
            self._training.stepper.begin(self.step_of(trainer))

    @guarded
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the step if the optimizer has stepped."""
        if self._training is None:
            return
        run = self._training.run
        run.examples += examples(batch)
        if trainer.accumulate_grad_batches != 1 and self.accumulates(trainer):
            return
        if self._training.end_step(run.current_step or 0):
            trainer.should_stop = True

    @guarded
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Leave the validation out of a step of several batches, in the middle of which it may come."""
        if self._training is not None and self._validation is None:
            self._validation = self._training.run.pause("evaluation")
            self._validation.__enter__()

    @guarded
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Go on with the step."""
        pause, self._validation = self._validation, None
        if pause is not None:
            pause.__exit__(None, None, None)

    @guarded
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure no more."""
        self._take_off()

    @guarded
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End a run of the callback's own as failed or stopped; a logger ends its run by itself."""
        self._take_off()
        if self._own is not None:
            self._own.end(*outcome(exception))

    @guarded
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """End a run of the callback's own."""
        self._take_off()
        if self._own is not None:
            self._own.end()

    def _take_off(self) -> None:
        training, restore = self._training, self._restore
        self._training = self._restore = self._validation = None
        if training is not None:
            training.take_off()
        if restore is not None:
            restore()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the objects of this process."""
        return {**self.__dict__, **dict.fromkeys(("_training", "_restore", "_validation"))}


def _settings(trainer: Any) -> dict[str, Any]:
    """Return the trainer's settings that shape the training."""
    values = {name: getattr(trainer, name, None) for name in SETTINGS}
    return {**values, "strategy": type(trainer.strategy).__name__}


def _listen(trainer: Any, stepper: Stepper) -> Callable[[], None]:
    """Learn from Lightning when a batch is requested and when it arrives.

    Between two batches lie validation, checkpoints and other callbacks too. Lightning tells its profiler of
    the wait alone, among thirty other actions of a step; its loop has a method for each end of the wait.

    Returns:
        The function that undoes it.
    """
    loop = getattr(trainer.fit_loop, "epoch_loop", None)
    before, after = (getattr(loop, name, None) for name in FETCHES)
    if not (callable(before) and callable(after)):
        return lambda: None  # the wait is unknown

    def asking() -> None:
        before()
        stepper.asking()

    def got() -> None:
        stepper.got()
        after()

    ours = dict(zip(FETCHES, (asking, got), strict=True))
    vars(loop).update(ours)

    def restore() -> None:
        for name, function in ours.items():
            if vars(loop).get(name) is function:
                delattr(loop, name)

    return restore
