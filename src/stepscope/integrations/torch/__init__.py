"""PyTorch: plain loops, DistributedDataParallel and FSDP2. The names below load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.integrations.torch.attach import Watch as Watch
    from stepscope.integrations.torch.attach import watch as watch
    from stepscope.integrations.torch.curvature import SecondMoments as SecondMoments
    from stepscope.integrations.torch.curvature import SharpnessHook as SharpnessHook
    from stepscope.integrations.torch.loader import IndexedLoader as IndexedLoader

_HOMES = {
    "IndexedLoader": "loader",
    "SecondMoments": "curvature",
    "SharpnessHook": "curvature",
    "Watch": "attach",
    "watch": "attach",
}
"""Which module of this package each public name is in; add a line for a new one, and one above."""

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
