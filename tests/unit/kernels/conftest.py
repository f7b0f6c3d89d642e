"""Kernels as plain Python, beside the compiled ones."""

import importlib

import pytest
from support import modules


@pytest.fixture(params=["compiled", "python"])
def kernel(request):
    """The kernel that a file of tests has its name from, and its source as a module."""
    module = importlib.import_module(f"stepscope.kernels.{request.path.stem.removeprefix('test_')}")
    return module if request.param == "compiled" else modules.uncompiled(module)
