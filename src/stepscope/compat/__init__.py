"""The interfaces of other recorders: scripts written for them run once their import is changed.

``SummaryWriter`` is that of ``torch.utils.tensorboard`` and also takes tensorboardX's arguments. ``install``
makes programs that import the originals get these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.compat.imports import install as install
    from stepscope.compat.writer import FileWriter as FileWriter
    from stepscope.compat.writer import GlobalSummaryWriter as GlobalSummaryWriter
    from stepscope.compat.writer import SummaryWriter as SummaryWriter

_HOMES = {
    "FileWriter": "writer",
    "GlobalSummaryWriter": "writer",
    "SummaryWriter": "writer",
    "install": "imports",
}
__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
