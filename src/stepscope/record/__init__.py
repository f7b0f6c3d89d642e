"""What runs inside training: it takes numbers from the loop and writes them, at no cost to the loop."""

from __future__ import annotations

from stepscope.record.run import Run as Run

__all__ = ["Run"]
