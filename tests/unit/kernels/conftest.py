"""Kernels as plain Python, beside the compiled ones."""

from __future__ import annotations

import pytest
from support import modules


@pytest.fixture
def uncompiled():
    """A function that returns the source of a compiled module as a module."""
    return modules.uncompiled
