"""Python files loaded as modules of their own: scripts, jobs, and kernels as plain Python."""

import importlib.util
from pathlib import Path
from types import ModuleType


def load(path: Path, name: str = "") -> ModuleType:
    """Return a file as a module, which is not the one of that name that others import."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def uncompiled(module: ModuleType) -> ModuleType:
    """Return a compiled module from its source, beside the compiled one."""
    assert module.__file__ is not None
    source = Path(module.__file__).with_name(module.__name__.rpartition(".")[2] + ".py")
    return load(source, f"uncompiled_{source.stem}")


def hand_made() -> ModuleType:
    """Return the builders of small traces that unit tests have as the fixture ``make``."""
    return load(Path(__file__).parents[2] / "unit" / "conftest.py", "hand_made")
