"""What is compiled: loops over typed columns, and what every point and every step of a run pays.

Each module is Cython in pure-Python mode. A build compiles it next to its source; without that the same
source runs as plain Python, rightly but slowly, and says so once. In a checkout, where sources change beneath
what was compiled from them, a module that lacks what its source has is passed over, and that is said, too.
"""

from __future__ import annotations

import re
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

COMPILED = (".so", ".pyd")
_told: set[str] = set()
"""Modules of which it is said already that they are not compiled."""
_FUNCTION = re.compile(r"^def (\w+)\(([^)]*)\)", re.MULTILINE)
_CLASS = re.compile(r"^cdef class (\w+):\n((?:(?: +.*)?\n)*)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^ +cdef (?:public|readonly) .*?(\w+)$", re.MULTILINE)
_IN_BRACKETS = re.compile(r"\[[^][]*\]")


def warn_if_uncompiled(module: ModuleType) -> None:
    """Say once that a kernel runs as plain Python."""
    if not str(module.__file__).endswith(COMPILED) and module.__name__ not in _told:
        _warn(f"{module.__name__} is not compiled", stacklevel=4)


def stale(module: ModuleType, source: str, declared: str) -> str:
    """Return what a compiled module lacks that its source has; "" where it lacks nothing.

    Args:
        module: The compiled one.
        source: Text of its source.
        declared: Text of its declarations, whose functions are those of C and not seen from Python.
    """
    for name, arguments in _FUNCTION.findall(source):
        function = getattr(module, name, None)
        if function is None and not re.search(rf"\b{name}\(", declared):
            return f"{name}()"
        code = getattr(function, "__code__", None)
        if code is not None:
            wanted = [each.split(":")[0].split("=")[0].strip(" *\n") for each in _bare(arguments).split(",")]
            given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if tuple(filter(None, wanted)) != given:
                return f"{name}({', '.join(filter(None, wanted))})"
    for name, body in _CLASS.findall(declared):
        made = getattr(module, name, None)
        for attribute in _ATTRIBUTE.findall(body):
            if not hasattr(made, attribute):
                return f"{name}.{attribute}"
    return ""


def _bare(arguments: str) -> str:
    """Return arguments without what stands in brackets, where commas separate something else."""
    while (shorter := _IN_BRACKETS.sub("", arguments)) != arguments:
        arguments = shorter
    return arguments


def _warn(what: str, *, stacklevel: int) -> None:
    warnings.warn(
        f"{what} and runs some hundred times slower; "
        "run 'python hatch_build.py kernels' in the checkout, or install a wheel",
        RuntimeWarning,
        stacklevel=stacklevel,
    )


class _Checked(Loader):
    """Loads a compiled module, and its source in its place where that has moved on.

    Args:
        inner: Loads what is compiled.
        source: The source beside it.
    """

    def __init__(self, inner: Any, source: Path) -> None:
        self._inner, self._source = inner, source

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        try:
            return self._inner.create_module(spec)  # type: ignore[no-any-return]
        except ImportError:  # made for another Python, say
            return None

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._inner.exec_module(module)
            declared = self._source.with_suffix(".pxd")
            words = declared.read_text() if declared.exists() else ""
            lacks = stale(module, self._source.read_text(), words)
            lacks = lacks and f"without {lacks}"
        except Exception as error:  # noqa: BLE001  whatever a module raises that was compiled from something else
            lacks = f"{type(error).__name__}: {error}"
        if lacks:
            self._load_source(
                module.__name__, f"{module.__name__} was compiled from another source ({lacks})"
            )

    def _load_source(self, name: str, what: str) -> None:
        spec = spec_from_file_location(name, self._source)
        assert spec is not None
        assert spec.loader is not None
        fresh = sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(fresh)
        except ModuleNotFoundError as error:  # sources run where Cython is installed
            raise ImportError(f"{what}; run 'python hatch_build.py kernels' in the checkout") from error
        _told.add(name)
        _warn(what, stacklevel=3)


class _Checking(MetaPathFinder):
    """Finds the modules of this package in a checkout."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(__name__ + "."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and str(spec.origin).endswith(COMPILED):
            source = Path(__file__).with_name(name.rpartition(".")[2] + ".py")
            if source.exists():
                spec.loader = _Checked(spec.loader, source)
        return spec


if len(Path(__file__).parents) > 3 and (Path(__file__).parents[3] / "hatch_build.py").exists():
    sys.meta_path.insert(0, _Checking())
