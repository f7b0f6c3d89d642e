"""Add the names that installed distributions use to the list by which foreign profiles are read.

A profile that Stepscope did not record itself does not say where its files lie. Kineto gives paths within the
folder of the packages, so the names of packages tell; XPlane gives the names of files alone, so those of the
frameworks tell whose profiles are such. Run it in each environment:

    python scripts/distributions.py

Names of distributions that are not installed stay in the list.
"""

from __future__ import annotations

import importlib.metadata
from collections import defaultdict
from pathlib import Path, PurePosixPath

LIST = Path(__file__).parents[1] / "src" / "stepscope" / "attribute" / "distributions.txt"
WITHOUT_FOLDERS = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "chex",
    "keras",
    "numpy",
    "tensorflow",
)
"""Distributions that run within profiles that give no folders."""


def installed() -> tuple[set[str], set[str]]:
    """Return the packages of all installed distributions, and the files of :data:`WITHOUT_FOLDERS`."""
    shipped_by: dict[str, set[str]] = defaultdict(set)
    files = set()
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"].lower()
        paths = [PurePosixPath(str(path)) for path in distribution.files or ()]
        code = [path for path in paths if path.suffix == ".py" and path.parts[0].isidentifier()]
        for path in code:
            shipped_by[path.parts[0]].add(name)
            if name.removesuffix("_cpu").removesuffix("-cpu") in WITHOUT_FOLDERS:
                files.add(path.stem)
    # A folder such as tests, which several distributions leave in the same place, is nobody's name.
    packages = {
        name for name, owners in shipped_by.items()
        if len(owners) == 1 or any(owner.replace("-", "_").startswith(name) for owner in owners)
    }  # fmt: skip
    return packages, {name for name in files if name != "__init__"}


def main() -> None:
    """Add what is installed here."""
    words = LIST.read_text().split("\n\n") if LIST.exists() else ["", ""]
    for place, names in enumerate(installed()):
        words[place] = "\n".join(sorted(names | set(words[place].split())))
    LIST.write_text("\n\n".join(words) + "\n")


if __name__ == "__main__":
    main()
