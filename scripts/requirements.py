"""Prints what pip needs to install besides the wheel: requirements.py [EXTRA …].

The requirements of the package and of the extras, one a line, from pyproject.toml, so that they can be
installed before the wheel is built.
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10; every pip brings this one
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements(extras: list[str]) -> list[str]:
    """Return the requirements of the package and of its extras."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    unknown = sorted(set(extras) - set(project["optional-dependencies"]))
    if unknown:
        sys.exit(f"no such extra: {', '.join(unknown)}")
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(requirement for name in extras for requirement in optional[name])]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
