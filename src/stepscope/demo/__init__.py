"""A real training to look at: handwritten digits, three learning rates, in whichever framework is there."""
