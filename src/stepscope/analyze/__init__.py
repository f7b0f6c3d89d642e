"""Answers about a profile: one question per module, pure functions over a trace."""
