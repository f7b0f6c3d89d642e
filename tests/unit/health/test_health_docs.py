"""The reference of rules says of every rule what its code says."""

import re
import sys
from pathlib import Path

import pytest

from stepscope.health import RULES, SEVERITIES
from stepscope.health.kind import KINDS
from stepscope.health.looks import Row
from stepscope.names.roles import ROLES

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import docs_site  # noqa: E402

PAGE = docs_site.rules_page()


@pytest.mark.parametrize("name", RULES)
def test_the_reference_has_everything_that_a_rule_says(name):
    rule = RULES[name]
    part = PAGE.partition(f"\n### {name}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    for text in (rule.title, rule.severity, rule.action, *docs_site.said_by(rule).values()):
        assert text.replace("|", "\\|") in part
    assert all(f"`{limit}` {value:g}" in part for limit, value in rule.defaults.items())


@pytest.mark.parametrize("name", ROLES)
def test_a_role_has_its_row(name):
    assert f"| `{name}` | {ROLES[name]} |" in PAGE


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_complete(name):
    rule = RULES[name]
    assert rule.severity in SEVERITIES
    assert all((rule.title, rule.fewest, rule.action, rule.roles))
    assert {"formula", "fires", "source"} <= docs_site.said_by(rule).keys()
    assert set(rule.unfit) <= set(KINDS)
    assert set(rule.needs) <= set(rule.roles)
    assert set(rule.roles) <= {*ROLES, "other"}
    assert (rule.__doc__ or "").strip()


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if issubclass(rule, Row)])
def test_a_row_has_at_most_three_numbers_and_forty_words(name):
    formula = docs_site.said_by(RULES[name])["formula"]
    words = [word for word in formula.split() if any(each.isalnum() for each in word)]
    assert len(words) <= 40
    assert len(RULES[name].defaults) <= 3


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
