"""Lightning: its Trainer gets our callback, which counts the steps, and one that records what is logged."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from stepscope.launch.process import process

BATCH = (
    "on_train_batch_start",
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
)
"""Hooks of a batch. Lightning enters a context of its profiler around each, also if it does nothing."""


def install(module: ModuleType) -> None:
    """Add the callbacks to every Trainer that fits.

    Args:
        module: ``lightning.pytorch.trainer.trainer`` or that of ``pytorch_lightning``.
    """
    process.lead(module.Trainer, "fit", _add)


def _add(trainer: Any) -> None:
    from stepscope.integrations.lightning import StepscopeCallback
    from stepscope.integrations.lightning.package import Callback

    if any(isinstance(callback, StepscopeCallback) for callback in trainer.callbacks):
        return

    class Counted(StepscopeCallback):
        """Counts on from where another Trainer of this process has ended: each counts from 0."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            run = process.opened
            if run is not None and not trainer.global_step:
                self.before = run.step_counter.next
            super().on_train_start(trainer, pl_module)

    class Logged(Callback):  # type: ignore[misc]
        """Makes the run when the strategy has told the ranks apart, and records the logged metrics."""

        counted: Counted | None = None

        def __init__(self) -> None:
            super().__init__()
            self.metrics: dict[str, Any] = {}
            self.news: dict[str, Any] = {}
            self.step: int | None = None

        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            if stage != "fit" or self.counted is not None:
                return
            with process.apart():
                run = process.measured()
                if run is not None:
                    counted = self.counted = Counted(run)
                    trainer.callbacks.insert(0, counted)
                    counted.setup(trainer, pl_module, stage)

        def on_train_batch_end(self, trainer: Any, *arguments: Any, **options: Any) -> None:
            counted = self.counted
            step = None if counted is None else counted.step_of(trainer)
            if counted is None or step is None or (step + 1) % max(trainer.log_every_n_steps, 1):
                return
            if not counted.accumulates(trainer):
                self._record(trainer, step)

        def on_validation_end(self, trainer: Any, *arguments: Any) -> None:
            if self.counted is not None and not trainer.sanity_checking:
                self._record(trainer, self.counted.step_of(trainer))

        def _record(self, trainer: Any, step: int | None) -> None:
            """Record what is new: Lightning gives each value until the next, and again after a validation."""
            run = process.opened
            if run is None or not run.recording or process.off:
                return
            with process.apart():
                before, self.metrics = self.metrics, dict(trainer.callback_metrics)
                done = self.news if step is not None and step == self.step else {}
                self.news = {
                    tag: value
                    for tag, value in self.metrics.items()
                    if before.get(tag) is not value and tag not in done
                }
                self.step = step
                run.scalars(self.news, step)

    if _leaves_out():
        for kind in (Counted, Logged):
            for name in BATCH:
                if getattr(kind, name, None) is getattr(Callback, name, None):
                    setattr(kind, name, None)
    trainer.callbacks.append(Logged())


def _leaves_out() -> bool:
    """Return whether this version of Lightning leaves out a hook that is None."""
    from stepscope.integrations.lightning.package import NAME

    callback = SimpleNamespace(**dict.fromkeys(BATCH))
    trainer = SimpleNamespace(callbacks=[callback], lightning_module=None)
    try:
        call = import_module(f"{NAME}.trainer.call")._call_callback_hooks
        for name in BATCH:
            call(trainer, name)
    except Exception:  # noqa: BLE001  a private function, of any version
        return False
    return True
