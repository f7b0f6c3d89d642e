"""``make test`` runs what it says: each journey of its list exists."""

import ast
from pathlib import Path

from support.gate import FOLDER, JOURNEYS, in_gate, may_hold

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


def test_a_file_is_left_alone_only_if_it_holds_no_test_of_the_session() -> None:
    [journey, *_] = sorted(JOURNEYS)
    file = journey.split("::")[0]
    marked = "@pytest.mark.slow\ndef test_it(): ..."
    assert may_hold(file, "", gate=True)
    assert may_hold(file, "", gate=False)
    assert not may_hold(f"{FOLDER}test_other.py", "", gate=True)
    assert may_hold(f"{FOLDER}test_other.py", "", gate=False)
    assert may_hold("tests/unit/test_it.py", marked, gate=True)
    assert may_hold("tests/unit/test_it.py", marked, gate=False)
    assert not may_hold("tests/unit/test_it.py", "def test_it(): ...", gate=False)


def test_no_file_takes_the_mark_of_slow_tests_from_elsewhere() -> None:
    """It would not be seen in its text."""
    shared = [*(ROOT / "tests").rglob("conftest.py"), *(ROOT / "tests" / "lib").rglob("*.py")]
    named = [path for path in shared if "mark.slow" in path.read_text()]
    assert named == [ROOT / "tests" / "lib" / "support" / "gate.py"]
