"""The thread that does things in order."""

import threading

from stepscope.record.worker import Worker


def test_things_are_done_in_order_on_another_thread():
    done = []
    worker = Worker("a", lambda number: done.append((number, threading.current_thread().name)))
    for number in range(5):
        worker.put(number)
    assert worker.wait(10)
    assert done == [(number, "a") for number in range(5)]


def test_waiting_is_bounded():
    worker, gate = Worker("a", lambda gate: gate.wait()), threading.Event()
    worker.put(gate)
    assert not worker.wait(0.01)
    gate.set()
    assert worker.wait(10)


def test_without_things_there_is_nothing_to_wait_for():
    assert Worker("a", print).wait(0)


def test_what_is_put_after_the_end_is_done_too():
    done, gate = [], threading.Event()
    worker = Worker("ends", lambda number: gate.wait() and done.append(number))
    worker.put(1)
    worker.end()
    worker.put(2)
    gate.set()
    assert worker.wait(10)
    worker.end()
    worker.join(10)
    assert done == [1, 2]
    assert "ends" not in [thread.name for thread in threading.enumerate()]


def test_a_thing_that_raises_ends_only_the_thread(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    done = []
    worker = Worker("a", lambda number: done.append(1 // number))
    worker.put(0)
    assert worker.wait(10)
    worker.join(10)
    worker.put(1)
    assert worker.wait(10)
    assert done == [1]


def test_the_thread_ends_when_nothing_comes(monkeypatch):
    monkeypatch.setattr("stepscope.record.worker.IDLE_SECS", 0.01)
    rested = threading.Event()
    worker = Worker("a", print, rested.set)
    worker.put("")
    assert rested.wait(10)
    worker.join(10)
    assert worker.pending == 0
