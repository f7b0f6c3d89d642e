"""The thread that makes summaries: in order, bounded, and in nobody's way."""

import threading
import time

import numpy as np
import pytest
from support.waiting import until

import stepscope as ss
from stepscope.events import EventFile
from stepscope.events.kinds import text
from stepscope.record.problems import Problems, RefusalError
from stepscope.record.summaries.encoder import SummaryEncoder, SummaryTask

pytestmark = pytest.mark.usefixtures("strict")


def task(make, nbytes=1, name="x"):
    return SummaryTask(make, 0, 1.0, nbytes, name)


@pytest.fixture
def background():
    made = SummaryEncoder(Problems(), 100, lambda: None)
    yield made
    made.end()
    made.join(10)


def wait_for(background):
    until(lambda: not background.pending)


def test_what_is_put_is_made_in_order_and_counted_until_it_is_written(background):
    for number in range(5):
        assert background.put(task(lambda number=number: [text.value("t", str(number))], nbytes=10))
    wait_for(background)
    found = [event.values[0].tensor.string_val[0] for event, _ in background.ready]
    assert found == [b"0", b"1", b"2", b"3", b"4"]
    assert background.held_bytes == 50
    while background.ready:
        background.written(background.ready.popleft()[1])
    assert background.held_bytes == 0


def test_beyond_its_memory_nothing_is_taken_but_one_alone_always(background):
    go = threading.Event()
    assert background.put(task(lambda: go.wait(10) and None, nbytes=500))
    assert not background.put(task(lambda: None, nbytes=1))
    go.set()
    wait_for(background)
    assert background.held_bytes == 0
    assert background.put(task(lambda: None, nbytes=1))


def test_what_fails_is_told_and_the_rest_goes_on(background, monkeypatch):
    def refuse():
        raise RefusalError("value", "an image of NaN", "look")

    background.put(task(refuse))
    background.put(task(lambda: 1 / 0))
    background.put(task(lambda: [text.value("t", "fine")]))
    wait_for(background)
    assert len(background.ready) == 1
    assert background._problems.counts == {"value": 1, "summary": 1}


def test_a_slow_image_does_not_delay_scalars(tmp_path):
    """One that takes for ever to encode: scalars reach the file within flush_secs all the same."""
    go = threading.Event()
    with ss.Run(tmp_path, flush_secs=0.2) as run:
        run.event(lambda: go.wait(30) and None, 0, tag="slow")
        begun = time.monotonic()
        run.scalar("loss", 1.0, 0)
        [path] = tmp_path.glob("*tfevents*")
        tags, deadline = set(), begun + 10
        file = EventFile(path)
        while "loss" not in tags and time.monotonic() < deadline:
            tags |= {column.tag for column in file.read().scalars}
            time.sleep(0.01)
        took = time.monotonic() - begun
        go.set()
    assert "loss" in tags
    assert took < 5  # 0.2 s where the machine has nothing else to do


def test_flush_waits_for_summaries_and_gives_up_in_time(tmp_path):
    go = threading.Event()
    with ss.Run(tmp_path) as run:
        run.event(lambda: go.wait(30) and [text.value("t", "x")], 0)
        assert run.flush(timeout=0.05) is False
        go.set()
        assert run.flush() is True
        [path] = tmp_path.glob("*tfevents*")
        assert "t" in EventFile(path).read().records.tag


def test_memory_is_bounded_and_what_is_dropped_is_counted(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT")
    go = threading.Event()
    with ss.Run(tmp_path, max_summary_bytes=1 << 20) as run:
        run.event(lambda: go.wait(30) and None, 0)
        with pytest.warns(RuntimeWarning, match="written, and max_summary_bytes are waiting"):  # noqa: PT031
            for step in range(20):
                run.histogram("h", np.zeros(1 << 14), step)  # 128 KiB
        assert run._summaries.held_bytes <= 1 << 20
        go.set()
        run.flush()
        dropped = run.problems["overflow"]
    assert 11 <= dropped <= 13
    with ss.open(tmp_path, cache=False) as log:
        assert len(log.run(".").record("h")[0]) == 20 - dropped


def test_a_step_on_a_device_is_read_in_the_background(tmp_path):
    import jax.numpy as jnp

    with ss.Run(tmp_path) as run:
        run.text("t", "x", jnp.asarray(41) + 1)
    with ss.open(tmp_path, cache=False) as log:
        assert log.run(".").record("t")[0].step.tolist() == [42]


def test_time_and_step_are_those_of_the_call(tmp_path):
    with ss.Run(tmp_path) as run:
        before = time.time()
        run.text("t", "x", 3)
        after = time.time()
        run.event(lambda: [text.value("t", "y")], 4, wall=77.0)
    with ss.open(tmp_path, cache=False) as log:
        [series] = log.run(".").record("t")
        assert series.step.tolist() == [3, 4]
        assert before <= series.wall[0] <= after
        assert series.wall[1] == 77.0
