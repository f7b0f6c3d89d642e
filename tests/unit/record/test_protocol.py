"""Hooks and integrations use the public members of a run: nothing that begins with an underscore."""

import ast
import re
from pathlib import Path

import pytest

import stepscope

ROOT = Path(stepscope.__file__).parent
INSIDE = set((ROOT / "record").glob("*.py"))
"""Where a run is made of its parts; all else sees it from outside, the hooks in ``record/hooks`` too."""
PRIVATE = re.compile(r"\.\s*_[^_]")


def ends_with_run(node: ast.expr) -> bool:
    """Whether an expression is called a run: ``run``, ``self._run``, ``watched.run``, ``holder.run()``."""
    while isinstance(node, ast.Call):
        node = node.func
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.lower().strip("_").split("_")[-1] == "run"


def is_run_type(node: ast.expr | None) -> bool:
    return (node is not None and any(word in ast.unparse(node) for word in ("Run |", "Run)"))) or (
        node is not None and ast.unparse(node).strip("'\"") in ("Run", "ss.Run", "stepscope.Run")
    )


def called_runs(tree: ast.AST) -> set[str]:
    """Names that hold a run by their annotation, or as they are made by ``Run(…)``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and is_run_type(node.annotation):
            found.add(node.arg)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = ast.unparse(node.value.func).split(".")[-1]
            if made == "Run":
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def private_uses(source: str) -> list[int]:
    """Lines of a module that use a private attribute of a run."""
    if not PRIVATE.search(source):  # parsing takes much longer
        return []
    tree = ast.parse(source)
    private = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    ]
    by_name = {node.value.id for node in private if isinstance(node.value, ast.Name)} - {"self", "cls"}
    named = called_runs(tree) if by_name else set()
    return [
        node.lineno
        for node in private
        if ends_with_run(node.value) or (isinstance(node.value, ast.Name) and node.value.id in named)
    ]


def test_nothing_private_of_a_run_is_used_outside_its_own_modules():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(ROOT.rglob("*.py"))
        if path not in INSIDE and path.parent.name != "store"  # its Run is another, of what was recorded
        for line in private_uses(path.read_text())
    ]
    assert found == []


@pytest.mark.slow
def test_tests_of_other_packages_use_nothing_private_of_a_run_either():
    tests = Path(__file__).resolve().parents[2]
    found = [
        f"{path.relative_to(tests)}:{line}"
        for path in sorted(tests.rglob("*.py"))
        if "record" not in path.relative_to(tests).parts
        for line in private_uses(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "self._run._steps.next", "run._log", "watched.run._problems.tell()", "holder.run()._info",
        "def f(given: Run): given._end()", "def f(a: Run | None): a._end()",
        "found = ss.Run(x)\nfound._hooks",
    ],
)  # fmt: skip
def test_a_private_use_is_found(line):
    assert private_uses(line)
    assert not private_uses("self._run.clock\nself._rerun\nrun.__dict__\ndef f(a: int): a._end()")
