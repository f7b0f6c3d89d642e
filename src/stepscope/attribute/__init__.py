"""Each instant of a profile has one purpose; this package finds it, how it is known, and whose code ran."""
