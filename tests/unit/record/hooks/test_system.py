"""SystemHook: its thread, and what becomes of readings that fail."""

import gc
import threading
import weakref

import pytest

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.record import exits
from stepscope.record.hooks import system
from stepscope.record.hooks.system import Sampler, watch


class Source:
    def __init__(self, *answers):
        self.answers = list(answers)

    def read(self, now):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def sources(monkeypatch):
    """A function by which a test says what the machine has."""

    def give(*found, names=None):
        monkeypatch.setattr(system, "sources", lambda directory, all_gpus: (list(found), names or {}))

    return give


def told(run):
    return [str(error) for _, error, *_ in run._problems._waiting]


def test_readings_are_recorded_at_the_current_step(fake, time, sources):
    sources(Source({"system/a": 1.0}, {"system/a": 2.0, "system/b": 3.0}))
    run = fake()
    waits = iter([False, True])
    run.step()

    def wait(seconds):
        assert seconds == 5.0
        time.pass_(seconds)
        run.step()
        return next(waits)

    watch(weakref.ref(run), run.log_dir, 5.0, wait, False)
    run.drain()
    assert run.writers[0].series("system/a") == [(0, 1.0), (1, 2.0), (2, 2.0)]
    assert run.writers[0].series("system/b") == [(1, 3.0), (2, 3.0)]


def test_right_after_a_reading_there_is_no_last_one(fake, time, sources):
    sources(Source({"system/a": 1.0}))
    run = fake()
    watch(weakref.ref(run), run.log_dir, 5.0, lambda seconds: True, False)
    run.drain()
    assert run.writers[0].series("system/a") == [(0, 1.0)]


def test_the_names_of_gpus_are_a_text(fake, sources):
    sources(names={"gpu0": "NVIDIA H200"})
    run = fake()
    watch(weakref.ref(run), run.log_dir, 5.0, lambda seconds: True, False)
    run.drain()
    [value] = [
        value for event in run.writers[0].events for value in event.values if value.tag == "system/gpus"
    ]
    assert value.tensor.string_val == [b"| GPU | name |\n|---|---|\n| gpu0 | NVIDIA H200 |"]


def test_a_source_that_fails_is_given_up_after_three_times_and_told_of_once(fake):
    bad, good = Source(ValueError("odd")), Source({"system/a": 1.0})
    run, sampler = fake(), Sampler([bad, good])
    for _ in range(5):
        sampler.sample(run)
    assert [source for source, _ in sampler._sources] == [good]
    [message] = told(run)
    assert "reading Source raised ValueError: odd" in message
    run._problems._waiting.clear()
    run.drain()
    assert len(run.writers[0].series("system/a")) == 5


def test_a_source_that_recovers_is_kept(fake):
    source = Source(ValueError(), ValueError(), {}, ValueError(), ValueError(), {})
    run, sampler = fake(), Sampler([source])
    for _ in range(8):
        sampler.sample(run)
    assert len(sampler._sources) == 1
    assert told(run) == []


def test_where_memory_is_full_readings_are_dropped_and_counted(fake):
    run = fake(max_queue_bytes=0)
    Sampler([Source({f"system/{number}": 1.0 for number in range(50)})]).sample(run)
    assert run.problems["overflow"] > 0
    run._problems._waiting.clear()


def test_this_machine_is_recorded_from_another_thread(real, read):
    seen = []

    class Which(ss.Hook):
        def after_step(self, step):
            seen.extend(thread.name for thread in threading.enumerate())

    with real(hooks=[ss.SystemHook(0.05), Which()]) as run:
        list(run.steps(range(3)))
        stop = threading.Event()
        run.listen(lambda *given: stop.set(), {"system/process/cpu_cores"})
        assert stop.wait(20)
    assert "stepscope-system" in seen
    found = read(run)
    assert found["system/process/memory_bytes"][0][1] > 1e6
    assert 0 <= found["system/process/cpu_ratio"][0][1] <= 1.5
    assert run.problems == {}


def test_a_driver_that_hangs_is_not_waited_for(real, sources, monkeypatch):
    monkeypatch.setattr("stepscope.record.hooks.system._JOIN_SECS", 0.05)
    gate, entered = threading.Event(), threading.Event()

    class Hanging:
        def read(self, now):
            entered.set()
            gate.wait(20)
            return {"system/a": 1.0}

    sources(Hanging())
    hook = ss.SystemHook()
    run = real(hooks=[hook])
    assert entered.wait(20)
    thread = hook._thread
    run.close()
    assert run.state == "finished"
    gate.set()
    thread.join(20)


@pytest.mark.slow
def test_a_run_that_nobody_holds_is_not_kept_alive_by_it(real, tmp_path):
    run = ss.Run(tmp_path / "dropped", hooks=[hook := ss.SystemHook(0.02)])
    thread, recorder = hook._thread, run._writer
    del run, hook
    gc.collect()
    recorder._thread.join(20)
    thread.join(20)
    assert not thread.is_alive()
    exits.release(recorder)


def test_other_ranks_leave_it(tmp_path):
    with ss.Run(tmp_path, rank=1, world_size=2, hooks=[ss.SystemHook()]):
        assert "stepscope-system" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("arguments", [{"every_secs": 0}, {"every_secs": "5"}, {"gpus": "none"}])
def test_arguments_that_cannot_be_right(arguments):
    with pytest.raises(UsageError):
        ss.SystemHook(**arguments)
