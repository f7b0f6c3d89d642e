"""Stacks of other threads, beside the interpreter's own account and while these threads run on."""

import dis
import gc
import subprocess
import sys
import threading
import time
import traceback

import pytest
from support.waiting import until

from stepscope.kernels import frames as compiled


@pytest.fixture
def waiting():
    """A thread that stands in ``inner``, called by ``outer``, forty times over."""
    gate = threading.Lock()
    gate.acquire()

    def inner(depth):
        if depth:
            return inner(depth - 1)
        return gate.acquire(True, 60)

    def outer():
        around.append(sys._getframe())
        inner(40)

    def stands():
        frame = sys._current_frames()[thread.ident]
        return frame.f_code is inner.__code__ and frame.f_lasti == last

    # Until it is in its last call, its place changes between two looks.
    last = [one.offset for one in dis.get_instructions(inner) if one.opname.startswith("CALL")][-1]
    around: list = []
    thread = threading.Thread(target=outer)
    thread.start()
    until(stands, "the thread waits")
    yield thread.ident, around[0]
    gate.release()
    thread.join()


def texts(calls):
    return [
        (code.co_filename, compiled.line_of(code, instruction), code.co_name) for code, instruction in calls
    ]


def told(thread):
    """Return what the standard library says of a thread that waits, innermost call first."""
    summary = traceback.extract_stack(sys._current_frames()[thread])
    return [(each.filename, each.lineno, each.name) for each in reversed(summary)]


def test_a_stack_is_what_the_standard_library_tells(kernel, waiting):
    thread, _ = waiting
    assert texts(kernel.stack(thread)) == texts(kernel.stacks()[1][thread]) == told(thread)
    assert {thread, threading.get_ident()} <= kernel.stacks()[1].keys()
    assert kernel.stacks(without={thread})[1].keys() == kernel.stacks()[1].keys() - {thread}


def test_only_what_a_call_has_called(kernel, waiting):
    thread, around = waiting
    names = [code.co_name for code, _ in kernel.stack(thread, around)]
    assert names[-41:] == ["inner"] * 41
    assert "outer" not in names
    assert kernel.stack(thread, sys._getframe()) == [], "a call that the thread is not in"
    assert kernel.stack(threading.get_ident(), around) == []


def test_deep_stacks_are_cut_on_the_outside(kernel, waiting):
    thread, around = waiting
    whole = kernel.stack(thread)
    assert kernel.stack(thread, most=7) == kernel.stacks(most=7)[1][thread] == whole[:7]
    assert kernel.stack(thread, around, 7) == whole[:7]


def test_a_thread_that_has_ended_has_no_stack(kernel):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert kernel.stack(thread.ident) == []


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(kernel, enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        kernel.stacks()
        kernel.stack(threading.get_ident())
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_the_time_is_that_of_the_look(kernel):
    """The clock is read while nothing else may run: the collector, too, rests."""
    assert kernel.stacks(lambda: -1 if gc.isenabled() else 7)[0] == 7
    assert time.perf_counter_ns() <= kernel.stacks()[0] <= time.perf_counter_ns()


def test_a_line_of_code_without_lines_is_its_functions_first():
    code = texts.__code__
    assert compiled.line_of(code, 10_000) == code.co_firstlineno
    found = {compiled.line_of(code, begin) for begin, _, _ in code.co_lines()}
    assert min(found) == code.co_firstlineno
    assert 1 < len(found) < 5


STRESS = '''
import gc, sys, threading
from stepscope.kernels import frames

class Cyclic:
    """Its finalizer runs Python, in which another thread may go on."""
    def __init__(self):
        self.me = self
    def __del__(self):
        sum(len(str(each)) for each in range(20))

def leaf(number):
    Cyclic()
    return [number] * 3

def some():
    for each in range(5):
        yield leaf(each)

def deep(depth):
    if not depth:
        return sum(len(each) for each in some())
    return deep(depth - 1) + (sum(map(deep, (0,))) if depth % 7 == 0 else 0)

def work():
    while not over.is_set():
        deep(40)
        rounds.append(None)

sys.setswitchinterval(1e-5)
gc.set_threshold(50, 2, 2)
over, rounds, seen = threading.Event(), [], set()
worker = threading.Thread(target=work)
worker.start()
while len(rounds) < 300 or len(seen) < 50:
    for _ in range(200):
        calls = frames.stacks()[1][worker.ident]
        seen.add(tuple((id(code), instruction) for code, instruction in calls))
        assert len(calls) < 60, calls
over.set()
worker.join()
print("whole")
'''


@pytest.mark.slow
def test_the_thread_may_run_on_meanwhile():
    """Where the collector was at work, CPython 3.11 returned other objects as frames, or crashed, at once."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", STRESS], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("whole\n", 0), done.stderr[-3_000:]
