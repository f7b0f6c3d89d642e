"""Runs the trainings of this folder and writes the series that they log.

How the set was made: its author took known mistakes from courses, posts and issue trackers, and recipes known
to work, and wrote thirty healthy trainings and thirty with a planted fault without having read the product's
rules, code, tests or documents, and before the product was first run on any of them. Each was run to see
that the healthy ones learn and that each fault shows in the series named for it. So the set measures the
rules on trainings that they were not tuned for; once a rule is tuned on it, it no longer does.
Eight more of each (``later``) were written after that in the same way; twelve (``courses``) and thirteen
(``habits``) by an author who had read the rules, and sixteen (``practices``), twenty-two (``everyday``) and
twenty-four (``forums``) by authors who knew their titles; twenty-eight (``clinics``) and twenty-four
(``labs``) by authors who had read neither.

    python benchmarks/unseen_trainings/run.py                 # all, one after the other
    python benchmarks/unseen_trainings/run.py NAME...         # some
    python benchmarks/unseen_trainings/run.py --list          # what there is; runs nothing
    python benchmarks/unseen_trainings/run.py --show NAME     # also prints a summary of each series

Each training becomes one file NAME.json.gz with what is registered about it and ``series``: for each tag its
steps and values in the order of logging, and ``order``: the places of its points among those of all tags.
Values that JSON lacks are the strings "nan", "inf" and "-inf".
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import math
import sys
import time
from collections import defaultdict
from itertools import count
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from registry import TRAININGS, Training  # noqa: E402 - the folder is put on the path above

SUBJECTS = (
    *("classify", "regress", "language", "generate", "reinforce", "represent", "operate"),
    *("later", "courses", "habits", "practices", "everyday", "forums", "clinics"),
    "labs",
)
OUT = HERE.parents[1] / ".cache" / "unseen_trainings"

Series = dict[str, tuple[list[int], list[float], list[int]]]
"""Steps, values and places in the order of logging, by tag."""


def trainings() -> dict[str, Training]:
    """All trainings by name."""
    for subject in SUBJECTS:
        importlib.import_module(subject)
    return TRAININGS


def record(chosen: Training) -> Series:
    """Run one training and return its series."""
    series: Series = defaultdict(lambda: ([], [], []))
    places = count()

    def log(tag: str, value: float, step: int) -> None:
        steps, values, order = series[tag]
        steps.append(int(step))
        values.append(float(value))
        order.append(next(places))

    chosen.function(log)
    if missing := set(chosen.series) - set(series):
        raise ValueError(f"{chosen.name} never logs {', '.join(sorted(missing))}")
    return dict(series)


def write(chosen: Training, series: Series, out: Path) -> Path:
    """Write one training's series and what is registered about it."""
    columns = {
        tag: {"steps": steps, "values": [v if math.isfinite(v) else str(v) for v in values], "order": order}
        for tag, (steps, values, order) in series.items()
    }
    known = {key: value for key, value in vars(chosen).items() if key != "function"}
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{chosen.name}.json.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump({**known, "series": columns}, file, allow_nan=False, ensure_ascii=False)
    return path


def show(chosen: Training, series: Series) -> None:
    """Print eight values of each series, spread over its length."""
    for tag, (steps, values, _) in series.items():
        picks = [round(i * (len(values) - 1) / 7) for i in range(8)]
        row = " ".join(f"{values[i]:.4g}" for i in dict.fromkeys(picks))
        print(f"  {'*' if tag in chosen.series else ' '} {tag} [{len(steps)}: {steps[0]}-{steps[-1]}] {row}")


def main() -> None:
    """Run the named trainings, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true", help="say what there is and run nothing")
    parser.add_argument("--show", action="store_true", help="print a summary of each series")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    known = trainings()
    if unknown := set(args.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for name in args.names or known:
        chosen = known[name]
        about = (
            "healthy" if chosen.healthy else f"{chosen.fault} ({', '.join(chosen.series)}; {chosen.onset})"
        )
        if args.list:
            print(f"{chosen.subject:10} {name:28} {chosen.field}: {about}")
            continue
        start = time.perf_counter()
        series = record(chosen)
        write(chosen, series, args.out)
        points = sum(len(steps) for steps, *_ in series.values())
        print(f"{name}: {points} points, {time.perf_counter() - start:.1f} s; {about}", flush=True)
        if args.show:
            show(chosen, series)


if __name__ == "__main__":
    main()
