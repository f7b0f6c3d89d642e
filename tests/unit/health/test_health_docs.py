"""docs/guides/health.md says of every rule what its code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepscope.health import RULES, SEVERITIES
from stepscope.health.kind import KINDS
from stepscope.names.roles import ROLES

DOCS = Path(__file__).resolve().parents[3] / "docs" / "guides" / "health.md"


def row(rule):
    """The row of the table in the docs."""
    limits = ", ".join(f"{name} {value:g}" for name, value in rule.defaults.items())
    cells = [f"`{rule.id}`", rule.title, rule.severity, rule.formula, limits, rule.window]
    cells += [rule.chance, rule.fewest, rule.source]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_its_row(name):
    assert row(RULES[name]) in DOCS.read_text()


@pytest.mark.parametrize("name", ROLES)
def test_a_role_has_its_row(name):
    assert f"| `{name}` | {ROLES[name]} |" in DOCS.read_text()


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_complete(name):
    rule = RULES[name]
    assert rule.severity in SEVERITIES
    assert all((rule.title, rule.formula, rule.source, rule.window, rule.action, rule.roles))
    assert all((rule.chance, rule.fewest))
    assert set(rule.unfit) <= set(KINDS)
    assert set(rule.needs) <= set(rule.roles)
    assert set(rule.roles) <= {*ROLES, "other"}
    assert (rule.__doc__ or "").strip()


OF_TORCH = re.compile(
    r"torch\.|DataLoader|pin_memory|prefetch_factor|requires_grad|retain_graph|\.item\(\)|detached"
)
"""Names that only a user of PyTorch can do something with."""


@pytest.mark.parametrize("name", RULES)
def test_names_of_one_framework_stand_behind_its_name(name):
    """A user of JAX or Keras is not sent to names of PyTorch: what is for its users begins with its name."""
    others = re.sub(r"PyTorch: [^;]*?(?:;|\)(?=[;,.]|$))", "", RULES[name].action)
    assert not OF_TORCH.search(others)
    if "PyTorch:" in RULES[name].action:
        assert re.search(r"JAX|Keras", others)
