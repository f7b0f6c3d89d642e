"""The interfaces of other recorders: scripts written for them run once their import is changed.

``SummaryWriter`` is that of ``torch.utils.tensorboard`` and also takes tensorboardX's arguments;
``tensorboardx`` has the one that writes what tensorboardX writes. ``install`` makes programs that import
the originals get these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    import stepscope.compat.tensorboardx as tensorboardx
    from stepscope.compat.imports import install as install
    from stepscope.compat.tensorboardx import GlobalSummaryWriter as GlobalSummaryWriter
    from stepscope.compat.writer import FileWriter as FileWriter
    from stepscope.compat.writer import SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "GlobalSummaryWriter", "SummaryWriter", "install", "tensorboardx"]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "FileWriter": "writer",
        "GlobalSummaryWriter": "tensorboardx",
        "SummaryWriter": "writer",
        "install": "imports",
        "tensorboardx": "",
    },
)
