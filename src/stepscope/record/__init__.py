"""The recorder, which runs inside training: it takes numbers from the loop and writes them beside it.

``Run`` loads on first use: ``stepscope whoami`` needs the roles alone, and they need no numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.record.run import Run as Run

__all__ = ["Run"]

__getattr__, __dir__ = lazy.names(__name__, {"Run": "run"})
