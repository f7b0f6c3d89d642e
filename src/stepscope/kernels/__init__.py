"""Compiled code: loops over typed columns, and the work done for every point and every step of a run.

Each module is Cython in pure-Python mode. A build compiles it next to its source. Without a build the
same source runs as plain Python, correctly but slowly, and warns once. In a checkout, where a source may have
changed since it was compiled, an outdated compiled module is ignored, with a warning.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

COMPILED = (".so", ".pyd")
STAMP = "build-inputs.sha256"
"""Name of the file that has a line for each compiled module: the digest of its sources, and its name."""
_told: set[str] = set()
"""Modules whose users have been warned already."""


def digest(source: Path) -> str:
    """Return a digest of what a module is compiled from: its source, all declarations and headers."""
    sums = hashlib.sha256()
    for path in (source, *sorted((*source.parent.glob("*.pxd"), *source.parent.glob("*.h")))):
        sums.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return sums.hexdigest()


def write_stamp(sources: list[Path]) -> None:
    """Write the digests of the sources next to the compiled modules."""
    lines = [f"{digest(source)}  {source.stem}\n" for source in sources]
    (sources[0].parent / STAMP).write_text("".join(lines))


def is_current(source: Path) -> bool:
    """Return whether a module was compiled from its present source; False if the build left no digest."""
    stamp = source.with_name(STAMP)
    return stamp.exists() and f"{digest(source)}  {source.stem}" in stamp.read_text().splitlines()


def warn_if_uncompiled(module: ModuleType) -> None:
    """Warn once that a kernel runs as plain Python."""
    if not str(module.__file__).endswith(COMPILED) and module.__name__ not in _told:
        _warn(f"{module.__name__} is not compiled", stacklevel=4)


def _warn(what: str, *, stacklevel: int) -> None:
    warnings.warn(
        f"{what} and runs some hundred times slower; "
        "run 'python hatch_build.py kernels' in the checkout, or install a wheel",
        RuntimeWarning,
        stacklevel=stacklevel,
    )


class _FromSource(SourceFileLoader):
    """Loads a module from its source, because it was compiled from another version of it."""

    def exec_module(self, module: ModuleType) -> None:
        what = f"{module.__name__} was compiled from another source"
        try:
            super().exec_module(module)
        except ModuleNotFoundError as error:  # sources run where Cython is installed
            raise ImportError(f"{what}; run 'python hatch_build.py kernels' in the checkout") from error
        _told.add(module.__name__)
        _warn(what, stacklevel=3)


class _Checking(MetaPathFinder):
    """Finds the modules of this package in a checkout."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(__name__ + "."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        source = Path(__file__).with_name(name.rpartition(".")[2] + ".py")
        if spec is None or not str(spec.origin).endswith(COMPILED) or not source.exists():
            return spec
        if is_current(source):
            return spec
        loader: Loader = _FromSource(name, str(source))
        return spec_from_file_location(name, source, loader=loader)


if len(Path(__file__).parents) > 3 and (Path(__file__).parents[3] / "hatch_build.py").exists():
    sys.meta_path.insert(0, _Checking())
