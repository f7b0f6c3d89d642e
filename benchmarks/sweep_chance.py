"""How often a sweep names a setting without effect, finds one with effect, and names a winner among equals.

Each sweep has 20 configurations of six settings, three seeds each. Configurations differ by more than seeds
do, as trainings do. In half of the sweeps the learning rate acts. Beside it, the same test
with each run as a unit.
"""

from __future__ import annotations

import argparse

import numpy as np

from stepscope.analyze.importance import importances
from stepscope.analyze.judgement import Curve
from stepscope.analyze.sweep import Grouping, judge_rows, ranked


def sweep(
    random: np.random.Generator, *, acts: bool, named: bool
) -> tuple[list[dict[str, object]], list[float]]:
    """Return the settings and the metric of each run; seeds are named so, or are numbers of jobs."""
    configs: list[dict[str, object]] = []
    values = []
    for trial in range(20):
        config = {
            "lr": float(10 ** random.uniform(-5, -1)),
            "width": int(random.choice([128, 256, 512])),
            "dropout": float(random.uniform(0, 0.5)),
            "optimizer": str(random.choice(["adamw", "sgd", "lion"])),
            "weight_decay": float(random.choice([0, 0.01, 0.1])),
            "batch_size": int(random.choice([32, 64, 128, 256])),
            "trial": f"trial-{trial:02d}",
        }
        level = random.normal()
        if acts:
            level = 1.5 * (np.log10(config["lr"]) + 3) ** 2 + level / 2
        for seed in range(3):
            own = {"seed": seed} if named else {"job": 1000 * trial + 37 * seed}
            configs.append({**config, **own})
            values.append(float(level + 0.1 * random.normal()))
    return configs, values


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=1000)
    count = parser.parse_args().sweeps
    random = np.random.default_rng(2)
    for named in (True, False):
        found = wrong = 0
        for _ in range(count):
            without = importances(*sweep(random, acts=False, named=named))
            wrong += any(one.told for one in without.settings)
            acting = importances(*sweep(random, acts=True, named=named))
            found += any(one.told and one.key == "lr" for one in acting.settings)
        seeds = "named as seeds" if named else "numbers of jobs"
        print(f"{seeds}: {wrong / count:.1%} name one without effect, {found / count:.1%} find the rate")
    wrong = 0
    for _ in range(max(1, count // 10)):
        configs, values = sweep(random, acts=False, named=True)
        runs = Grouping(
            [[at] for at in range(len(configs))], [key for key in configs[0] if key != "seed"], {}
        )
        wrong += any(one.told for one in importances(configs, values, runs).settings)
    print(f"runs as units: {wrong / max(1, count // 10):.1%} name one without effect")
    for size, seeds in ((2, 3), (5, 3), (20, 3), (20, 5)):
        members = [list(range(at * seeds, (at + 1) * seeds)) for at in range(size)]
        won = 0
        for _ in range(count):
            spreads = np.repeat(random.choice([0.5, 1, 2], size=size), seeds)
            values = (random.normal(size=size * seeds) * spreads).tolist()
            rows = ranked(members, values, True)
            judge_rows(rows, [Curve(np.array([0]), np.array([value])) for value in values], True)
            won += all(row.judgement is None or row.judgement.verdict == "worse" for row in rows)
        print(f"{size} equal configurations of {seeds} seeds: {won / count:.1%} name a winner")


if __name__ == "__main__":
    main()
