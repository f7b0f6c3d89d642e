"""Names of series that this package gives, for those who must not load the readers of all names."""

BACKWARD_LOSS = "backward/loss"
"""The sum of the numbers on which a step of a script called ``backward``."""
