"""Measures every claim about GPUs on the machine at hand: ``make gpu``, or ``python benchmarks/gpu``."""
