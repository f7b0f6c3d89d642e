"""Profiles on the page: their list, and the answers from each."""

from __future__ import annotations
