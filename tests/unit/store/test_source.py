"""What is read of an event file: its columns, and those that several tags share."""

import numpy as np
import pytest

import stepscope as ss
from stepscope.events import Event, EventWriter, Summary, Value
from stepscope.events.tensors import tensor
from stepscope.store.source import INFO_TAG, shared


def test_only_equal_columns_are_shared():
    """Tags of a loop have the same steps; others may begin and end alike all the same."""
    kept = {}
    first = shared(np.array([0, 1, 5, 9]), kept)
    assert shared(np.array([0, 1, 5, 9]), kept) is first
    assert shared(np.array([0, 4, 5, 9]), kept).tolist() == [0, 4, 5, 9]
    assert shared(np.array([0, 1, 5, 9]), kept) is first
    assert shared(np.array([0, 1, 5, 9], np.int32), kept).dtype == np.int32


def test_a_part_of_a_column_is_not_kept_as_it_is():
    part = shared(np.arange(1000)[10:20], {})
    assert part.base is None
    assert part.tolist() == list(range(10, 20))


def test_tags_that_begin_and_end_at_the_same_steps_keep_their_own(tmp_path):
    with ss.Run(tmp_path / "a") as run:
        for step in range(10):
            for tag, steps in {"a": (0, 1, 5, 9), "b": (0, 4, 5, 9)}.items():
                if step in steps:
                    run.scalar(tag, float(step), step)
    for _ in range(2):  # the second time from the cache
        with ss.open(tmp_path) as log:
            found = {tag: log.run("a").columns(tag)[0].points.columns for tag in "ab"}
        assert found["a"].step.tolist() == found["a"].value.tolist() == [0, 1, 5, 9]
        assert found["b"].step.tolist() == found["b"].value.tolist() == [0, 4, 5, 9]


@pytest.mark.parametrize("text", [np.zeros(1), np.zeros(0), None])
def test_what_a_run_says_in_no_text_is_not_taken_for_facts(tmp_path, text):
    value = Value(INFO_TAG, simple_value=1.0) if text is None else Value(INFO_TAG, tensor=tensor(text))
    writer = EventWriter(tmp_path)
    writer.event(Event(1.7e9, 0, summary=Summary([value])))
    writer.scalar("loss", 1.0, 3, 1.7e9)
    writer.close()
    with ss.open(tmp_path, cache=False) as log:
        assert log.run(".").columns("loss")[0].step.tolist() == [3]
