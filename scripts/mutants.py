"""Change one place of the source at a time and see which changes no test notices.

    python scripts/mutants.py [--number 40] [--tests FOLDER] [--out FILE.json] [PACKAGE …]

A sample of the mutants of each package, always the same for the same source: a comparison, an operator, a
number, a truth value or a condition is replaced by another. Each runs against the unit tests of its package,
and, if it survives those, against the golden and property tests that read it. A copy is changed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "events": ["golden/test_estimator_events.py", "property/test_event_files.py"],
    "store": ["golden/test_estimator_store.py", "property/test_query.py", "property/test_following.py"],
    "health": ["golden/test_estimator_health.py", "property/test_health.py"],
    "analyze": [
        "golden/test_analyses_facts.py", "golden/test_analyses_formats.py", "golden/test_analyses_hta.py",
        "golden/test_views.py", "golden/test_tfprof.py", "property/test_analyses.py",
        "property/test_views.py",
    ],
}  # fmt: skip
"""What reads a package besides its unit tests."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub,
    ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip
LIMIT_S = 600


@dataclass(frozen=True)
class Mutant:
    """One change: to which node of a file, counted as ``ast.walk`` goes, and what it says in words."""

    path: Path
    node: int
    line: int
    change: str


def parents_of_types(tree: ast.AST) -> set[int]:
    """Nodes of annotations and docstrings, which do nothing when the program runs."""
    idle: set[int] = set()
    for node in ast.walk(tree):
        annotations = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            annotations.append(node.value)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            annotations.append(node)
        for each in annotations:
            idle |= {id(inner) for inner in ast.walk(each)} if each is not None else set()
    return idle


def change(node: ast.AST) -> str:
    """Change a node in place; in words, or nothing where there is nothing to change."""
    before = ast.unparse(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS:
        node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.op = ast.UAdd()
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        node.value += 1
    else:
        return ""
    return f"{before} → {ast.unparse(ast.fix_missing_locations(node))}"


def mutants(source: Path, package: str) -> Iterator[Mutant]:
    """Every mutant of a package."""
    for path in sorted((source / "stepscope" / package).rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        idle = parents_of_types(tree)
        for number, node in enumerate(ast.walk(tree)):
            if id(node) in idle or not hasattr(node, "lineno"):
                continue
            line = node.lineno
            if said := change(node):
                yield Mutant(path.relative_to(source), number, line, said)


def apply(source: Path, mutant: Mutant) -> str:
    """The text of the file with the change."""
    tree = ast.parse((source / mutant.path).read_text())
    change(next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node))
    return ast.unparse(tree)


def killed(copy: Path, tests: Path, wanted: list[str]) -> bool:
    """Whether a test fails, or does not come to an end, on a copy of the source."""
    names = [name for name in wanted if (tests / "tests" / name).exists()]
    environment = {**os.environ, "PYTHONPATH": str(copy), "CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    try:
        done = subprocess.run(
            [*command, *(f"tests/{name}" for name in names)],
            cwd=tests, env=environment, capture_output=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
    return done.returncode != 0


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.py"))}


def verdicts(package: str, copy: Path, trees: list[Path], number: int) -> Iterator[dict[str, object]]:
    """What became of each mutant of a sample: with the tests of each tree, by what it was killed."""
    every = list(mutants(ROOT / "src", package))
    sample = random.Random(package).sample(every, min(number, len(every)))
    units = [f"unit/{package}"]
    same = all(content(tree / "tests" / units[0]) == content(trees[0] / "tests" / units[0]) for tree in trees)
    for tests in trees:
        for wanted in (units, TESTS[package]):
            assert not killed(copy, tests, wanted), f"{wanted} fail without any change"
    for mutant in sample:
        place = copy / mutant.path
        original = place.read_text()
        place.write_text(apply(ROOT / "src", mutant))
        found = {"package": package, "file": str(mutant.path), "line": mutant.line, "change": mutant.change}
        at_once = same and killed(copy, trees[0], units)
        for tests in trees:
            by = "unit" if at_once or (not same and killed(copy, tests, units)) else ""
            found[str(tests)] = by or ("golden" if killed(copy, tests, TESTS[package]) else "")
        place.write_text(original)
        yield {**found, "of": len(every)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=[])
    parser.add_argument("--number", type=int, default=40, help="mutants of each package")
    parser.add_argument("--tests", type=Path, action="append", help="root of the tests; may be given twice")
    parser.add_argument("--out", type=Path, help="one JSON object a line")
    arguments = parser.parse_args()
    trees = [path.resolve() for path in arguments.tests or [ROOT]]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)
        for package in arguments.packages or TESTS:
            found = []
            for verdict in verdicts(package, copy, trees, arguments.number):
                found.append(verdict)
                if arguments.out:
                    with arguments.out.open("a") as file:
                        file.write(json.dumps(verdict) + "\n")
            for tests in map(str, trees):
                alive = [each for each in found if not each[tests]]
                print(f"{package}: {len(alive)} of {len(found)} survive the tests of {tests}")
                for each in alive:
                    print(f"  {each['file']}:{each['line']}  {each['change']}")


if __name__ == "__main__":
    main()
