"""Compilations of TorchDynamo and JAX, from the moment at which they are loaded."""

from __future__ import annotations

from types import ModuleType

from stepscope.integrations.compiling import compilations
from stepscope.launch.process import process


def install(module: ModuleType) -> None:
    """Follow the compilations of ``jax`` or ``torch._dynamo.callback``."""
    if not compilations.listen(module):
        process.say(f"the time of compilations: this version of {module.__name__} does not tell")
