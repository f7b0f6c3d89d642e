"""Kernels as plain Python, beside the compiled ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import stepscope.kernels


@pytest.fixture
def uncompiled():
    """A function that returns the source of a compiled module as a module."""

    def load(module):
        name = module.__name__.rpartition(".")[2]
        path = Path(stepscope.kernels.__file__).with_name(f"{name}.py")
        spec = importlib.util.spec_from_file_location(f"uncompiled_{name}", path)
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    return load
