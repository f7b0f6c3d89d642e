"""PyTorch: plain loops, DistributedDataParallel and FSDP2. The names below load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.integrations.torch.attach import Watch as Watch
    from stepscope.integrations.torch.attach import watch as watch
    from stepscope.integrations.torch.attention import AttentionHook as AttentionHook
    from stepscope.integrations.torch.attention import attention_statistics as attention_statistics
    from stepscope.integrations.torch.curvature import SecondMoments as SecondMoments
    from stepscope.integrations.torch.curvature import SharpnessHook as SharpnessHook
    from stepscope.integrations.torch.loader import IndexedLoader as IndexedLoader
    from stepscope.integrations.torch.operator_norms import UpdateScaleHook as UpdateScaleHook
    from stepscope.integrations.torch.router import RouterHook as RouterHook

_HOMES = {
    "AttentionHook": "attention",
    "IndexedLoader": "loader",
    "RouterHook": "router",
    "SecondMoments": "curvature",
    "SharpnessHook": "curvature",
    "UpdateScaleHook": "operator_norms",
    "Watch": "attach",
    "attention_statistics": "attention",
    "watch": "attach",
}
"""Which module of this package each public name is in; add a line for a new one, and one above."""

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
