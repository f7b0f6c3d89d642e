import threading

from stepscope.capture.writing import Worker


def test_jobs_are_done_in_order_on_another_thread():
    worker, done = Worker(), []
    for number in range(5):
        worker.put(
            lambda number=number: done.append((number, threading.current_thread() is threading.main_thread()))
        )
    assert worker.wait(10)
    assert done == [(number, False) for number in range(5)]


def test_waiting_is_bounded():
    worker, gate = Worker(), threading.Event()
    worker.put(gate.wait)
    assert not worker.wait(0.01)
    gate.set()
    assert worker.wait(10)


def test_without_jobs_there_is_nothing_to_wait_for():
    assert Worker().wait(0)
