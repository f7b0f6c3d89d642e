"""Summaries beyond numbers: what each kind becomes in an event file, one module per kind.

A kind's ``prepare`` runs where the user logs: it checks what it is given and holds on to it. What it returns
makes the values of an event, on the background thread.
"""

from __future__ import annotations

from stepscope.record.summaries.methods import SummaryMethods

__all__ = ["SummaryMethods"]
