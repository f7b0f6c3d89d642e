"""Every rule; a module holds those about one subject."""

from __future__ import annotations

from stepscope.health.rule import Rule
from stepscope.health.rules import (
    activations,
    adversarial,
    generalising,
    gradients,
    learning,
    loss_not_decreasing,
    memory,
    nonfinite,
    poor_initialization,
    rank_divergence,
    spikes,
    stalled,
    time,
    unchanged_tensor,
)
from stepscope.health.rules.activations import SaturatedActivation
from stepscope.health.rules.learning import AttemptDiscontinuous
from stepscope.health.rules.stalled import NO_LIFE, StalledTraining
from stepscope.health.rules.time import SlowerSteps

__all__ = [
    "NO_LIFE",
    "RULES",
    "AttemptDiscontinuous",
    "SaturatedActivation",
    "SlowerSteps",
    "StalledTraining",
]

SUBJECTS = (
    *(nonfinite, spikes, loss_not_decreasing, learning, generalising, gradients, activations),
    *(poor_initialization, unchanged_tensor, time, memory, stalled, rank_divergence, adversarial),
)
RULES: dict[str, type[Rule]] = {row.id: row for subject in SUBJECTS for row in subject.ROWS}
"""Every rule by its id: the rows of each subject."""
