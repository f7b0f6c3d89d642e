"""It finds where the objects were made that a line of the program calls.

The cost of an optimizer shows in the line of ``optimizer.step()``, and is changed where the optimizer is
made. The source of the program's own files tells where that is; nothing is imported or run for it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

Place = tuple[int, str]
"""Number of a line and the function around it."""
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
MOST_SOURCE = 1 << 20
"""Bytes of the largest file that is read: some 25,000 lines, which take a third of a second."""
Scopes = tuple[Scope, ...]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


Made = tuple[str, list[str], list[str], list[str]]
"""The name of an object, and as frames the places where it was made, those where a call set it up, and those
where a loop does so again.
"""


def made(places: Iterable[tuple[str, int]]) -> dict[str, list[Made]]:
    """Return what lines call or loop over, if the files tell where that was made, by ``file.py(34)``.

    An object was made in the function that returned it and where it got its name.

    Args:
        places: Files of the program and numbers of lines.
    """
    lines: dict[str, list[Made]] = {}
    for file, line in dict.fromkeys(places):  # stacks stand at several instructions of a line
        if (source := _source(file)) is None:
            continue
        for name in source.called(line):
            making, setting_up, again = (
                [f"{file}({at}): {of}" for at, of in where] for where in source.made(name, line)
            )
            if making:
                lines.setdefault(f"{file}({line})", []).append((name, making, setting_up, again))
    return lines


@functools.lru_cache(maxsize=256)
def _source(file: str) -> _Source | None:
    try:
        path = Path(file)
        if path.stat().st_size > MOST_SOURCE:
            return None
        return _Source(ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError):  # gone, or another file by now
        return None


class _Source:
    """The source of one file of the program.

    Args:
        tree: Its syntax.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._statements: list[tuple[ast.stmt, Scopes]] = []
        self._walk(tree, (tree,))

    def _walk(self, node: ast.AST, scopes: Scopes) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statements.append((child, scopes))
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._walk(child, (*scopes, child))
            else:
                self._walk(child, scopes)

    def called(self, line: int) -> list[str]:
        """Return the names of what a line calls methods of, calls, or loops over."""
        names: dict[tuple[int, int], str] = {}
        for statement, _ in self._statements:
            if statement.lineno <= line <= (statement.end_lineno or 0):
                looped = [statement.iter] if isinstance(statement, ast.For) else []
                called = [node.func for node in _own_nodes(statement) if isinstance(node, ast.Call)]
                for node in (*looped, *called):
                    if node.lineno <= line <= (node.end_lineno or 0) and (name := _root(node)):
                        names[node.lineno, node.col_offset] = name
        return list(dict.fromkeys(names[at] for at in sorted(names)))

    def made(self, name: str, line: int) -> tuple[list[Place], list[Place], list[Place]]:
        """Return the places in which a name's object was made, set up, and set up again; none if unknown."""
        scopes = next(
            (
                around
                for statement, around in reversed(self._statements)
                if statement.lineno <= line <= (statement.end_lineno or 0)
            ),
            (),
        )
        for depth in range(len(scopes), 0, -1):
            of_class = isinstance(scopes[depth - 1], ast.ClassDef)
            if of_class != name.startswith("self."):
                continue
            within = scopes[:depth]
            bound = [
                (statement, around)
                for statement, around in self._statements
                if (around[:depth] if of_class else around) == within and name in _bound(statement)
            ]
            calls = [one for one in bound if any(_calls(one[0])) and one[0].lineno != line]
            if calls:
                # The last one before the line, unless a later turn of a loop comes first.
                making, around = next((one for one in reversed(calls) if one[0].lineno < line), calls[-1])
                places = [*self._returned(making, around), _place(making, around)]
                return places, *self._set_up(name, making, line, around)
            if bound:
                break
        return [], [], []

    def _returned(self, making: ast.stmt, scopes: Scopes) -> Iterator[Place]:
        """Yield where a function of this file that is called makes what it returns."""
        functions = {_root(call.func) for call in _calls(making)}
        for statement, around in self._statements:
            of, outside = around[-1], around[:-1]
            known = isinstance(of, _FUNCTIONS) and of.name in functions and outside == scopes[: len(outside)]
            if known and isinstance(statement, ast.Return) and any(_calls(statement)):
                yield _place(statement, around)

    def _set_up(
        self, name: str, making: ast.stmt, line: int, scopes: Scopes
    ) -> tuple[list[Place], list[Place]]:
        """Return calls of its methods, whose results nothing takes, between its making and a line.

        What a loop calls again and again is no setting up, unless it is what set the object up before.
        """
        calls = [
            (statement, ast.unparse(statement.value.func))
            for statement, around in self._statements
            if around == scopes
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and _root(statement.value.func) == name
        ]
        once = [one for one in calls if making.lineno < one[0].lineno < line and one[0] not in self._looped]
        methods = {method for _, method in once}
        again = [one for one in calls if one[0] in self._looped and one[1] in methods]
        before, anew = ([_place(one, scopes) for one, _ in some] for some in (once, again))
        return before, anew

    @functools.cached_property
    def _looped(self) -> set[ast.stmt]:
        loops = (one for one, _ in self._statements if isinstance(one, ast.For | ast.While))
        return {node for loop in loops for node in ast.walk(loop) if isinstance(node, ast.stmt)}


def _place(statement: ast.stmt, scopes: Scopes) -> Place:
    of = scopes[-1]
    return statement.lineno, "<module>" if isinstance(of, ast.Module) else of.name


def _own_nodes(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, without those of statements in it."""
    waiting: list[ast.AST] = [one for one in ast.iter_child_nodes(statement) if not isinstance(one, ast.stmt)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr):
            yield node
        waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.stmt)]


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls whose result a statement binds or returns; a decorated function is such a result."""
    if isinstance(statement, _FUNCTIONS):
        yield from (ast.Call(one, [], []) for one in statement.decorator_list)
        return
    value = getattr(statement, "value", None)
    yield from (node for node in ast.walk(value) if isinstance(node, ast.Call)) if value is not None else ()


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    if isinstance(statement, _FUNCTIONS):
        return {statement.name}
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {
        name
        for target in targets
        for one in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
        if (name := _root(one, whole=True))
    }


def _root(node: ast.expr, *, whole: bool = False) -> str:
    """Return the name whose object an expression calls: ``model`` of ``model.fit``, ``self.net`` of its call.

    Args:
        node: The expression.
        whole: Whether the expression must be that name, without anything called on it.
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return f"self.{node.attr}"
        return "" if whole else _root(node.value)
    return ""
