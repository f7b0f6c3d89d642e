"""Analyses of a profile: one question per module, answered by pure functions over a trace."""
