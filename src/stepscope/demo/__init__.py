"""A real training to look at: handwritten digits, three learning rates, in any framework installed."""
