"""How right the health rules are on the recorded trainings of ``tests/health_corpus``, by rule.

``python benchmarks/health_corpus.py``. Rules were tuned on one half of the trainings; the other
one counts, and most of all the fresh ones, drawn by chance after the rules were done.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "health_corpus"))

import corpus


def main() -> None:
    """Print false alarms, recall and delay of both halves."""
    for split in ("tune", "judge", "fresh"):
        begun = time.perf_counter()
        result = corpus.score(corpus.trainings(split))
        print(f"{split}: {time.perf_counter() - begun:.1f} s")
        for line in corpus.table(result):
            # Single trainings of the half that judges are not looked at, or it would be tuned to.
            if split == "tune" or not line.startswith(("  false:", "  missed:")):
                print(line)


if __name__ == "__main__":
    main()
