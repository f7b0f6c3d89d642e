"""How often the change log has a change in a run in which nothing changes, and what it has of planted steps.

``python benchmarks/health_changes.py [--runs N]``. Simulated runs have 20 series of noise of many kinds; the
healthy trainings of ``tests/health_corpus`` are recorded ones, in which some changes are real: a plateau that
ends, a rate that begins anew, a step that was slow.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stepscope.health.changes import RecordedSeries, change_log
from stepscope.health.facts import jumps

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "health_corpus"))

import corpus

Array = NDArray[np.float64]
KINDS = (
    "white", "t3", "lognormal", "AR(0.5)", "AR(0.8)", "AR(0.97)", "AR(0.8) of t3", "moving mean", "counts",
    "shares", "held", "walk", "walk under noise", "line", "decay", "decay of shares",
)  # fmt: skip
LENGTHS = (30, 100, 300, 1000, 3000)
SERIES = 20


def null(kind: str, count: int, rng: np.random.Generator) -> Array:
    """Return a series in which nothing changes."""
    at = np.arange(count)
    noise = rng.normal(size=count)
    if kind.startswith("AR"):
        shocks = rng.standard_t(3, count) if "t3" in kind else noise
        keep = float(kind[3:].partition(")")[0])
        values = np.empty(count)
        last = 0.0
        for place, shock in enumerate(shocks):
            last = values[place] = keep * last + shock
        return values
    right = 1 - 0.9 * np.exp(-at / (0.1 * count))
    return {
        "white": lambda: noise,
        "t3": lambda: rng.standard_t(3, count),
        "lognormal": lambda: rng.lognormal(size=count),
        "moving mean": lambda: np.convolve(rng.normal(size=count + 7), np.ones(8) / 8, "valid"),
        "counts": lambda: rng.poisson(4.0, count).astype(np.float64),
        "shares": lambda: rng.binomial(64, right) / 64,
        "held": lambda: np.repeat(rng.normal(size=count), rng.integers(1, 9, count))[:count],
        "walk": noise.cumsum,
        "walk under noise": lambda: noise.cumsum() + 5 * rng.normal(size=count),
        "line": lambda: noise + 10 * at / count,
        "decay": lambda: 0.3 + 2 * np.exp(-at / (0.15 * count)) + 0.03 * noise,
        "decay of shares": lambda: (0.1 + 2 * np.exp(-at / (0.1 * count))) * np.exp(0.3 * noise),
    }[kind]()


def simulated(runs: int) -> None:
    """Print in how many runs of noise something is said to change, and by the kinds of what."""
    wrong = Counter[str]()
    false = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        count = int(rng.choice(LENGTHS))
        kinds = rng.choice(KINDS, SERIES).tolist()
        chosen = {f"series{at}": null(kind, count, rng) for at, kind in enumerate(kinds)}
        steps = np.arange(count)
        groups = change_log(RecordedSeries(tag, steps, each, 1e9 + steps) for tag, each in chosen.items())
        tags = {change.tag for group in groups for change in group.changes}
        false += bool(tags)
        wrong.update(kinds[int(tag.removeprefix("series"))] for tag in tags)
    print(f"of {runs} runs of {SERIES} series in which nothing changes, {false} have a change: {dict(wrong)}")


def planted(height: float) -> None:
    """Print how many steps of a height in median differences are found with their onset."""
    found = total = 0
    for seed in range(16):
        for kind in (kind for kind in KINDS if kind != "held"):  # which has no noise to measure a step by
            for count in (24, 100, 1000, 3000):
                values = null(kind, count, np.random.default_rng(1000 + seed))
                onset = count // 2
                usual = float(np.median(np.abs(np.diff(values))))
                if kind == "shares":
                    usual = 0.0
                    values[onset:] *= 0.5
                values[onset:] += height * usual
                total += 1
                found += any(jump.first <= onset <= jump.last for jump in jumps(values, 1e-5))
    print(f"of {total} steps of {height:g} median differences, or of half a share, {found} are dated")


def recorded() -> None:
    """Print the healthy trainings of the corpus with a change of a main series that nobody set."""
    names = []
    healthy = [each for each in corpus.trainings() if each.planted is None]
    for training in healthy:
        groups = change_log(training.attempt.series)
        if any(each.source == "series" and each.main for group in groups for each in group.changes):
            names.append(training.name)
    print(f"of {len(healthy)} healthy trainings {len(names)} have one: {', '.join(names)}")


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    args = parser.parse_args()
    simulated(args.runs)
    planted(12.0)
    planted(20.0)
    recorded()


if __name__ == "__main__":
    main()
