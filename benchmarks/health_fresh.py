"""Judges the health rules once by trainings that nobody has seen: drawn from seeds, trained now.

``python benchmarks/health_fresh.py train DIRECTORY SEED... [--part 1/2]`` trains; ``judge DIRECTORY...`` says
false alarms, recall and delay by rule, every false finding and every condition that was missed. Whoever
looks at these has tuned on them: the next judgement needs other seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "health_corpus"))


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
    one.add_argument("--kind", choices=("fresh", "unseen"), default="fresh")
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
    for seed in seeds:
        for case in drawn(seed)[number - 1 :: parts]:
            facts, begun = directory / f"{case.name}.json", time.thread_time()
            if not facts.exists():
                record(case, directory)
                facts.write_text(json.dumps(facts_of(case)))
                print(f"{case.name}: {time.thread_time() - begun:.1f} s", flush=True)


def judge(directories: list[Path]) -> None:
    """Print how right the rules are."""
    import corpus

    found = [
        corpus.Training(**json.loads(path.read_text()), where=directory)
        for directory in directories
        for path in sorted(directory.glob("*.json"))
    ]
    for line in corpus.table(corpus.score(found)):
        print(line)


if __name__ == "__main__":
    main()
