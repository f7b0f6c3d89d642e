"""The time of a rank that a cause accounts for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.attribute.source_lines import Share
from stepscope.attribute.spans import Ints, Spans


@dataclass(frozen=True)
class Selection:
    """The time of a rank that a cause accounts for.

    Attributes:
        spans: Time of the training thread that the mend would take away.
        evidence: Numbers and names for the sentence, JSON types.
        rows: The events behind it.
        whole: Whether work of a device or of other threads in that time would go, too.
        of_rows: Whether the line to change is that of ``rows`` rather than the one that takes the time.
        line: The line to change, if it is known otherwise.
        device: Work of devices that would go as well.
        waits: Whether it is the time of waits, so that none are taken off it.
    """

    spans: Spans
    evidence: dict[str, Any] = field(default_factory=dict)
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    whole: bool = False
    of_rows: bool = False
    line: Share | None = None
    device: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    waits: bool = False
