"""Whether gradient statistics are right in every kind of loop, as a table: exact, declared or wrong.

Each loop notes its gradients by hand (``tests/lib/support/loops.py``). *Declared* means that the run states
that it does not measure them; *wrong* must be 0.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

from support import loops  # noqa: E402
from support.ports import free_port  # noqa: E402

MOST_DECLARED = 0.1
TIMEOUT_SECS = 600


def run(where: str, out: Path) -> bool:
    """Run the loops of one place; return False if its interpreter is not here."""
    python, more = sys.executable, {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests" / "lib")}
    if where.startswith("keras-"):
        more["KERAS_BACKEND"] = where.removeprefix("keras-")
    if where == "keras-tensorflow":
        python = str(ROOT / ".venv-keras" / "bin" / "python")
        if not Path(python).exists():
            return False
    ranks = 2 if where == "ranks" else 1
    if ranks > 1:
        more.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    words = [python, loops.__file__, str(out), *loops.names_of(where)]
    processes = [
        subprocess.Popen(
            words,
            env={**os.environ, **more, **({"RANK": str(rank)} if ranks > 1 else {})},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(ranks)
    ]
    try:
        for process in processes:
            process.wait(TIMEOUT_SECS)
    finally:
        for process in processes:
            process.kill()
    return True


def main() -> int:
    """Print the table; return how many cells are wrong."""
    counts = {"exact": 0, "declared": 0, "wrong": 0}
    notes = []
    print(f"{'':40}" + "".join(f"{each:>12}" for each in loops.STATISTICS))
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        for where in dict.fromkeys(loop.where for loop in loops.LOOPS.values()):
            there = run(where, out)
            for name in loops.names_of(where):
                if not there:
                    print(f"{loops.LOOPS[name].title:40}" + f"{'not here':>12}" * len(loops.STATISTICS))
                    continue
                verdicts = loops.verdicts_of(out / name)
                words = [each.partition(":")[0] for each in verdicts.values()]
                print(f"{loops.LOOPS[name].title:40}" + "".join(f"{each:>12}" for each in words), flush=True)
                for word in words:
                    counts[word] += 1
                notes += [
                    f"{loops.LOOPS[name].title}, {at}: {each}"
                    for at, each in verdicts.items()
                    if each != "exact"
                ]
    print("\n".join(notes))
    share = counts["declared"] / max(sum(counts.values()), 1)
    print(f"exact {counts['exact']}, declared {counts['declared']} ({share:.0%}), wrong {counts['wrong']}")
    return counts["wrong"] + (share > MOST_DECLARED)


if __name__ == "__main__":
    sys.exit(main() > 0)
