"""Twenty more trainings, whose answers were written before any was judged."""

import numpy as np
import pytest
from support.unseen_fields import FAULTY, SOUND

from stepscope.health import Monitor
from stepscope.health.changes import RecordedSeries, change_log

UNSEEN = {"experts", "faces", "translation", "patches", "proteins", "clouds"}
"""Faults that no rule names, or not with its onset."""
CHANGING = [made for made, answer in FAULTY.items() if answer.is_change]


def findings_of(series):
    monitor = Monitor()
    for tag, columns in series.items():
        monitor.take(tag, *columns)
    monitor.finish()
    return monitor.verdict.findings


@pytest.mark.parametrize("field", SOUND)
def test_a_sound_training_is_left_alone(field):
    for seed in (7, 8, 9):
        assert findings_of(SOUND[field](np.random.default_rng(seed))) == []


@pytest.mark.parametrize("made", CHANGING, ids=lambda made: made.__name__)
def test_a_change_is_in_the_log_with_its_onset(made):
    first, last = FAULTY[made].onset
    for seed in (7, 8):
        series = made(np.random.default_rng(seed))
        groups = change_log(RecordedSeries(tag, *columns) for tag, columns in series.items())
        changes = [each.change for group in groups for each in group.changes if each.tag in FAULTY[made].tags]
        assert any(each.first_step <= last and first <= each.last_step for each in changes), groups


@pytest.mark.parametrize(
    "made", [made for made in FAULTY if made.__name__ not in UNSEEN], ids=lambda made: made.__name__
)
def test_a_fault_is_named_with_its_onset(made):
    answer = FAULTY[made]
    for seed in (7, 8):
        found = [
            each
            for each in findings_of(made(np.random.default_rng(seed)))
            if each.rule in answer.rules and answer.tags & {each.tag, *each.also}
        ]
        assert any(answer.onset[0] <= each.since <= answer.onset[1] for each in found), found
