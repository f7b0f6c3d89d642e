"""Summaries that are not scalars on the page: which exist, their values, their bytes, and graphs."""

from __future__ import annotations
