"""Which runs belong together."""

from __future__ import annotations
