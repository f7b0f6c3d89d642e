"""Build what ``make gpu`` needs on a machine without a network: ``scripts/gpu_kit.py [--python PYTHON]``.

Into build/gpu-kit go the wheel of this tree for CPython 3.12 on Linux, and the wheels of those packages it
requires that such a machine lacks. It has PyTorch, JAX and what these require. Polars stays behind: no check
needs data frames. The working tree travels too, so both together must not exceed 60 MiB.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from requirements import requirements

ROOT = Path(__file__).resolve().parents[1]
KIT = ROOT / "build" / "gpu-kit"
MOST_BYTES = 60 << 20
VERSION = "3.12"
THERE = {"fsspec", "numpy", "nvidia-ml-py", "pillow", "protobuf", "psutil"}
"""Requirements that come with PyTorch, JAX and TensorBoard."""
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 24, 17)] + [
    "manylinux2014_x86_64", "manylinux1_x86_64",
]  # fmt: skip


def main() -> int:
    """Build the kit; return 1 if it is too large to travel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default=interpreter(), help="a CPython 3.12 that builds the wheel")
    chosen = parser.parse_args()
    if not chosen.python:
        sys.exit("expected a CPython 3.12 on the PATH or in pyenv, found none: name one with --python")
    shutil.rmtree(KIT, ignore_errors=True)
    pip(chosen.python, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(KIT), str(ROOT))
    platforms = [f"--platform={name}" for name in PLATFORMS]
    pip(
        sys.executable, "download", "--quiet", "--no-deps", "--only-binary=:all:", "--implementation=cp",
        f"--python-version={VERSION}", *platforms, "--dest", str(KIT), *missing(),
    )  # fmt: skip
    return report()


def interpreter() -> str:
    """Return a CPython 3.12; empty if there is none."""
    listed = subprocess.run(
        [str(ROOT / "scripts" / "pythons.sh")], capture_output=True, text=True, check=True
    )
    for python in listed.stdout.split():
        command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == VERSION:
            return python
    return ""


def missing() -> list[str]:
    """Return the requirements of this package that such a machine lacks."""
    return [one for one in requirements([]) if one.partition(">=")[0] not in THERE]


def pip(python: str, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", *arguments], check=True, cwd=ROOT)


def report() -> int:
    """Print the sizes; return 1 if they exceed the limit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    tree = sum(
        path.stat().st_size for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()
    )
    wheels = sorted(KIT.glob("*.whl"))
    for wheel in wheels:
        print(f"{wheel.stat().st_size / (1 << 20):6.1f} MiB  {wheel.name}")
    total = tree + sum(wheel.stat().st_size for wheel in wheels)
    print(f"{tree / (1 << 20):6.1f} MiB  the tree; {total / (1 << 20):.1f} MiB in all, at most 60")
    if total > MOST_BYTES:
        print("too large to travel: ignore files that are not needed there, or carry fewer", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
