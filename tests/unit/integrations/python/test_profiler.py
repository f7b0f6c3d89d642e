"""Captures of plain Python: samples in, a timeline out."""

import builtins
import sys
import time

import pytest

import stepscope as ss
from stepscope.analyze.input import input_waits
from stepscope.capture.backend import CaptureOptions
from stepscope.errors import CaptureError
from stepscope.integrations.python.profiler import frame_events, frame_name, make_backend


def frame(name, line=1, file="/x/a.py"):
    return f"{name}\x00{file}\x00{line}\x01l7"


THREAD = "MainThread\x00<thread>\x00123"


def shape(events):
    return [(each["name"].split(": ")[1], each["ts"], each["dur"]) for each in events]


def test_successive_samples_of_a_call_are_one_event():
    main, load, read = frame("main"), frame("load"), frame("read")
    samples = [([THREAD, main, load], 0.001), ([THREAD, main, load, read], 0.002), ([THREAD, main], 0.001)]
    assert shape(frame_events(samples, 5)) == [
        ("main", 0.0, 4000.0),
        ("load", 0.0, 3000.0),
        ("read", 1000.0, 2000.0),
    ]


def test_the_same_stack_in_two_steps_is_two_calls():
    samples = [([frame("main")], 0.01), ([frame("main")], 0.01)]
    assert shape(frame_events(samples, 5, [0.0, 0.01])) == [
        ("main", 0.0, 10000.0),
        ("main", 10000.0, 10000.0),
    ]


def test_a_call_seen_in_a_step_begins_in_it():
    """The sampler is started a moment before the step."""
    assert shape(frame_events([([frame("main")], 0.01)], 5, [0.002])) == [("main", 2000.0, 8000.0)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (frame("load", 12), "/x/a.py(12): load"),
        ("sorted\x00<built-in>\x000", "<built-in>: sorted"),
        (THREAD, ""),
        ("[self]\x00\x000", ""),
        ("odd", ""),
    ],
)
def test_frames_have_the_names_that_python_frames_have_in_kineto_traces(text, name):
    assert frame_name(text) == name


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


@pytest.mark.skipif(sys.getprofile() is not None, reason="a profiler is set on this thread")
def test_a_loop_is_captured(tmp_path):
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="python")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(range(9)):
            busy(0.02)
    assert run.problems == {}
    (path,) = tmp_path.rglob("*.trace.json.gz")
    trace = ss.load_trace(path, cache=False)
    assert trace.steps.number.tolist() == [5, 6]
    rows = [row for row in range(len(trace)) if trace.name_of(row).endswith(": busy")]
    assert {int(trace.step[row]) for row in rows} >= {5, 6}
    assert sum(int(trace.duration_ns[row]) for row in rows) > 20_000_000


@pytest.mark.skipif(sys.getprofile() is not None, reason="a profiler is set on this thread")
def test_the_wait_for_data_is_part_of_the_step(tmp_path):
    def slow():
        for _ in range(9):
            time.sleep(0.02)
            yield

    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="python")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(slow()):
            busy(0.005)
    (path,) = tmp_path.rglob("*.trace.json.gz")
    (rank,) = input_waits(ss.load_trace(path, cache=False)).ranks
    assert [each.loading_ns >= 20_000_000 for each in rank.steps] == [True, True]


def test_without_the_library_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name == "pyinstrument":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CaptureError, match="not installed") as raised:
        make_backend()
    assert raised.value.hint == "pip install pyinstrument"


def test_another_profiler_is_left_alone():
    earlier = sys.getprofile()
    sys.setprofile(lambda *arguments: None)
    try:
        with pytest.raises(CaptureError, match="another profiler is already active"):
            make_backend().start(CaptureOptions())
    finally:
        sys.setprofile(earlier)
