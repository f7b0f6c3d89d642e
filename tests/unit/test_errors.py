"""Every error says what to do next."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepscope
from stepscope import errors

ROOT = Path(stepscope.__file__).parent
RAISED = {
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value)
    and issubclass(value, errors.StepscopeError)
    and value is not errors.StepscopeError
}
"""The base itself only carries warnings."""


def without_hint(text: str, where: str) -> Iterator[str]:
    """Where an error of ours is made that names no next action, or an empty one."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        hints = [word.value for word in node.keywords if word.arg in ("hint", None)]
        empty = not hints or any(isinstance(hint, ast.Constant) and not hint.value for hint in hints)
        if name in RAISED and empty:
            yield f"{where}:{node.lineno} {ast.unparse(node)[:90]}"


def test_every_error_has_a_next_action():
    assert [
        wrong
        for path in sorted(ROOT.rglob("*.py"))
        for wrong in without_hint(path.read_text(), path.relative_to(ROOT).as_posix())
    ] == []


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("raise UsageError('no')", 1),
        ("raise errors.TraceError('no', hint='')", 1),
        ("def f():\n    return RecordError(f'{x}', path=x)", 1),
        ("raise UsageError('no', hint='write yes')", 0),
        ("raise type(error)(error.message, hint=error.hint)", 0),
        ("raise ValueError('no')", 0),
    ],
)
def test_a_missing_one_is_found(made, found):
    assert len(list(without_hint(made, "x"))) == found


def test_a_message_ends_with_hint_and_path():
    error = errors.TraceError("not a trace", hint="record one", path="a.json")
    assert str(error) == "not a trace\nhint: record one\nfile: a.json"
