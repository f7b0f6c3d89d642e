"""Every rule gives all that a finding has: held over the source, so that a new rule cannot forget a part."""

import ast
from pathlib import Path

import pytest

from stepscope.analyze import advise

RULES = Path(advise.__file__).parent
PARTS = {"place", "events", "command", "withdrawn"}
OF_TFPROF = {"place", "events"}
"""What tfprof's own data has none of: it knows no ranks and no events."""
COSTS_TIME = {"cost_ns", "cost_ratio", "gain_ns", "gain_ratio", "gain_from"}


def calls(name: str) -> list[tuple[str, ast.Call, str]]:
    found = []
    for path in sorted(RULES.glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or (path.stem, function.name) == (
                "finding",
                "judged",
            ):
                continue
            found += [
                (f"{path.stem}:{node.lineno}", node, ast.unparse(node))
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
            ]
    return found


MADE, JUDGED = calls("Finding"), calls("judged")


def test_rules_were_found():
    assert len(MADE) >= 7
    assert len(JUDGED) >= 10


@pytest.mark.parametrize(("where", "call", "text"), MADE, ids=[where for where, _, _ in MADE])
def test_a_finding_has_its_place_events_command_and_withdrawal(where, call, text):
    given = {keyword.arg for keyword in call.keywords}
    wanted = PARTS - OF_TFPROF if "report" in text else PARTS
    assert wanted <= given, where
    assert not (given & COSTS_TIME) or given >= COSTS_TIME, "a gain is whole or not there"


@pytest.mark.parametrize(("where", "call", "text"), JUDGED, ids=[where for where, _, _ in JUDGED])
def test_a_finding_of_cases_says_what_to_do_and_when_it_would_not_be_said(where, call, text):
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    assert {"say", "action", "command", "withdrawn", "least", "of"} <= set(given), where
    for name in ("command", "withdrawn"):
        assert not (isinstance(given[name], ast.Constant) and not given[name].value), where
