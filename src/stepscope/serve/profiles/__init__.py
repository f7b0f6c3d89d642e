"""Profiles on the page: which exist, and what each of them says."""

from __future__ import annotations
