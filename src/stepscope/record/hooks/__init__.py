"""Hooks: objects that take part in a run's steps."""

from __future__ import annotations

from stepscope.record.protocol import Hook as Hook

__all__ = ["Hook"]
