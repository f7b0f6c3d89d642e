"""``make test`` runs what it says: each journey of its list exists."""

from __future__ import annotations

import ast
from pathlib import Path

from support.gate import FOLDER, JOURNEYS, in_gate

ROOT = Path(__file__).resolve().parents[2]


def test_every_journey_exists() -> None:
    for nodeid in JOURNEYS:
        file, _, name = nodeid.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, nodeid


def test_every_page_has_a_journey() -> None:
    pages = {"shell", "scalars", "records", "graph", "compare", "ranks", "profile"}
    journeys = {nodeid.split("::")[0].removeprefix(f"{FOLDER}test_page_") for nodeid in JOURNEYS}
    assert {f"{page}.py" for page in pages} <= journeys


def test_the_gate_takes_journeys_and_what_is_not_slow() -> None:
    [journey, *_] = sorted(JOURNEYS)
    assert in_gate(journey, ["slow"])
    assert in_gate(f"{journey}[light]", [])
    assert not in_gate(f"{FOLDER}test_page_shell.py::test_another", [])
    assert in_gate("tests/unit/test_gate.py::test_it", ["timing"])
    assert not in_gate("tests/unit/test_gate.py::test_it", ["slow"])
