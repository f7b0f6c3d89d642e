"""Every figure, each a ratio to its peer in the same run: ``make bench``, or ``python benchmarks NAME``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = {"__main__", "logs", "profiles", "rank_files", "steps"}
"""Modules that measure nothing."""


def main() -> int:
    """Run the named benchmarks, or all, each in a process of its own, and say which failed."""
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in LIBRARIES)
    wanted = sys.argv[1:] or known
    if unknown := set(wanted) - set(known):
        sys.exit(f"unknown benchmark {', '.join(sorted(unknown))}: there are {', '.join(known)}")
    failed = []
    for name in wanted:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main())
