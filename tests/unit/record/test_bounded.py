import threading

from stepscope.record.bounded import Call


def test_a_call_that_hangs_holds_up_no_exit():
    go = threading.Event()
    call = Call(lambda: go.wait(60) and threading.current_thread().daemon, "stepscope-test")
    assert not call.wait(0.0)
    go.set()
    assert call.wait(60)
    assert call.result
