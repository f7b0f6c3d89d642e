"""The places of this process's code, so that a profile's reader can tell the user's own from the rest.

A profile names files in short: by their path within a folder of packages, or by their name alone. Whose they
are is then decided by where they lie here, while the process still runs.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any


def places(modules: Mapping[str, ModuleType] | None = None) -> dict[str, Any]:
    """Return the folders of installed code, the packages loaded from them, and all other loaded files.

    Args:
        modules: Loaded modules by name, by default those of this process.

    Returns:
        ``folders`` of the standard library and of installed packages, ``installed``, the names of top-level
        modules that lie there, and ``own``, the files that lie anywhere else.
    """
    folders = _folders()
    installed, own = set(), set()
    for name, module in list((sys.modules if modules is None else modules).items()):
        file = getattr(module, "__file__", None)
        # Namespaces such as torch.ops give themselves a file that is nowhere: its path is not absolute.
        if not isinstance(file, str) or not file.endswith(".py") or not os.path.isabs(file):  # noqa: PTH117
            continue
        if file.startswith(folders):
            installed.add(name.partition(".")[0])
        elif not name.startswith("stepscope"):
            own.add(file)
    return {"folders": list(folders), "installed": sorted(installed), "own": sorted(own)}


@functools.cache
def installed() -> tuple[str, ...]:
    """Return the beginnings of paths whose lines are not the program's own: of packages, and of no file."""
    return ("<", *_folders(), f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}{os.sep}")  # noqa: PTH100,PTH120


def _folders() -> tuple[str, ...]:
    """Return the folders of the standard library, and those of the path in which packages are installed."""
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    for folder in sys.path:
        with suppress(OSError):  # a path may name what is not there, or an archive
            names = os.listdir(folder or ".")  # noqa: PTH208
            if any(name.endswith(".dist-info") for name in names):
                folders.add(folder)
    return tuple(sorted({f"{os.path.abspath(folder)}{os.sep}" for folder in folders}))  # noqa: PTH100
