"""Change one place of the source at a time and see which changes no test notices.

    python scripts/mutants.py [--number 40] [--out FILE.json] [--again FILE.json] [PACKAGE …]

A sample of the mutants of each package, always the same for the same source: a comparison, an operator, a
number, a truth value or a condition is replaced by another. The tests of the package run once under coverage,
which says which test files reach which line; each mutant runs against those that reach its line, the quickest
first, or against all where it is read when the module is imported. One that no test reaches survives at once.
A copy is changed.
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
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "events": ["golden/test_estimator_events.py", "property/test_event_files.py", "unit/record/summaries"],
    "store": ["golden/test_estimator_store.py", "property/test_query.py", "property/test_following.py"],
    "health": ["golden/test_estimator_health.py", "property/test_health.py"],
    "analyze": [
        "golden/test_analyses_facts.py", "golden/test_analyses_formats.py", "golden/test_analyses_hta.py",
        "golden/test_views.py", "golden/test_tfprof.py", "property/test_analyses.py",
        "property/test_views.py",
    ],
}  # fmt: skip
"""Tests that cover a package besides its unit tests."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub,
    ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip
LIMIT_S = 600


@dataclass(frozen=True)
class Mutant:
    """One change: to which node of a file, counted as ``ast.walk`` goes, and what it says in words.

    ``statement`` is the line where the statement begins of which the node is part.
    """

    path: Path
    node: int
    line: int
    statement: int
    change: str


@dataclass(frozen=True)
class Reach:
    """Which test files reach a line, and how long each takes.

    Attributes:
        files: Test files by source file and line: none for a line that only an import reaches. Lines that
            nothing reaches are absent.
        seconds: Duration of each test file.
    """

    files: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    def wanted(self, mutant: Mutant) -> list[str]:
        """The test files for a mutant, the quickest first; none where its line is not reached."""
        lines = self.files.get(str(mutant.path), {})
        found = [lines[line] for line in {mutant.line, mutant.statement} if line in lines]
        names = set().union(*found) or set(self.seconds) if found else set()
        return sorted(names, key=lambda name: self.seconds[name])


def idle_nodes(tree: ast.AST) -> set[int]:
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


def statement_lines(tree: ast.AST) -> dict[int, int]:
    """The line where the innermost statement of each node begins."""
    lines: dict[int, int] = {}
    for node in ast.walk(tree):  # from the outside in
        if isinstance(node, ast.stmt):
            lines |= {id(inner): node.lineno for inner in ast.walk(node) if isinstance(inner, ast.expr)}
    return lines


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
        idle, starts = idle_nodes(tree), statement_lines(tree)
        for number, node in enumerate(ast.walk(tree)):
            if id(node) in idle or not hasattr(node, "lineno"):
                continue
            line = node.lineno
            if said := change(node):
                yield Mutant(path.relative_to(source), number, line, starts.get(id(node), line), said)


def apply(source: Path, mutant: Mutant) -> str:
    """The text of the file with the change."""
    tree = ast.parse((source / mutant.path).read_text())
    change(next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node))
    return ast.unparse(tree)


def pytest_of(copy: Path, wanted: list[str], *options: str) -> int:
    """Run tests on a copy of the source; pytest's exit status."""
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{Path(__file__).parent}", "CI": "true"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, *options, *wanted], cwd=ROOT, capture_output=True, timeout=LIMIT_S, check=False,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
    return done.returncode


def reach(copy: Path, package: str) -> Reach:
    """Run the tests of a package once, and see what they reach."""
    names = [f"unit/{package}", *TESTS[package]]
    wanted = [f"tests/{name}" for name in names if (ROOT / "tests" / name).exists()]
    found = copy.parent / "reach.json"
    status = pytest_of(copy, wanted, "-p", "mutants_reach", f"--reach={found}", f"--reach-of={copy}")
    assert status == 0, f"{wanted} fail without any change"
    said = json.loads(found.read_text())
    files = {
        path: {int(line): set(tests) for line, tests in lines.items()}
        for path, lines in said["files"].items()
    }
    return Reach(files, said["seconds"])


def killed(copy: Path, wanted: list[str]) -> bool:
    """Whether a test fails, or does not come to an end, on a copy of the source."""
    try:
        return pytest_of(copy, wanted) != 0
    except subprocess.TimeoutExpired:
        return True


def verdicts(copy: Path, sample: list[Mutant], reached: Reach) -> Iterator[dict[str, object]]:
    """The outcome of each mutant of a sample."""
    for mutant in sample:
        place = copy / mutant.path
        original = place.read_text()
        wanted = reached.wanted(mutant)
        place.write_text(apply(ROOT / "src", mutant))
        start = time.monotonic()
        dead = bool(wanted) and killed(copy, wanted)
        place.write_text(original)
        yield {
            **asdict(mutant), "path": str(mutant.path), "killed": dead, "files": len(wanted),
            "seconds": round(time.monotonic() - start, 1),
        }  # fmt: skip


def chosen(package: str, number: int, again: list[dict[str, object]]) -> tuple[list[Mutant], int]:
    """A sample of a package's mutants, or those that survived before; and how many there are."""
    every = list(mutants(ROOT / "src", package))
    if again:
        alive = {(each["path"], each["change"]) for each in again if not each["killed"]}
        return [each for each in every if (str(each.path), each.change) in alive], len(every)
    return random.Random(package).sample(every, min(number, len(every))), len(every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=[])
    parser.add_argument("--number", type=int, default=40, help="mutants of each package")
    parser.add_argument("--again", type=Path, help="run those that survived in this file of --out again")
    parser.add_argument("--out", type=Path, help="one JSON object a line")
    arguments = parser.parse_args()
    os.nice(19)
    again = [json.loads(line) for line in arguments.again.read_text().splitlines()] if arguments.again else []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)
        for package in arguments.packages or TESTS:
            sample, every = chosen(package, arguments.number, again)
            if not sample:
                continue
            found = []
            for verdict in verdicts(copy, sample, reach(copy, package)):
                found.append(verdict)
                if arguments.out:
                    with arguments.out.open("a") as file:
                        file.write(json.dumps({"package": package, **verdict}) + "\n")
            alive = [each for each in found if not each["killed"]]
            print(f"{package}: {len(alive)} of {len(found)} survive, of {every} mutants in all", flush=True)
            for each in alive:
                print(f"  {each['path']}:{each['line']}  {each['change']}", flush=True)


if __name__ == "__main__":
    main()
