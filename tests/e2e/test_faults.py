"""Faults, played for real: every promise about what may be lost is kept. ``make faults`` prints the table."""

import re
from pathlib import Path

import pytest
from support import faults

ON_A_DISK = [each.name for each in faults.FAULTS if not each.store]
PAGE = Path(__file__).parents[2] / "docs" / "design" / "faults.md"
"""The table as ``make faults`` printed it; stores are played in ``test_stores``, too."""


@pytest.mark.parametrize("name", ON_A_DISK)
def test_nothing_is_lost_but_what_may_be(name, tmp_path):
    [row] = faults.play([name], 1, tmp_path)
    assert not row.broken, row.words
    assert len(row.found) == row.fault.times


def test_a_promise_that_is_broken_is_said(monkeypatch, tmp_path, capsys):
    [killed] = [each for each in faults.FAULTS if each.name == "killed"]
    loses = faults.Outcome(logged=9, lost=3, wrong=0, age_s=60.0, counted=None, seen="running")
    invents = faults.Outcome(logged=9, lost=0, wrong=1, age_s=0.0, counted=None, seen="running")
    silent = faults.Outcome(logged=0, lost=0, wrong=0, age_s=0.0, counted=None, seen="no run")
    for found in (loses, invents, silent):
        monkeypatch.setattr(killed, "play", lambda folder, dice, found=found: found)
        assert faults.main(["killed"]) == 1
        assert "BROKEN" in capsys.readouterr().out


def test_the_page_lists_every_fault_and_its_promise():
    first_table = re.search(r"^\|.*?(?=\n\n)", PAGE.read_text(), re.DOTALL | re.MULTILINE)[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in first_table.splitlines()]
    assert rows[2:] == [[each.what, each.promise] for each in faults.FAULTS]
    assert not re.search("BROKEN", PAGE.read_text())
