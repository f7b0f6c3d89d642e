"""A short seeded part of ``make fuzz``, and every input that has broken something once."""

from __future__ import annotations

from itertools import islice

import pytest
from support import fuzz

INPUTS = 40


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_damaged_inputs_are_read_or_refused_in_words(name, tmp_path):
    known = len(fuzz.seeds(name))
    for data in islice(fuzz.inputs(name, seed=1), known + INPUTS):
        fuzz.attempt(name, data, tmp_path)


def test_the_same_seed_gives_the_same_inputs():
    first, again, other = (list(islice(fuzz.inputs("spool", seed), 30)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
