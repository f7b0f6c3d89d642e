"""The parity table: every "yes" names tests that are there, and only a "yes" does."""

import re
from pathlib import Path

import pytest

from stepscope.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "design" / "parity.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| there")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_yes_names_a_test_and_the_rest_a_reason(row):
    assert len(row) == 4, "there, here, where, test"
    _, here, where, named = row
    assert here in ("yes", "part", "no")
    assert where
    if here != "yes":
        assert named == ""
        return
    for each in named.split(", "):
        path, _, name = each.strip("`").partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), each


def test_all_of_the_old_job_works():
    """The rows are numbered, all are "yes", and the programs and commands that they name are there."""
    job = [row for row in ROWS if re.match(r"\d+\. ", row[0])]
    assert [int(row[0].partition(".")[0]) for row in job] == list(range(1, len(job) + 1))
    assert len(job) >= 32
    assert {here for _, here, _, _ in job} == {"yes"}
    text = (ROOT / "docs" / "design" / "parity.md").read_text()
    programs = set(re.findall(r"examples/[\w/]+\.py", text))
    assert "examples/birthweight/estimator_train.py" in programs
    assert [name for name in programs if not (ROOT / name).is_file()] == []
    assert set(re.findall(r"`stepscope (\w+)", text)) <= set(COMMANDS)


def test_every_system_has_its_part():
    titles = re.findall(r"^## (.*)", (ROOT / "docs" / "design" / "parity.md").read_text(), re.MULTILINE)
    named = " ".join(titles)
    assert all(word in named for word in ("tfprof", "TensorBoard", "XProf", "HTA", "W&B", "Aim", "trackio"))
    assert len(ROWS) > 50
