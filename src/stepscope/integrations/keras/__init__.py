"""Keras 3 on any of its backends, and the Keras of TensorFlow 2.15. The names below load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.integrations.keras.callback import StepscopeCallback as StepscopeCallback
    from stepscope.integrations.keras.gradients import measured as measured
    from stepscope.integrations.keras.gradients import watch as watch

_HOMES = {
    "StepscopeCallback": "callback",
    "measured": "gradients",
    "watch": "gradients",
}
"""Which module of this package each public name is in; add a line for a new one, and one above."""

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
