"""Captures of plain Python: samples in, a timeline out."""

import sys
import time

import stepscope as ss
from stepscope.analyze.breakdown import breakdown
from stepscope.integrations.python.profiler import frame_events

MS = 1_000_000


def shape(events):
    return [(each["name"], each["ts"], each["dur"]) for each in events]


def test_successive_samples_of_a_call_are_one_event():
    samples = [(0, []), (MS, ["main", "load"]), (3 * MS, ["main", "load", "read"]), (4 * MS, ["main"])]
    assert shape(frame_events(samples, 5)) == [
        ("main", 0.0, 4000.0),
        ("load", 0.0, 3000.0),
        ("read", 1000.0, 2000.0),
    ]


def test_the_same_stack_in_two_steps_is_two_calls_that_reach_over_no_border():
    samples = [(at * MS, ["main"]) for at in range(5)]
    assert shape(frame_events(samples, 5, [1_500_000, 2_500_000])) == [
        ("main", 0.0, 1500.0),
        ("main", 1500.0, 1000.0),
        ("main", 2500.0, 1500.0),
    ]


def test_between_two_borders_without_a_sample_nothing_is_known():
    samples = [(0, ["load"]), (MS, ["load"]), (2 * MS, ["train"])]
    assert shape(frame_events(samples, 5, [1_200_000, 1_700_000])) == [
        ("load", 0.0, 1200.0),
        ("train", 1700.0, 300.0),
    ]


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


def test_a_loop_is_captured(tmp_path):
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="python")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for step in run.steps(range(9)):
            busy(0.1 if step in (5, 6) else 0.01)  # so long that the sampler gets a processor meanwhile
    assert run.problems == {}
    (path,) = tmp_path.rglob("*.trace.json.gz")
    trace = ss.load_trace(path, cache=False)
    assert trace.steps.number.tolist() == [5, 6]
    rows = [row for row in range(len(trace)) if trace.name_of(row).endswith(": busy")]
    assert {int(trace.step[row]) for row in rows} >= {5, 6}
    assert sum(int(trace.duration_ns[row]) for row in rows) > 100_000_000


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
    steps = breakdown(ss.load_trace(path, cache=False)).steps
    assert [step.parts_ns["data_loading"] >= 20_000_000 for step in steps] == [True, True]


def test_frames_lie_within_the_steps_and_have_the_line_of_their_function(tmp_path):
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="python")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(range(9)):
            busy(0.02)
    (path,) = tmp_path.rglob("*.trace.json.gz")
    trace = ss.load_trace(path, cache=False)
    steps = trace.steps
    assert len({int(trace.lane[row]) for row in range(len(trace))}) == 1, "marks and frames on one lane"
    rows = [row for row in range(len(trace)) if trace.name_of(row).endswith(": busy")]
    assert {trace.name_of(row).rpartition("(")[2] for row in rows} == {
        f"{busy.__code__.co_firstlineno}): busy"
    }
    for row in rows:
        begun, ended = int(trace.start_ns[row]), int(trace.start_ns[row] + trace.duration_ns[row])
        borders = [int(at) for at in (*steps.start_ns, *steps.end_ns)]
        assert not [at for at in borders if begun < at < ended]


def test_another_profiler_of_the_thread_keeps_running(tmp_path):
    """Coverage, cProfile and debuggers set a function that no capture replaces."""
    earlier, calls = sys.getprofile(), []
    own = lambda *arguments: calls.append(arguments[1])  # noqa: E731
    sys.setprofile(own)
    try:
        hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="python")
        with ss.Run(tmp_path, hooks=[hook]) as run:
            for _ in run.steps(range(9)):
                busy(0.005)
        assert sys.getprofile() is own
    finally:
        sys.setprofile(earlier)
    assert run.problems == {}
    assert list(tmp_path.rglob("*.trace.json.gz"))
