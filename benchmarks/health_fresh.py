"""Judges the health rules once by trainings that nobody has seen: drawn from seeds, trained now.

``python benchmarks/health_fresh.py train DIRECTORY SEED... [--part 1/2]`` trains; ``judge DIRECTORY...`` says
false alarms, recall and delay by rule, every false finding and every condition that was missed. Whoever
looks at these has tuned on them: the next judgement needs other seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests" / "health_corpus"), str(HERE / "health_trainings")]

BROKE = 5.0
"""A training whose loss ends beyond so many times its first point is not healthy."""
LOSS = re.compile(r"(?:.*/)?(?:train_|epoch_)?loss(?:/train)?", re.IGNORECASE)
"""The whole loss of a training; parts of it, as of an autoencoder, may rise from 0."""


def main() -> None:
    """Train or judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("train")
    one.add_argument("directory", type=Path)
    one.add_argument("seeds", type=int, nargs="+")
    one.add_argument("--part", default="1/1", help="the i-th of n parts of the trainings")
    one.add_argument("--kind", choices=("fresh", "unseen", "odd"), default="fresh")
    other = commands.add_parser("judge")
    other.add_argument("directories", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "train":
        train(arguments.directory, arguments.seeds, arguments.part, arguments.kind)
    else:
        judge(arguments.directories)


def train(directory: Path, seeds: list[int], part: str, kind: str) -> None:
    """Train the cases of seeds that are not there yet."""
    import torch
    from record import facts_of, record

    if kind == "fresh":
        from fresh import fresh as drawn
    else:
        from unseen import unseen as drawn
    torch.set_num_threads(1)
    directory.mkdir(parents=True, exist_ok=True)
    number, parts = map(int, part.split("/"))
    if kind == "odd":
        train_odd(directory, seeds, number, parts)
        return
    for seed in seeds:
        for case in drawn(seed)[number - 1 :: parts]:
            facts, begun = directory / f"{case.name}.json", time.thread_time()
            if not facts.exists():
                record(case, directory)
                facts.write_text(json.dumps(facts_of(case)))
                print(f"{case.name}: {time.thread_time() - begun:.1f} s", flush=True)


def train_odd(directory: Path, seeds: list[int], number: int, parts: int) -> None:
    """Train those with loops and logs of their own that are not there yet."""
    from odd import names_of, record_odd

    os.environ.setdefault("KERAS_BACKEND", "jax")
    for name, what, seed in [each for one in seeds for each in names_of(one)][number - 1 :: parts]:
        begun = time.thread_time()
        if not (directory / f"{name}.json").exists():
            record_odd(name, what, seed, directory)
            print(f"{name}: {time.thread_time() - begun:.1f} s", flush=True)


def judge(directories: list[Path]) -> None:
    """Print how right the rules are."""
    import corpus

    found = [
        corpus.Training(**json.loads(path.read_text()), where=directory)
        for directory in directories
        for path in sorted(directory.glob("*.json"))
    ]
    left_out: dict[str, str] = {}
    for each in found:
        if each.planted is None and broke_by_itself(corpus.points_of, each):
            left_out[each.name] = "was drawn as healthy and broke by itself"
        elif each.planted is None and has_an_idle_expert(corpus.points_of, each):
            left_out[each.name] = "was drawn as healthy, and an expert's weights never moved"
        elif each.planted is not None and nothing_exploded(corpus.points_of, each):
            left_out[each.name] = "was to explode, and its gradient never came to twice what it was before"
    for line in corpus.table(corpus.score([each for each in found if each.name not in left_out])):
        print(line)
    for name, reason in left_out.items():
        print(f"  left out: {name} {reason}")


def broke_by_itself(points_of: Callable[..., Any], training: Any) -> bool:
    """Return whether a training that was meant to be healthy was not, by its numbers and no rule.

    That is: most of a training loss is not finite, or its last tenth lies beyond five times its first point.
    """
    for points in points_of(training.name, training.where):
        if not LOSS.fullmatch(points.tag) or points.split == "eval" or points.tag.startswith("eval/"):
            continue
        values = np.asarray(points.value, float)
        if len(values) < 10 or not np.isfinite(values[0]) or values[0] <= 0:
            continue
        last = values[-(len(values) // 10) :]
        if np.mean(np.isfinite(values)) < 0.5 or np.median(last) > BROKE * values[0]:
            return True
    return False


EXPERT = re.compile(r"updates/(.*\bexperts\.\d+)\..*/weight_ratio")
"""Updates of a parameter of an expert."""


def has_an_idle_expert(points_of: Callable[..., Any], training: Any) -> bool:
    """Return whether an expert got nothing from the first to the last sample, by its updates and no rule."""
    most: dict[str, float] = {}
    for points in points_of(training.name, training.where):
        expert = EXPERT.fullmatch(points.tag)
        if expert is not None:
            moved = max(np.asarray(points.value, float), default=0.0)
            most[expert[1]] = max(most.get(expert[1], 0.0), moved)
    return len(most) > 1 and min(most.values()) == 0 < max(most.values())


def nothing_exploded(points_of: Callable[..., Any], training: Any) -> bool:
    """Return whether a gradient that was meant to explode stayed below twice its largest before."""
    if training.planted["rule"] != "exploding-gradient":
        return False
    for points in points_of(training.name, training.where):
        if points.tag in ("gradients/norm", "grad_2.0_norm_total", "train/grad_norm", "grad_norm"):
            values, steps = np.asarray(points.value, float), np.asarray(points.step)
            before, after = (
                values[steps < training.planted["first"]],
                values[steps >= training.planted["first"]],
            )
            if len(before) and np.isfinite(after).all():
                return bool(after.max(initial=0.0) < 2 * before.max())
    return False


if __name__ == "__main__":
    main()
