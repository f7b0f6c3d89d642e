"""The recorder's turns, played by hand on a clock that stands still."""

import errno
import shutil
from fractions import Fraction

import pytest
from support.records import infos_of

import stepscope as ss
from stepscope.events import EventWriter
from stepscope.record import writer_loop as module
from stepscope.record.intake import POINT_BYTES

FULL = OSError(errno.ENOSPC, "No space left on device")


class Later:
    """A value on a device, there once ``there`` is set; ``error`` is what reading it raises."""

    def __init__(self, number: float) -> None:
        self.number, self.there, self.error = number, False, None

    def ready(self) -> bool:
        return self.there

    def read(self) -> float:
        if self.error:
            raise self.error
        return self.number


@pytest.fixture
def later(monkeypatch):
    """A function that logs a value on a device and returns it."""
    from stepscope.record import values

    monkeypatch.setattr(values, "_readers", {})
    monkeypatch.setitem(values.READERS, Later.__module__.partition(".")[0], lambda kind: lambda value: value)
    return Later


def said(run) -> list[dict]:
    return infos_of(run.writers[-1].events)


# --- flush rules --------------------------------------------------------------------------------------


def test_the_file_and_what_the_run_says_are_there_at_once(fake):
    run = fake(config={"lr": 0.1})
    [writer] = run.writers
    assert [value.tag for event in writer.events for value in event.values] == [
        "stepscope/run",
        "_hparams_/session_start_info",
    ]
    assert said(run)[0]["status"] == "running"


def test_a_point_is_written_within_flush_secs_though_nothing_follows(fake, time):
    run = fake(flush_secs=1.0)
    run.scalar("loss", 0.5, 3)
    waited = 0.0
    while not run.writers[0].series("loss"):
        time.pass_(0.25)  # the thread wakes by itself this often
        waited += 0.25
        run.turn()
    assert waited <= 1.0
    assert run.writers[0].series("loss") == [(3, 0.5)]


@pytest.mark.parametrize(("flush_secs", "turn"), [(1.0, 0.25), (0.2, 0.1), (60.0, 0.25)])
def test_the_thread_wakes_often_enough(fake, monkeypatch, flush_secs, turn):
    from queue import Empty

    waits = []

    class Requests:
        def get(self, timeout):
            waits.append(timeout)
            raise Empty

    run = fake(flush_secs=flush_secs)
    run._writer.requests = Requests()
    assert run._writer.next_requests() == []
    assert waits == [turn]


def test_writing_out_is_as_rare_as_asked(fake, time):
    run = fake(flush_secs=10.0)
    flushes = run.writers[0].flushes
    for step in range(16):
        run.scalar("loss", 0.5, step)
        time.pass_(0.25)
        run.turn()
    assert run.writers[0].flushes == flushes
    time.pass_(1.0)
    run.turn()
    assert len(run.writers[0].series("loss")) == 16


def test_an_idle_run_writes_nothing_but_its_heartbeat(fake, time):
    run = fake()
    run.turn()
    flushes = run.writers[0].flushes
    for _ in range(16):
        time.pass_(0.25)
        run.turn()
    assert run.writers[0].flushes == flushes
    for _ in range(8):
        time.pass_(0.25)
        run.turn()
    assert len(run.writers[0].series("stepscope/overhead_ratio")) == 1


def test_flushing_every_n_steps_asks_for_it(fake):
    run = fake(flush_every_n_steps=3, flush_secs=60.0)
    for step in run.steps(range(7)):
        run.scalar("loss", float(step))
    requests = run._writer.next_requests()
    assert len(requests) == 2
    run._writer.writer.drain(requests)
    assert len(run.writers[0].series("loss")) == 7


def test_flush_really_drains_and_syncs_when_asked(fake):
    run = fake(flush_secs=60.0)
    run.scalar("loss", 0.5, 0)
    assert run.drain()
    assert run.writers[0].series("loss") == [(0, 0.5)]
    assert run.writers[0].syncs == 0
    assert run.drain(sync=True)
    assert run.writers[0].syncs == 1


# --- order --------------------------------------------------------------------------------------------


def test_a_tag_keeps_its_order_and_others_do_not_wait(fake, later):
    run = fake()
    slow, fast = later(1.0), later(2.0)
    run.scalar("a", 0.0, 0)
    run.scalar("a", slow, 1)
    run.scalar("a", fast, 2)
    run.scalar("a", 3.0, 3)
    run.scalar("b", 0.5, 3)
    fast.there = True
    assert not run.drain(timeout=0.0)
    assert run.writers[0].series("a") == [(0, 0.0)]
    assert run.writers[0].series("b") == [(3, 0.5)]
    slow.there = True
    assert run.drain()
    assert run.writers[0].series("a") == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)]


def test_the_time_of_a_point_is_when_it_was_logged(fake, later, time):
    run = fake()
    value = later(1.0)
    run.scalar("a", value, 1)
    logged = time.clock.wall()
    time.pass_(7.0)
    value.there = True
    run.drain()
    [event] = [event for event in run.writers[0].events if event.values and event.values[0].tag == "a"]
    assert event.wall_time == logged


def test_numbers_of_one_call_are_one_event(fake):
    run = fake()
    run.scalars({"a": 1.0, "b": 2, "c": 3.0}, step=4)
    run.drain()
    [event] = [event for event in run.writers[0].events if event.values and event.values[0].tag == "a"]
    assert [(value.tag, value.simple_value) for value in event.values] == [("a", 1.0), ("b", 2.0), ("c", 3.0)]


def test_a_flush_waits_for_devices_until_its_deadline(fake, later, time):
    run = fake()
    value = later(1.0)
    run.scalar("a", value, 0)
    assert not run.drain(timeout=0.01)
    assert 9 <= len(time.pauses) <= 11
    time.pause = lambda seconds: setattr(value, "there", True)
    run._writer.writer.clock = run._writer.clock = time.clock
    assert run.drain(timeout=10.0)
    assert run.writers[0].series("a") == [(0, 1.0)]


# --- what cannot be recorded --------------------------------------------------------------------------


@pytest.mark.usefixtures("lenient")
def test_a_device_value_that_is_lost_is_counted_with_its_reason(fake, later):
    run = fake()
    value = later(1.0)
    value.there, value.error = True, RuntimeError("device-side assert")
    run.scalar("a", value, 4)
    run.scalar("a", 2.0, 5)
    assert run.drain()
    assert run.writers[0].series("a") == [(5, 2.0)]
    assert run.problems == {"device": 1}
    with pytest.warns(RuntimeWarning, match="'a' at step 4: RuntimeError: device-side assert") as caught:
        run.scalar("a", 3.0, 6)
    assert caught[0].filename == __file__


@pytest.mark.usefixtures("lenient")
def test_what_a_device_never_finishes_is_counted_at_the_end(fake, later):
    run = fake()
    for step in range(3):
        run.scalar("a", later(1.0), step)
    run._writer.close_books("finished", None)
    assert not run.drain(timeout=0.0, last=True)
    assert run.problems == {"device": 3}
    assert said(run)[-1]["problems"] == {"device": 3}
    assert run.writers[0].series("stepscope/dropped_points")[-1][1] == 3


def test_a_step_from_a_device_is_read_later(fake, later, monkeypatch):
    run = fake()
    step = later(41.0)
    run.scalar("a", 0.5, step)
    assert not run.drain(timeout=0.0)
    step.there = True
    run.drain()
    assert run.writers[0].series("a") == [(41, 0.5)]


@pytest.mark.usefixtures("lenient")
def test_beyond_the_bound_points_are_dropped_and_counted(fake):
    run = fake(max_queue_bytes=100 * POINT_BYTES)
    with pytest.warns(RuntimeWarning, match="more is logged than can be written") as caught:
        [run.scalar("a", 0.5, step) for step in range(250)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert run.problems == {"overflow": 150}
    run.drain()
    assert [step for step, _ in run.writers[0].series("a")] == list(range(100))
    run.scalar("a", 0.5, 250)
    run.drain()
    assert run.writers[0].series("a")[-1] == (250, 0.5)


def test_half_full_wakes_the_thread(fake):
    run = fake(max_queue_bytes=100 * POINT_BYTES)
    for step in range(49):
        run.scalar("a", 0.5, step)
    assert run._writer.requests.empty()
    for step in range(10):
        run.scalar("a", 0.5, step)
    assert run._writer.requests.qsize() == 1


@pytest.mark.usefixtures("lenient")
def test_values_that_devices_hold_count_against_the_bound(fake, later):
    run = fake(max_queue_bytes=100 * POINT_BYTES)
    values = [later(float(i)) for i in range(20)]
    with pytest.warns(RuntimeWarning, match="max_queue_bytes"):
        [(run.scalar("a", value, step), run.turn()) for step, value in enumerate(values)]
    assert run.problems["overflow"] == 20 - 10
    for value in values:
        value.there = True
    run.drain()
    assert len(run.writers[0].series("a")) == 10


def test_numbers_beyond_float32_are_left_to_the_writer(fake):
    run = fake()
    for step, value in enumerate([1.0, 1e300, 2.0, -1e39]):
        run.scalar("a", value, step)
    written = []
    run.writers[0].scalar = lambda *point: written.append(point[:3])
    run.drain()
    assert written == [("a", 1e300, 1), ("a", -1e39, 3)]
    assert [step for step, _ in run.writers[0].series("a")] == [0, 2]


# --- a disk that fails --------------------------------------------------------------------------------


@pytest.mark.usefixtures("lenient")
def test_a_full_disk_loses_nothing_that_fits_into_memory(fake, time):
    run = fake()
    run.turn()
    run.writers[0].error = FULL
    with pytest.warns(RuntimeWarning, match="No space left on device") as caught:
        [(run.scalar("a", float(step), step), time.pass_(0.25), run.turn()) for step in range(101)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert run.writers[0].series("a") == []
    assert run.problems == {}
    run.writers[0].error = None
    time.pass_(60.0)
    run.turn()
    run.turn()
    assert run.writers[0].series("a") == [(step, float(step)) for step in range(101)]


@pytest.mark.usefixtures("lenient")
def test_a_full_disk_that_comes_back_warns_again_the_next_time(fake, time):
    run = fake()
    for _ in range(2):
        run.writers[0].error = FULL
        run.scalar("a", 1.0, 0)
        assert not run.drain()
        with pytest.warns(RuntimeWarning, match="No space left"):
            run.scalar("a", 1.0, 0)
        run.writers[0].error = None
        assert run.drain()


@pytest.mark.usefixtures("lenient")
def test_a_disk_full_for_long_bounds_the_memory(fake, time):
    run = fake(max_queue_bytes=1_000 * POINT_BYTES)
    run.writers[0].error = FULL
    with pytest.warns(RuntimeWarning):
        [(run.scalar("a", float(step), step), time.pass_(0.01), run.turn()) for step in range(5_000)]
    assert run._log.unwritten <= 1_000
    run.writers[0].error = None
    run.drain()
    written = run.writers[0].series("a")
    assert len(written) + run.problems["overflow"] == 5_000
    assert written == sorted(written)


@pytest.mark.usefixtures("lenient")
def test_device_values_survive_a_full_disk_too(fake, later, time):
    run = fake()
    values = [later(float(i)) for i in range(3)]
    run.drain()
    run.writers[0].error = FULL
    run.writers[0].buffer = [b"x" * 3_000]  # no room in memory either
    for step, value in enumerate(values):
        value.there = True
        run.scalar("a", value, step)
    run.turn()
    with pytest.warns(RuntimeWarning, match="No space left"):
        run.scalar("a", 3.0, 3)
    run.writers[0].error, run.writers[0].buffer = None, []
    time.pass_(60.0)
    run.turn()
    assert run.drain()
    assert run.writers[0].series("a") == [(step, float(step)) for step in range(4)]


@pytest.mark.usefixtures("lenient")
def test_a_deleted_directory_is_made_again_and_told(fake, tmp_path):
    run = fake(config={"lr": 0.1})
    run.scalar("a", 0.0, 0)
    assert run.drain()
    shutil.rmtree(tmp_path / "run")
    run.scalar("a", 1.0, 1)
    assert not run.drain()
    assert run.problems == {"file_deleted": 1}
    with pytest.warns(RuntimeWarning, match="deleted or replaced"):
        run.scalar("a", 2.0, 2)
    assert run.drain()
    assert run.writers[1].series("a") == [(2, 2.0)]
    assert said(run)[0]["config"] == {"lr": 0.1}


@pytest.mark.usefixtures("lenient")
def test_a_defect_in_a_turn_does_not_end_the_thread(fake, monkeypatch):
    run = fake()
    recorder = run._writer
    turns = []

    def turn(now):
        turns.append(now)
        raise KeyError("defect")

    monkeypatch.setattr(recorder.writer, "turn", turn)
    answers = [[], [], [module.FlushRequest(0.0, last=True)]]
    monkeypatch.setattr(recorder, "next_requests", lambda: answers.pop(0))
    recorder._loop()
    assert len(turns) == 2
    with pytest.warns(RuntimeWarning, match="KeyError: 'defect'"):
        run._problems.deliver()


# --- what it costs ------------------------------------------------------------------------------------


def test_own_cost_is_recorded_every_five_seconds(fake, time):
    run = fake()
    for _ in run.steps(range(100)):
        run.scalar("a", 0.5)
        time.pass_(0.125)
        run.turn()
    run.drain()
    writer = run.writers[0]
    assert len(writer.series("stepscope/overhead_us_per_step")) == 2
    assert len(writer.series("stepscope/writer_cpu_ratio")) == 2
    assert [value for _, value in writer.series("stepscope/dropped_points")] == [0.0, 0.0]
    [event] = [e for e in writer.events if e.values and e.values[0].tag.startswith("stepscope/over")][:1]
    assert {value.tag for value in event.values} == {
        "stepscope/overhead_us_per_step", "stepscope/overhead_ratio", "stepscope/writer_cpu_ratio",
        "stepscope/queued_bytes", "stepscope/dropped_points",
    }  # fmt: skip
    assert event.step == 39


def test_steps_are_counted_also_where_the_user_numbers_them(fake):
    run = fake()
    for step in range(10):
        run.scalar("a", 0.5, step)
        run.scalar("b", 0.5, step)
        if step == 4:
            run.drain()
    run.drain()
    assert run.cost.steps == 10
    assert run._intake.step_now() == 9


def test_calls_are_sampled_and_each_stands_for_all(fake, time):
    def half(value):
        time.pass_(0.0005)
        return 0.5

    run = fake()
    run.scalar("a", 0.5, 0)
    run._intake.points.readers[Fraction] = half
    before = run.cost.spent
    for step in range(6_100):
        run.scalar("a", Fraction(1, 2), step)
    assert run.cost.spent - before == pytest.approx(6_100 * 0.0005, rel=0.02)
    run.drain()
    assert len(run.writers[0].series("a")) == 6_101


def test_what_changes_is_said_again_and_only_that(fake, time):
    run = fake()
    run.turn()
    assert len(said(run)) == 1
    list(run.steps(range(3)))
    time.pass_(0.5)
    run.turn()
    assert [info["total_steps"] for info in said(run)] == [None, 3]
    for _ in range(8):
        time.pass_(5.0)
        run.turn()
    assert len(said(run)) == 2


def test_the_last_words(fake, time):
    run = fake()
    run.scalar("a", 0.5, 0)
    time.pass_(2.0)
    run._writer.close_books("failed", "ValueError: x")
    assert run.drain(last=True)
    [writer] = run.writers
    assert writer.closed
    info = said(run)[-1]
    assert (info["status"], info["reason"], info["ended"]) == ("failed", "ValueError: x", time.clock.wall())
    assert writer.events[-1].values[0].tag == "stepscope/run"
    assert writer.series("stepscope/overhead_ratio")


def test_a_flush_is_of_what_was_logged_before_it(tmp_path, monkeypatch):
    """Another thread may log all the while."""
    write = EventWriter.flush
    with ss.Run(tmp_path, flush_secs=3600.0) as run:

        def flush(self, sync=False):
            run.scalar("later", 1.0, 0)
            write(self, sync)

        monkeypatch.setattr(EventWriter, "flush", flush)
        run.scalar("loss", 1.0, 0)
        assert run.flush() is True
        monkeypatch.setattr(EventWriter, "flush", write)
