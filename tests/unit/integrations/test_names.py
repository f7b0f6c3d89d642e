"""What the packages of frameworks offer, by name; a framework is imported for its own names only."""

import importlib
import subprocess
import sys
from importlib.util import find_spec

import pytest

import stepscope

PACKAGES = {"torch": "torch", "jax": "jax", "lightning": "lightning"}


@pytest.mark.parametrize(("package", "needs"), PACKAGES.items())
def test_every_name_is_there(package, needs):
    if not find_spec(needs):
        pytest.skip(f"{needs} is not installed")
    module = importlib.import_module(f"stepscope.integrations.{package}")
    assert set(dir(module)) == set(module._HOMES)
    for name in dir(module):
        assert getattr(module, name).__module__.startswith("stepscope.")
    with pytest.raises(AttributeError, match="has no attribute 'wach'; it has "):
        _ = module.wach


def test_frameworks_are_reached_from_the_package():
    assert stepscope.integrations.FRAMEWORKS
    assert stepscope.integrations.jax is importlib.import_module("stepscope.integrations.jax")
    assert set(dir(stepscope.integrations)) == set(stepscope.integrations.FRAMEWORKS)
    with pytest.raises(AttributeError, match="has no attribute 'mxnet'; it has accelerate, "):
        _ = stepscope.integrations.mxnet


def test_no_framework_is_imported_before_it_is_asked_for():
    program = (
        "import sys, stepscope\n"
        "for name in ('torch', 'jax', 'lightning', 'keras', 'tensorflow'):\n"
        "    getattr(stepscope.integrations, name)\n"
        "print(sorted({'torch', 'jax', 'lightning', 'keras', 'tensorflow', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
