"""Steps of a run that a trainer's callbacks begin and end, if the user has no loop."""

from __future__ import annotations

from stepscope.kernels.marks import StepMarks


class Stepper(StepMarks):
    """The compiled calls, in a class whose methods can be replaced."""
