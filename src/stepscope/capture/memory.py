"""Facts of memory that every backend can give."""

from __future__ import annotations

import math

from stepscope.record.memory import resident_bytes


def resident_facts() -> dict[str, int]:
    """Return the resident set of this process as ``resident_bytes``; empty where the system does not tell."""
    resident = resident_bytes()
    return {} if math.isnan(resident) else {"resident_bytes": int(resident)}
