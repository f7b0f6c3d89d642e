"""TensorBoard writers of the program: what they are given becomes series, too."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from stepscope.launch.process import process


def install(module: ModuleType) -> None:
    """Observe ``add_scalar`` of ``torch.utils.tensorboard`` or ``tensorboardX``."""
    writer = getattr(module, "SummaryWriter", None)
    original = getattr(writer, "add_scalar", None)
    if writer is None or original is None:
        return

    @wraps(original)
    def add_scalar(
        self: Any, tag: Any, scalar_value: Any, global_step: Any = None, *more: Any, **named: Any
    ) -> Any:
        run = process.opened
        if run is not None and run.recording and not process.off:
            known = isinstance(global_step, int)
            run.scalar(tag, scalar_value, global_step if known else process.step_of_values())
        return original(self, tag, scalar_value, global_step, *more, **named)

    writer.add_scalar = add_scalar
