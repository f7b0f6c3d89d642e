"""Rules that say whether a training run is healthy: the same code while it is recorded and afterwards.

Numbers in, findings out: no clock, no files. ``Monitor`` takes points of named series and applies every rule
of ``RULES``; ``series`` says which tags of which writer mean what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.health.alert import Alert
    from stepscope.health.finding import SEVERITIES, Abstention, Finding
    from stepscope.health.monitor import Monitor, Verdict
    from stepscope.health.rules import RULES

__all__ = ["RULES", "SEVERITIES", "Abstention", "Alert", "Finding", "Monitor", "Verdict"]

# What a profile's advice takes of it, the text of numbers, must not load all rules of runs.
_HOMES = {
    "Abstention": "finding", "Alert": "alert", "Finding": "finding", "Monitor": "monitor", "RULES": "rules",
    "SEVERITIES": "finding", "Verdict": "monitor",
}  # fmt: skip
__getattr__, __dir__ = lazy.names(__name__, _HOMES)
