"""A class has a name of its own, so that a search for it finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import stepscope

SOURCE = Path(stepscope.__file__).parent
PER_FRAMEWORK = ("integrations", "compat", "demo")
"""Packages whose classes are named as others' programs name them, once for each framework."""
OF_RUN_AND_PROFILE = {"Finding", "Abstention"}
"""Of the checks of a training (``health``) and of those of a profile (``analyze/advise``): each is public."""


def classes() -> dict[str, list[tuple[str, ast.ClassDef]]]:
    """Where each name of a class is defined: its module's path and the definition."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append((path.relative_to(SOURCE).as_posix(), node))
    return found


def is_wire_form(place: str, node: ast.ClassDef) -> bool:
    """Whether it is an answer of the HTTP interface, which is named as what of the store it carries."""
    return place.startswith("serve/") and "msgspec.Struct" in map(ast.unparse, node.bases)


def told_apart(name: str, places: list[tuple[str, ast.ClassDef]]) -> bool:
    """Whether a name that several classes have is one idea."""
    if name in OF_RUN_AND_PROFILE:
        return [place.split("/")[0] for place, _ in places] == ["analyze", "health"]
    others = [(place, node) for place, node in places if place.split("/")[0] not in PER_FRAMEWORK]
    if len(places) > len(others):
        return len(others) <= 1
    stored = [place for place, node in others if not is_wire_form(place, node)]
    return len(others) == 2 and len(stored) == 1 and stored[0].startswith("store/")


def test_no_two_classes_share_a_name():
    found = {name: places for name, places in classes().items() if len(places) > 1}
    assert {
        name: [place for place, _ in places] for name, places in found.items() if not told_apart(name, places)
    } == {}
    assert set(found) >= OF_RUN_AND_PROFILE, "one that is told apart by now needs no exception"
