"""The interfaces of other recorders, so that their scripts run with another import and nothing else changed.

``SummaryWriter`` is that of ``torch.utils.tensorboard`` and of tensorboardX; ``clu_writer`` holds what
``clu.metric_writers`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    import stepscope.compat.clu_writer as clu_writer
    from stepscope.compat.writer import SummaryWriter as SummaryWriter

__all__ = ["SummaryWriter", "clu_writer"]

__getattr__, __dir__ = lazy.names(__name__, {"SummaryWriter": "writer", "clu_writer": ""})
