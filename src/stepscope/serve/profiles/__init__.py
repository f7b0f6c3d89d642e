"""Profiles on the page: which there are, and what each of them says."""

from __future__ import annotations
