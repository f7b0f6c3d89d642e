"""Summaries beyond numbers: their form in an event file, one module per kind.

A kind's ``prepare`` runs where the user logs: it checks the value and holds on to it. The returned function
makes the values of an event, on the background thread.
"""

from __future__ import annotations

from stepscope.record.summaries.methods import SummaryMethods

__all__ = ["SummaryMethods"]
