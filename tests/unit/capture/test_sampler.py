"""What the sampler of the training thread keeps, and what it writes."""

import contextlib
import gzip
import io
import json
import logging
import pickle
import sys
import threading
import time
import zlib
from itertools import count

import pytest

from stepscope.capture import sampler
from stepscope.capture.sampler import (
    OTHERS_WORK,
    SWITCH_SECS,
    CompileLog,
    OtherThreads,
    StackSampler,
    ThreadTime,
    called_text,
)
from stepscope.kernels.frames import outward


def noting(sampler: StackSampler, times: int) -> None:
    for _ in range(times):
        sampler._note(sampler._clock(), outward(sys._getframe()))


def ready(clock=None) -> StackSampler:
    sampler = StackSampler(clock=clock or count(0, 1_000_000).__next__)
    sampler._note(sampler._clock(), [])
    return sampler


def test_a_stack_has_the_lines_that_run_outermost_first() -> None:
    sampler = ready()
    here = sys._getframe().f_lineno + 1
    noting(sampler, 2)
    told = sampler.document()
    frames = [told["frames"][frame] for frame in told["stacks"][told["samples"][-1]]]
    calls = ["<call of outward>"] if sys.version_info >= (3, 11) else []
    assert frames[-2 - len(calls) :] == [
        f"{__file__}({here}): {sys._getframe().f_code.co_name}",
        f"{__file__}({noting.__code__.co_firstlineno + 2}): noting",
        *calls,  # what is written in C; the call of noting has a frame
    ]
    assert told["samples"] == [0, 1, 1]
    assert told["times_ns"] == [0, 1_000_000, 2_000_000]
    assert told["runnable_ns"] == told["queued_ns"] == [-1, -1, -1]


def test_samples_of_long_steps_lie_further_apart() -> None:
    between = [StackSampler(seconds)._interval_s for seconds in (None, 0.03, 0.6, 60.0)]
    assert between == [0.001, 0.001, 0.004, 0.01]


def test_what_is_too_much_is_thinned_and_the_last_sample_stays(monkeypatch) -> None:
    sampler = ready()
    noting(sampler, 9)
    sampler._thin()
    assert sampler._times == [1_000_000, 3_000_000, 5_000_000, 7_000_000, 9_000_000]
    assert len(sampler._numbers) == len(sampler._runnable) == 5
    assert sampler.document()["interval_ns"] == 2_000_000


def test_threads_that_python_did_not_start_are_sampled_alone() -> None:
    sampler = ready()
    me, mine = threading.get_ident(), outward(sys._getframe())
    sampler._note_called({me: mine, -7: mine})
    sampler._note_called({me: mine})
    (called,) = sampler.document()["called"]
    stacks = sampler.document()["stacks"]
    assert len(called["times_ns"]) == len(called["samples"]) == 1
    assert stacks[called["samples"][0]], "with its frames"


def _inner(told, name) -> bool:
    """Say whether a test was the innermost frame of a sample after the first."""
    return any(each.endswith(f": test_{name}") for each in _innermost(told))


def _innermost(told) -> list[str]:
    """Return the innermost line of each sample after the first, without what that line calls."""
    lines = [[told["frames"][f] for f in told["stacks"][at]] for at in told["samples"][1:]]
    return [[each for each in stack if not each.startswith("<")][-1] for stack in lines if stack]


def test_a_thread_is_sampled_until_it_is_stopped(tmp_path) -> None:
    sampler = StackSampler()
    sampler.start()
    sampler.begin_step(7)
    deadline = time.monotonic() + 60
    try:
        while len(sampler._times) < 50 and time.monotonic() < deadline:
            for _ in range(1_000_000):  # so that most of the time passes here
                pass
    finally:  # one that ran on would sample all tests that follow
        sampler.stop()
    sampler.stop()  # a second time changes nothing
    sampler.save(tmp_path / "profile.stacks")
    assert not any(each.name == "stepscope-sampler" for each in threading.enumerate())
    with gzip.open(tmp_path / "profile.stacks") as file:
        told = json.load(file)
    assert [number for number, *_ in told["steps"]] == [7]
    assert (
        len(told["times_ns"]) == len(told["samples"]) == len(told["runnable_ns"]) >= 5
    )  # fewer than 50 on a machine that starves
    around = [told["frames"][frame] for frame in told["stacks"][told["steps"][0][2]]]
    assert any(each.endswith(": test_a_thread_is_sampled_until_it_is_stopped") for each in around)
    assert _inner(told, "a_thread_is_sampled_until_it_is_stopped")
    assert [each.name for each in tmp_path.iterdir()] == ["profile.stacks"]


def test_the_last_wait_for_a_processor_is_counted(tmp_path) -> None:
    """The kernel counts a wait when it is over, which may be after the last look at the thread."""

    class Account:
        queued_ns = 0

        def runnable_ns(self) -> int:
            return self.queued_ns

        def close(self) -> None:
            pass

    sampler = StackSampler()
    sampler._interval_s = 60
    sampler.start()
    account = sampler._spent = Account()  # type: ignore[assignment]
    account.queued_ns = 8_000_000
    sampler.stop()
    sampler.save(tmp_path / "profile.stacks")
    with gzip.open(tmp_path / "profile.stacks") as file:
        assert json.load(file)["queued_ns"][-1] == 8_000_000


def test_a_thread_that_has_ended_is_sampled_no_more() -> None:
    sampler = StackSampler()
    started = threading.Thread(target=sampler.start)
    started.start()
    started.join()
    assert sampler._thread is not None
    sampler._thread.join(30)
    assert not sampler._thread.is_alive()


def test_a_thread_that_sleeps_is_told_from_one_that_works() -> None:
    spent = ThreadTime()
    begun = spent.runnable_ns()
    if begun < 0:
        pytest.skip("this system does not count what a thread waits for a processor")
    time.sleep(0.05)
    slept = spent.runnable_ns()
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    assert spent.runnable_ns() - slept >= 50_000_000
    assert slept - begun < 25_000_000
    assert spent.queued_ns >= 0
    spent.close()
    assert spent.runnable_ns() == spent.queued_ns == -1


@pytest.fixture
def switching():
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_python_code_lets_the_sampler_in_while_it_samples(switching) -> None:
    sys.setswitchinterval(0.005)
    sampler = StackSampler()
    sampler.start()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECS)
    sampler.stop()
    sampler.stop()
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_what_the_program_says_of_switching_stays(switching) -> None:
    sampler = StackSampler()
    sampler.start()
    sys.setswitchinterval(0.002)
    sampler.stop()
    assert sys.getswitchinterval() == pytest.approx(0.002)


def test_lines_that_hold_the_interpreter_are_seen_between_such_that_let_go(switching) -> None:
    """Without that a sampler always meets a thread where it lets others in by itself."""
    sampler = StackSampler()
    sampler.start()
    deadline = time.monotonic() + 100
    while len(sampler._times) < 300:
        assert time.monotonic() < deadline
        sum(range(20_000))
        time.sleep(0)
    sampler.stop()
    lines = _innermost(sampler.document())
    source = [int(text.partition("(")[2].partition(")")[0]) for text in lines if __file__ in text]
    work = test_lines_that_hold_the_interpreter_are_seen_between_such_that_let_go.__code__.co_firstlineno + 7
    assert source.count(work) >= 8  # 25 or more; without it at most 3, the others at the line that lets go


@contextlib.contextmanager
def beside(work):
    """A thread that does something again and again."""
    ended, began = threading.Event(), threading.Event()

    def run_beside() -> None:
        while not ended.is_set():
            work()
            began.set()

    thread = threading.Thread(target=run_beside, name="counts")
    thread.start()
    assert began.wait(60)
    try:
        yield thread
    finally:
        ended.set()
        thread.join()


def counting() -> None:
    sum(number % 7 for number in range(20_000))


def sampled_beside(work, enough) -> dict:
    sampler = StackSampler()
    with beside(work):
        sampler.start()
        deadline = time.monotonic() + 100
        while not enough(sampler) and time.monotonic() < deadline:
            time.sleep(0.001)
        sampler.stop()
        return sampler.document()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what another thread ran")
def test_a_thread_that_holds_the_interpreter_is_noted_with_its_line(switching) -> None:
    told = sampled_beside(counting, lambda sampler: any(len(one.times) > 2 for one in sampler._held.values()))
    (held,) = [each for each in told["held"] if each["thread"] == "counts"]
    assert len(held["times_ns"]) == len(held["ran_ns"]) == len(held["samples"]) >= 2
    assert set(held["times_ns"]) <= set(told["times_ns"])
    assert min(held["ran_ns"]) >= 500_000
    stacks = [[told["frames"][frame] for frame in told["stacks"][at]] for at in held["samples"]]
    assert all(any(text.endswith(": run_beside") for text in stack) for stack in stacks)
    assert any(text.endswith(": counting") for stack in stacks for text in stack)


@pytest.mark.parametrize("work", [lambda: time.sleep(0.01), lambda: zlib.compress(bytes(1_000_000))])
def test_threads_that_sleep_or_work_outside_of_python_hold_nobody_up(work) -> None:
    told = sampled_beside(work, lambda sampler: len(sampler._times) >= 60)
    # Of a busy machine's pauses a few may look like it.
    assert sum(len(each["times_ns"]) for each in told["held"]) <= len(told["times_ns"]) / 4


def test_the_switch_interval_stays_where_another_thread_runs_python(switching) -> None:
    sys.setswitchinterval(0.005)
    sampler = StackSampler()
    with beside(counting):
        deadline, here = time.monotonic() + 60, {threading.get_ident()}
        while OtherThreads().busiest(here) < 2 * OTHERS_WORK and time.monotonic() < deadline:
            time.sleep(0.01)
        sampler.start()
        assert sys.getswitchinterval() == pytest.approx(0.005)
        sampler.stop()
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_it_is_set_back_where_another_thread_begins_to_run_python(switching) -> None:
    sys.setswitchinterval(0.005)
    sampler = StackSampler()
    sampler.start()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECS)
    with beside(counting):
        deadline = time.monotonic() + 60
        while sys.getswitchinterval() < 0.005 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sys.getswitchinterval() == pytest.approx(0.005)
        sampler.stop()
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_a_thread_that_has_ended_has_no_time() -> None:
    thread = threading.Thread(target=counting)
    thread.start()
    number = thread.native_id
    thread.join()
    deadline = time.monotonic() + 60
    time_of = ThreadTime(number)
    while (
        time_of.runnable_ns() >= 0 and time.monotonic() < deadline
    ):  # the system's thread ends a little later
        time.sleep(0.001)
    assert time_of.runnable_ns() == -1
    time_of.close()


# Which function a line of the program calls, also one that is written in C.


columns = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python tells no columns before 3.11")


class Stands:
    """Looks at where its caller stands."""

    def dump(self, *_: object) -> str:
        frame = sys._getframe(1)
        code, at = frame.f_code, frame.f_lasti
        while code.co_code[at] == 0:  # a call of Python stands behind its instruction
            at -= 2
        return called_text(code, at)

    __call__ = dump


stands = Stands()


@columns
def test_what_a_line_calls_is_told_by_its_source():
    assert stands() == "<call of stands>"
    assert stands.dump(1) == "<call of stands.dump>"
    assert [stands][0].dump() == "<call of .dump>"
    found = stands.dump(
        "over several",
        "lines",
    )
    assert found == "<call of stands.dump>"
    assert len("ä" + stands.dump("ä")) == len("ä<call of stands.dump>"), "columns count bytes"
    (stands)()  # a bracket is no other name
    assert (lambda: stands())() == "<call of stands>"


def test_nothing_is_told_where_nothing_of_the_programs_own_is_called():
    code = test_nothing_is_told_where_nothing_of_the_programs_own_is_called.__code__
    assert called_text(code, 0) == "", "the first instruction calls nothing"
    assert called_text(code, 10**6) == ""
    assert called_text(json.dumps.__code__, len(json.dumps.__code__.co_code) - 6) == ""
    made: dict = {}
    exec(compile("def f(): return g()", "/nowhere/gone.py", "exec"), made)
    assert {called_text(made["f"].__code__, at) for at in range(0, len(made["f"].__code__.co_code), 2)} == {
        ""
    }


def save(values: list) -> None:
    for _ in range(20):
        pickle.dump(values, io.BytesIO())


@columns
def test_a_sampled_stack_tells_what_is_called_in_c():
    values = [str(n) for n in range(50_000)]
    sampler = StackSampler()
    sampler.start()
    deadline = time.monotonic() + 60
    try:
        while len(sampler._times) < 20 and time.monotonic() < deadline:
            save(values)
    finally:
        sampler.stop()
    sampler._thread.join()
    document = sampler.document()
    texts = [[document["frames"][at] for at in document["stacks"][n]] for n in document["samples"]]
    inner = [text for text in texts if text and text[-1] == "<call of pickle.dump>"]
    assert inner, texts
    assert all(text[-2].endswith("): save") for text in inner)


# What JAX says of compiling is noted while steps are captured, and nobody else sees more than before.


NAME = "jax._src.interpreters.pxla"
MESSAGE = "Compiling %s with global shapes and types %s. Argument mapping: %s."


class Shaped:
    def str_short(self) -> str:
        return "float32[4,8]"


@pytest.fixture
def logger(monkeypatch):
    """JAX's logger, to which no capture of another test listens any more."""
    monkeypatch.setitem(sys.modules, "jax", sys)
    monkeypatch.setattr(sampler, "_LISTENER", sampler._Listener())
    logger = logging.getLogger(NAME)
    level, filters = logger.level, list(logger.filters)
    logger.filters = []
    logger.setLevel(logging.WARNING)
    yield logger
    logger.setLevel(level)
    logger.filters = filters


def test_what_is_compiled_meanwhile_is_noted_and_not_shown(logger, caplog):
    log = CompileLog(iter(range(10)).__next__)
    log.begin()
    logger.debug(MESSAGE, "jit(step)", [Shaped(), "int32[]"], ())
    logger.debug("something else %s", 1)
    logger.warning(MESSAGE, "jit(told)", [Shaped()], ())
    log.end()
    assert log.found == [(0, "jit(step)", ["float32[4,8]", "int32[]"]), (1, "jit(told)", ["float32[4,8]"])]
    assert [record.args[0] for record in caplog.records] == ["jit(told)"], "as without us"
    assert (logger.level, logger.filters) == (logging.WARNING, [])
    logger.debug(MESSAGE, "jit(later)", [], ())
    assert len(log.found) == 2


def test_captures_that_overlap_hear_the_same_and_the_last_one_cleans_up(logger, caplog):
    first, second = CompileLog(), CompileLog()
    for begun in (first, second):
        begun.begin()
    logger.debug(MESSAGE, "jit(both)", [], ())
    first.end()
    logger.debug(MESSAGE, "jit(second)", [], ())
    second.end()
    first.end()  # again
    names = [[name for _, name, _ in log.found] for log in (first, second)]
    assert names == [["jit(both)"], ["jit(both)", "jit(second)"]]
    assert (logger.level, logger.filters, caplog.records) == (logging.WARNING, [], [])


def test_without_jax_nothing_is_touched(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    logger = logging.getLogger(NAME)
    before = (logger.level, list(logger.filters))
    log = CompileLog()
    log.begin()
    assert (logger.level, list(logger.filters)) == before
    log.end()


def test_jax_tells_it_in_this_form():
    """The form of the message is JAX's own and may change with it."""
    jax = pytest.importorskip("jax")
    log = CompileLog()
    log.begin()
    try:
        jax.jit(lambda x: x * 2 + 1)(jax.numpy.ones((3, 5)))
    finally:
        log.end()
    assert any("float32[3,5]" in shapes for _, _, shapes in log.found)
