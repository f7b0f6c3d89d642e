"""The event files of a TensorFlow 2.15 Estimator, value for value as TensorBoard's own reader gives them."""

from collections import defaultdict

import pytest
from support.recordings import estimator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader, RawEventFileLoader

from stepscope.events import EventFile, decode_event, encode_event

DATA = estimator()
FILES = sorted(DATA.glob("**/events.out.tfevents.*"))


@pytest.fixture(params=FILES, ids=lambda path: "-".join(path.relative_to(DATA).parts[:-1]))
def path(request):
    return request.param


def test_scalars(path):
    expected = defaultdict(list)
    for event in LegacyEventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if value.HasField("simple_value"):
                expected[value.tag].append((event.wall_time, event.step, value.simple_value))
    file = EventFile(path)
    found = {
        columns.tag: list(
            zip(columns.wall.tolist(), columns.step.tolist(), columns.value.tolist(), strict=True)
        )
        for columns in file.read().scalars
    }
    assert found == dict(expected)
    assert sum(map(len, found.values())) == file.status.scalars > 0


@pytest.mark.slow
def test_everything_else(path):
    expected = []
    for event in LegacyEventFileLoader(str(path)).Load():
        expected += [
            (value.tag, event.step, event.wall_time, index)
            for index, value in enumerate(event.summary.value)
            if not value.HasField("simple_value")
        ]
        if event.graph_def:
            expected.append(("__run_graph__", event.step, event.wall_time, 0))
        if event.meta_graph_def:
            expected.append(("__meta_graph__", event.step, event.wall_time, 0))
        if event.HasField("tagged_run_metadata"):
            expected.append((event.tagged_run_metadata.tag, event.step, event.wall_time, 0))
    found = EventFile(path).read().records
    rows = zip(found.tag, found.step.tolist(), found.wall.tolist(), found.index.tolist(), strict=True)
    assert list(rows) == expected
    assert "__run_graph__" in found.tag


@pytest.mark.slow
def test_every_event_round_trips(path):
    count = 0
    for payload in RawEventFileLoader(str(path)).Load():
        count += 1
        assert encode_event(decode_event(payload)) == payload
    file = EventFile(path)
    file.read()
    assert file.status.records == count
    assert (file.status.version, file.status.problem) == ("brain.Event:2", None)


def test_every_position_leads_to_its_event(path):
    file = EventFile(path)
    batch = file.read()
    for columns in batch.scalars:
        event = file.event_at(int(columns.position[-1]))
        assert (event.step, event.wall_time) == (columns.step[-1], columns.wall[-1])
        assert columns.value[-1] in [value.simple_value for value in event.values if value.tag == columns.tag]
    for tag, position, index in zip(
        batch.records.tag, batch.records.position, batch.records.index, strict=True
    ):
        event = file.event_at(int(position))
        assert event.values[index].tag == tag if event.values else tag.startswith(("__", "step_"))
