"""Classes and functions are small enough to be read at once; a larger class is named here with its reason."""

import ast
from pathlib import Path

import stepscope

ROOT = Path(stepscope.__file__).parent
MOST_METHODS, MOST_LINES = 25, 80
FACADES = {
    "record/run.py Run": "what users log with: each method hands what it is given to one part of the run"
}


def methods(node: ast.ClassDef) -> int:
    return sum(isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) for each in node.body)


def lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def large(source: str, name: str) -> tuple[set[str], set[str]]:
    """Classes of too many methods, and functions of too many lines."""
    nodes = list(ast.walk(ast.parse(source)))
    made = [each for each in nodes if isinstance(each, ast.ClassDef)]
    called = [each for each in nodes if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    classes = {f"{name} {each.name}" for each in made if methods(each) > MOST_METHODS}
    functions = {f"{name} {each.name}" for each in called if lines(each) > MOST_LINES}
    return classes, functions


def test_classes_and_functions_are_small():
    found = [large(path.read_text(), path.relative_to(ROOT).as_posix()) for path in ROOT.rglob("*.py")]
    assert len(found) > 100
    assert set().union(*(classes for classes, _ in found)) == FACADES.keys()
    assert set().union(*(functions for _, functions in found)) == set()


def test_what_is_too_large_is_found():
    several = "\n".join(f"    def m{n}(self): ..." for n in range(26))
    body = "\n".join(["    pass"] * 80)
    assert large(f"class A:\n{several}\nasync def f():\n{body}\n", "x") == ({"x A"}, {"x f"})
    assert large("class A:\n    def m(self): ...\ndef f():\n    pass\n", "x") == (set(), set())


def test_a_facade_has_no_work_of_its_own():
    for each in FACADES:
        path, name = each.split()
        [node] = [node for node in ast.walk(ast.parse((ROOT / path).read_text()))
                  if isinstance(node, ast.ClassDef) and node.name == name]  # fmt: skip
        private = [one.name for one in node.body if isinstance(one, ast.FunctionDef) and one.name[0] == "_"]
        assert [found for found in private if not found.endswith("__")] == []
