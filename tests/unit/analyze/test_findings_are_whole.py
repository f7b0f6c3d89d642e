"""Every rule gives all that a finding has: held over the source, so that a new rule cannot forget a part."""

import ast
from pathlib import Path

import pytest

from stepscope.analyze import advise

RULES = Path(advise.__file__).parent
ENGINE = "cause"
"""The module that makes the findings of all rows, each with all parts."""
PARTS = {"place", "events", "command", "withdrawn"}
OF_TFPROF = {"place", "events"}
"""What tfprof's own data has none of: it knows no ranks and no events."""
COSTS_TIME = {"cost_ns", "cost_ratio", "gain_ns", "gain_ratio", "gain_from"}


def calls(name: str) -> list[tuple[str, ast.Call]]:
    return [
        (f"{path.stem}:{node.lineno}", node)
        for path in sorted(RULES.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


MADE = [(where, call) for where, call in calls("Finding") if not where.startswith(f"{ENGINE}:")]
ROWS = calls("Cause")


def test_rules_were_found():
    assert len(MADE) >= 5
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("where", "call"), MADE, ids=[where for where, _ in MADE])
def test_a_finding_has_its_place_events_command_and_withdrawal(where, call):
    given = {keyword.arg for keyword in call.keywords}
    wanted = PARTS - OF_TFPROF if "report" in ast.unparse(call) else PARTS
    assert wanted <= given, where
    assert not (given & COSTS_TIME) or given >= COSTS_TIME, "a gain is whole or not there"


@pytest.mark.parametrize(("where", "call"), ROWS, ids=[where for where, _ in ROWS])
def test_a_row_says_what_to_do_and_when_it_would_not_be_said(where, call):
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    assert {"rule", "cases", "say", "remedies", "withdrawn"} <= set(given), where
    for value in given.values():
        assert not (isinstance(value, ast.Constant) and value.value == ""), where
