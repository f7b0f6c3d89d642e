"""Lightning: its Trainer gets our callback, which counts the steps, and one that records what is logged."""

from __future__ import annotations

from functools import wraps
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
"""Hooks of a batch. Lightning enters a context of its profiler around each, also where it does nothing."""


def install(module: ModuleType) -> None:
    """Add the callbacks to every Trainer that fits.

    Args:
        module: ``lightning.pytorch.trainer.trainer`` or that of ``pytorch_lightning``.
    """
    trainer = module.Trainer
    original = trainer.fit

    @wraps(original)
    def fit(self: Any, *arguments: Any, **options: Any) -> Any:
        if not process.off:
            with process.apart():
                _add(self)
        with process.leading():
            return original(self, *arguments, **options)

    trainer.fit = fit


def _add(trainer: Any) -> None:
    from stepscope.integrations.lightning import StepscopeCallback
    from stepscope.integrations.lightning.package import Callback

    if any(isinstance(callback, StepscopeCallback) for callback in trainer.callbacks):
        return

    class Counted(StepscopeCallback):
        """Counts on from where another Trainer of this process has ended: each counts from 0."""

        before = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            run = process.opened
            if run is not None and not trainer.global_step:
                self.before = run.step_counter.next
            super().on_train_start(trainer, pl_module)

        def step_of(self, trainer: Any) -> int | None:
            number = super().step_of(trainer)
            return None if number is None else self.before + number

    class Logged(Callback):  # type: ignore[misc]
        """Makes the run when the strategy has told the ranks apart, and records the logged metrics."""

        counted: Counted | None = None

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
            if trainer.global_step % max(trainer.log_every_n_steps, 1) == 0:
                self._record(trainer)

        def on_validation_end(self, trainer: Any, *arguments: Any) -> None:
            if not trainer.sanity_checking:
                self._record(trainer)

        def _record(self, trainer: Any) -> None:
            run = process.opened
            if run is not None and run.recording and not process.off and self.counted is not None:
                step = self.counted.before + max(trainer.global_step - 1, 0)
                with process.apart():
                    run.scalars(dict(trainer.callback_metrics), step)

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
