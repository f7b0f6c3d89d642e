"""Change one place of the source at a time and see which changes no test notices.

    python scripts/mutants.py [--number 40] [--sample NAME] [--within 30] [--out FILE.json]
                              [--again FILE.json] [PACKAGE …]

A sample of the mutants of each package, always the same for the same source and name: a comparison, an
operator, a number, a truth value or a condition is replaced by another. The tests of the package run once
under coverage, which says which tests reach which line. Each mutant runs against those that reach its line,
the quickest first, then against the rest of their files; or against all where it is read when the module is
imported. One that no test reaches survives at once. ``--within`` leaves out the slowest tests of a mutant.

This process imports pytest and the large libraries and forks for each mutant, which then imports the changed
copy of the source: a second of processor time instead of five.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import itertools
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from mutants_reach import Chosen, Watcher, file_of

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "events": [
        "golden/test_estimator_events.py", "property/test_event_files.py", "unit/record/summaries",
        "unit/record/test_stages.py", "unit/store/test_pieces.py", "unit/store/test_ranks.py",
    ],
    "record": ["property/test_record.py"],
    "store": [
        "golden/test_estimator_store.py", "property/test_query.py", "property/test_following.py",
        "unit/record/test_stages.py",
    ],
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
LIBRARIES = (
    "numpy", "polars", "google.protobuf.message", "msgspec", "psutil", "PIL.Image", "starlette.routing",
    "uvicorn", "hypothesis.strategies", "sklearn.isotonic", "torch", "jax.numpy",
    "tensorboard.summary.writer.event_file_writer",
)  # fmt: skip
"""Modules that the tests import and that take long to import."""
OPTIONS = ["-xq", "-pno:cacheprovider", "-pno:xdist", "-Wignore::pytest.PytestAssertRewriteWarning"]
OPTIONS += ["--hypothesis-profile=ci"]  # the same examples every time
LEAST_LIMIT_S, LIMIT_FACTOR = 120, 20
"""A mutant takes no longer than this, and as many times the processor time of its tests under coverage."""
SLOW_S = 1.0
"""Tests that take longer come after all others."""


@dataclass(frozen=True)
class Mutant:
    """One change: to which node of a file, counted as ``ast.walk`` goes, and what it says in words.

    ``scope`` is the class and function around the node, ``statement`` the line where its statement begins.
    """

    path: Path
    scope: str
    node: int
    line: int
    statement: int
    change: str


@dataclass(frozen=True)
class Reach:
    """Which tests reach a line, and how long each takes.

    Attributes:
        lines: Tests by source file and line, and files of tests where a fixture of theirs reaches it; none
            for a line that only an import reaches. Lines that nothing reaches are absent.
        seconds: Processor time of each test.
    """

    lines: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    def wanted(self, mutant: Mutant) -> list[str]:
        """The tests for a mutant in the order to run; none where its line is not reached."""
        lines = self.lines.get(str(mutant.path), {})
        reached = [lines[line] for line in {mutant.line, mutant.statement} if line in lines]
        if not reached:
            return []
        near = set().union(*reached)
        imported = not near
        near = near or set().union(*lines.values())  # what an import reads, functions of the module use
        files = {file_of(name) for name in near}
        every = [name for name in self.seconds if imported or file_of(name) in files]
        reaching = {name for name in every if name in near or file_of(name) in near}
        return self.ordered(every, reaching)

    def ordered(self, tests: list[str], first: set[str]) -> list[str]:
        """Some tests first, the slow ones of both last, and each file at once, the quickest file first."""

        def part(name: str) -> tuple[bool, bool, str]:
            return self.seconds[name] > SLOW_S, name not in first, file_of(name)

        sums: dict[tuple[bool, bool, str], float] = {}
        for name in tests:
            sums[part(name)] = sums.get(part(name), 0.0) + self.seconds[name]
        return sorted(tests, key=lambda name: (*part(name)[:2], sums[part(name)], file_of(name)))


def idle_nodes(tree: ast.AST) -> set[int]:
    """Nodes of annotations and docstrings, which do nothing when the program runs.

    Nor do the options of a dataclass, as ``frozen``: they forbid what nothing does.
    """
    idle: set[int] = set()
    for node in ast.walk(tree):
        annotations = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            annotations.append(node.value)
        if isinstance(node, ast.ClassDef):
            annotations += [
                decorator for decorator in node.decorator_list if "dataclass" in ast.unparse(decorator)
            ]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            annotations.append(node)
        for annotation in annotations:
            idle |= {id(inner) for inner in ast.walk(annotation)} if annotation is not None else set()
    return idle


def statement_lines(tree: ast.AST) -> dict[int, int]:
    """The line where the innermost statement of each node begins."""
    lines: dict[int, int] = {}
    for node in ast.walk(tree):  # from the outside in
        if isinstance(node, ast.stmt):
            lines |= {id(inner): node.lineno for inner in ast.walk(node) if isinstance(inner, ast.expr)}
    return lines


def scopes(tree: ast.AST) -> dict[int, str]:
    """The qualified name of the class or function around each node."""
    names: dict[int, str] = {id(tree): ""}
    for node in ast.walk(tree):  # from the outside in
        own = getattr(node, "name", "") if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else ""
        name = ".".join(filter(None, (names[id(node)], own)))
        names |= {id(child): name for child in ast.iter_child_nodes(node)}
    return names


def parents(tree: ast.AST) -> dict[int, ast.AST]:
    """The node around each node."""
    return {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


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
        idle, starts, names, around = idle_nodes(tree), statement_lines(tree), scopes(tree), parents(tree)
        for number, node in enumerate(ast.walk(tree)):
            if id(node) in idle or not hasattr(node, "lineno"):
                continue
            if changed := change_within(node, around[id(node)]):
                line, scope = node.lineno, names.get(id(node), "")
                statement = starts.get(id(node), line)
                yield Mutant(path.relative_to(source), scope, number, line, statement, changed)


def change_within(node: ast.AST, outer: ast.AST) -> str:
    """Return a change in words, with what is around a number; change nothing."""
    if not isinstance(node, ast.Constant):
        return change(copy.deepcopy(node))
    before, value = ast.unparse(outer), node.value
    changed = change(node) and f"{before} → {ast.unparse(outer)}"
    node.value = value
    return changed


def changed(text: str, mutant: Mutant) -> str:
    """The text of a file with the change."""
    tree = ast.parse(text)
    change(next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node))
    return ast.unparse(tree)


class Forks:
    """Runs of pytest in processes forked from this one, on a copy of the source that may be changed."""

    def __init__(self, copy: Path, files: list[str]) -> None:
        self.copy, self.files = copy, files
        self.log, self.out = copy.parent / "log", copy.parent / "out"

    def reach(self) -> Reach:
        """Run all tests once, and see what they reach."""
        status = self._pytest(self.files, lambda: Watcher(self.out, self.copy), None)
        assert status == 0, f"{self.files} fail without any change:\n{self.log.read_text()[-4000:]}"
        answer = json.loads(self.out.read_text())
        lines = {
            path: {int(line): set(tests) for line, tests in tests_of.items()}
            for path, tests_of in answer["files"].items()
        }
        return Reach(lines, answer["seconds"])

    def noticed(self, tests: list[str], limit_s: float) -> str:
        """The test that fails, or what else happens; empty where nothing does."""
        self.out.write_text("")
        try:
            files = sorted({file_of(name) for name in tests})
            status = self._pytest(files, lambda: Chosen(tests, self.out), limit_s)
        except TimeoutError:
            return "does not come to an end"
        return self.out.read_text() or f"status {status}" if status else ""

    def _pytest(self, files: list[str], plugin: Callable[[], object], limit_s: float | None) -> int:
        """Pytest's exit status, or that of the signal that ended it."""
        pid = os.fork()
        if pid:
            return waited(pid, limit_s)
        status = 70
        try:
            os.setsid()  # to be ended with all that its tests start
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.path[:0] = [str(self.copy), str(ROOT)]  # the second as python -m pytest has it
            os.environ["PYTHONPATH"] = str(self.copy)
            if limit_s is not None:  # a changed file leaves nothing behind
                os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
                sys.dont_write_bytecode = True
            status = pytest.main([*OPTIONS, *files], plugins=[plugin()])
        finally:
            sys.stdout.flush()
            os._exit(status)


def waited(pid: int, limit_s: float | None) -> int:
    """Wait for a process, and end all that it started; its exit status.

    Raises:
        TimeoutError: It was late, and has been ended.
        RuntimeError: It ran no test.
    """

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s or 0)
    try:
        _, status = os.waitpid(pid, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    if code in (pytest.ExitCode.NO_TESTS_COLLECTED, 70):
        raise RuntimeError(f"pytest ended with {code}")
    return code


def quickest(tests: list[str], reached: Reach, within_s: float) -> list[str]:
    """The first tests that together take no longer than some time, or the first."""
    sums = itertools.accumulate(reached.seconds[name] for name in tests)
    return [name for name, total in zip(tests, sums, strict=True) if total <= within_s] or tests[:1]


def verdicts(
    forks: Forks, sample: list[Mutant], reached: Reach, within_s: float
) -> Iterator[dict[str, object]]:
    """The outcome of each mutant of a sample."""
    for mutant in sample:
        place = forks.copy / mutant.path
        original, times = place.read_text(), place.stat()
        every = reached.wanted(mutant)
        tests = quickest(every, reached, within_s)
        limit_s = LEAST_LIMIT_S + LIMIT_FACTOR * sum(reached.seconds[name] for name in tests)
        place.write_text(changed(original, mutant))
        start = time.monotonic()
        by = forks.noticed(tests, limit_s) if tests else ""
        place.write_text(original)
        os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))  # what is compiled of it is right again
        yield {
            **asdict(mutant), "path": str(mutant.path), "killed": bool(by), "by": by, "tests": len(tests),
            "left_out": len(every) - len(tests), "seconds": round(time.monotonic() - start, 1),
        }  # fmt: skip


def sampled(
    source: Path, package: str, number: int, name: str, again: list[dict[str, object]]
) -> tuple[list[Mutant], int]:
    """A sample of a package's mutants, or those that survived before; and how many there are."""
    every = list(mutants(source, package))
    if again:
        alive = {
            (verdict["path"], verdict["scope"], verdict["change"])
            for verdict in again
            if not verdict["killed"]
        }
        return [mutant for mutant in every if (str(mutant.path), mutant.scope, mutant.change) in alive], len(
            every
        )
    return random.Random(f"{package} {name}".strip()).sample(every, min(number, len(every))), len(every)


def report(package: str, verdicts: list[dict[str, object]], every: int) -> None:
    """Say how many survived, and which."""
    alive = [verdict for verdict in verdicts if not verdict["killed"]]
    print(f"{package}: {len(alive)} of {len(verdicts)} survive, of {every} mutants in all", flush=True)
    for survivor in alive:
        more = f"  ({survivor['left_out']} tests left out)" if survivor["left_out"] else ""
        more = more if survivor["tests"] else "  (not reached)"
        print(
            f"  {survivor['path']}:{survivor['line']} {survivor['scope']}  {survivor['change']}{more}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=[])
    parser.add_argument("--number", type=int, default=40, help="mutants of each package")
    parser.add_argument(
        "--within", type=float, default=math.inf, help="processor seconds of a mutant's tests"
    )
    parser.add_argument("--sample", default="", help="any name: another sample for each")
    parser.add_argument("--again", type=Path, help="run those that survived in this file of --out again")
    parser.add_argument("--out", type=Path, help="one JSON object a line")
    arguments = parser.parse_args()
    os.nice(19)
    os.chdir(ROOT)
    again = [json.loads(line) for line in arguments.again.read_text().splitlines()] if arguments.again else []
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # pytest collects garbage five times at its end
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        for package in arguments.packages or TESTS:
            sample, every = sampled(source, package, arguments.number, arguments.sample, again)
            if not sample:
                continue
            forks = Forks(source, [f"tests/unit/{package}", *(f"tests/{name}" for name in TESTS[package])])
            outcomes = []
            for verdict in verdicts(forks, sample, forks.reach(), arguments.within):
                outcomes.append(verdict)
                if arguments.out:
                    with arguments.out.open("a") as file:
                        file.write(json.dumps({"package": package, **verdict}) + "\n")
            report(package, outcomes, every)


if __name__ == "__main__":
    main()
