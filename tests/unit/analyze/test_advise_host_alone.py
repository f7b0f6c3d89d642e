"""Profiles of a host alone: what the training thread did when it ran no operator."""

from __future__ import annotations

import pytest

from stepscope.analyze.advise import Facts, Finding, advise
from stepscope.trace.model import Kind

STEP = 1_000_000
STACKS = {"timeline", "steps", "stacks"}


def trace_of(make, content, *, count: int = 4, gap: int = 0, lengths=None, **facts):
    """Steps of 1 ms, each with the events that a function gives for it."""
    events, at = [], 0
    for step in range(count):
        length = lengths[step] if lengths else STEP
        events += [make.event(f"ProfilerStep#{step}", Kind.STEP, at, length, step=step), *content(step, at)]
        at += length + gap
    return make.build(events, **facts)


def found(trace, rule: str) -> list[Finding]:
    return [one for one in advise(Facts(trace)).findings if one.rule == rule]


def works(make, share: float, *more, lane: str = "main"):
    """An operator for some of each step; the other events begin where it ends, so much later."""

    def content(step, at):
        events = [make.event("aten::mm", Kind.HOST_OP, at, int(share * STEP))]
        for name, kind, after, duration in more:
            begin = at + int(share * STEP) + after
            events.append(make.event(name, kind, begin, duration, lane=lane))
        return events

    return content


@pytest.mark.parametrize(("share", "severity"), [(0.3, "high"), (0.7, "high"), (0.85, None)])
def test_time_in_which_the_training_thread_runs_no_operator_is_said(make, share, severity) -> None:
    findings = found(trace_of(make, works(make, share)), "host-bound")
    assert [one.severity for one in findings] == ([severity] if severity else [])
    for one in findings:
        assert one.gain_ratio == pytest.approx(1 - share, abs=0.01)
        assert "Python or a wait, was not recorded" in one.summary
        assert "with_stack=True" in one.action


def test_the_range_that_holds_most_of_that_time_is_named(make) -> None:
    inside = [("train", Kind.ANNOTATION, 0, 690_000), ("fetch rows", Kind.ANNOTATION, 10_000, 600_000)]
    (one,) = found(trace_of(make, works(make, 0.3, *inside)), "host-bound")
    assert "600 µs of it in fetch rows: what it did" in one.summary
    assert one.action.startswith("find out what fetch rows does")
    beside = works(make, 0.3, ("fetch rows", Kind.ANNOTATION, 10_000, 200_000))
    assert "fetch rows" not in found(trace_of(make, beside), "host-bound")[0].summary


def test_a_thread_that_may_wait_for_another_is_not_said_to_run_nothing(make) -> None:
    beside = works(make, 0.3, ("aten::mm", Kind.HOST_OP, 50_000, 500_000), lane="other")
    assert not found(trace_of(make, beside), "host-bound")
    exchange = works(make, 0.3, ("gloo:all_reduce", Kind.COLLECTIVE, 50_000, 500_000), lane="other")
    assert not found(trace_of(make, exchange), "host-bound")


def test_a_loader_is_no_time_without_operators(make) -> None:
    loads = works(make, 0.3, ("enumerate(DataLoader)#x", Kind.DATA_LOADING, 0, 690_000))
    advice = advise(Facts(trace_of(make, loads)))
    assert [one.rule for one in advice.findings if one.gain_ns] == ["input-bound"]


def test_without_operators_of_the_training_thread_nothing_is_said_of_it(make) -> None:
    trace = trace_of(make, lambda step, at: [make.event("train", Kind.ANNOTATION, at, 900_000)])
    advice = advise(Facts(trace))
    lacking = {one.rule: one.missing for one in advice.abstained}
    assert "no operators" in lacking["host-bound"]
    assert "no operators" in lacking["compilation"]
    assert advice.verdict.startswith("what the steps waited for could not be judged")


FIT = "/home/ann/train.py(31): fit"


def calls(make, name: str, *, around: str = "", kind: Kind = Kind.PYTHON_FRAME, lane: str = "main"):
    """A call for 0.4 of each step within a function of the user's own."""

    def content(step, at):
        events = [make.event(FIT, Kind.PYTHON_FRAME, at + 10, 990_000)]
        if around:
            events.append(make.event(around, Kind.PYTHON_FRAME, at + 990, 400_020))
        return [
            *events,
            make.event(name, kind, at + 1_000, 400_000, lane=lane),
            make.event("aten::mm", Kind.HOST_OP, at + 450_000, 500_000),
        ]

    return content


WAITS = [
    "<built-in function sleep>",
    "<built-in method acquire of _thread.lock object at 0x7f>",
    "$time sleep",
]


@pytest.mark.parametrize("name", WAITS)
def test_a_recorded_call_that_only_waits_is_a_blocking_call(make, name: str) -> None:
    (one,) = found(trace_of(make, calls(make, name), recorded=STACKS), "blocking-call")
    assert one.summary.startswith(
        "the training thread waits for 400 µs of 1.00 ms a step in /home/ann/train.py:31"
    )
    assert one.gain_ratio == pytest.approx(0.4, abs=0.01)
    assert one.chain == []


@pytest.mark.parametrize(
    "of",
    [
        {"name": "<built-in function sleep>", "lane": "other"},
        {"name": "<built-in function sum>"},
        {
            "name": "<built-in method wait of c10d.Work object>",
            "around": "torch/distributed/c10d.py(9): barrier",
        },
        {"name": "aten::item", "kind": Kind.HOST_OP},
    ],
)
def test_other_calls_are_no_blocking_calls(make, of) -> None:
    assert not found(trace_of(make, calls(make, **of), recorded=STACKS), "blocking-call")


def test_a_wait_for_threads_of_which_nothing_was_recorded_is_said_to_be_one(make) -> None:
    name, around = "<built-in method acquire of _thread.lock object at 0x7f>", "threading.py(1115): join"
    (one,) = found(trace_of(make, calls(make, name, around=around), recorded=STACKS), "blocking-call")
    assert one.chain == ["it waits for other threads to end, and nothing that they did was recorded"]


@pytest.mark.parametrize(
    ("gap", "event", "said"), [(60_000, "", False), (400_000, "", True), (60_000, "log", True)]
)
def test_a_short_gap_between_marks_in_which_nothing_ran_is_the_profilers(make, gap, event, said) -> None:
    def content(step, at):
        events = [make.event("aten::mm", Kind.HOST_OP, at, STEP - 10)]
        return [*events, make.event(event, Kind.ANNOTATION, at + STEP + 10, gap - 20)] if event else events

    trace = trace_of(make, content, gap=gap)
    assert bool(found(trace, "between-steps") or found(trace, "logging")) == said


def test_the_profilers_own_step_is_nothing_between_the_steps(make) -> None:
    def content(step, at):
        return [
            make.event("aten::mm", Kind.HOST_OP, at, STEP - 10),
            make.event("torch/profiler/profiler.py(1150): step", Kind.PYTHON_FRAME, at + STEP, 400_000),
        ]

    assert not found(trace_of(make, content, gap=400_000, recorded=STACKS), "between-steps")


def test_compiled_code_of_the_training_thread_that_calls_python_is_named_with_its_line(make) -> None:
    def content(step, at):
        return [
            make.event("PjitFunction(step)", Kind.HOST_OP, at, 900_000),
            make.event("pure_callback.1", Kind.HOST_OP, at + 100_000, 400_000),
            make.event("$train.py:7 slow", Kind.PYTHON_FRAME, at + 110_000, 380_000),
        ]

    trace = trace_of(make, content, recorded=STACKS, format="xplane")
    (one,) = found(trace, "host-callback")
    assert " in train.py:7 slow; " in one.summary
    assert not found(trace, "python-overhead")


def test_functions_that_were_compiled_are_told_by_their_time(make) -> None:
    def content(step, at):
        return [
            make.event("PjitFunction(ones)", Kind.HOST_OP, at, 90_000),
            make.event("backend_compile_and_load", Kind.HOST_OP, at + 1_000, 80_000),
            make.event("PjitFunction(update)", Kind.HOST_OP, at + 100_000, 600_000),
            make.event("backend_compile_and_load", Kind.HOST_OP, at + 110_000, 500_000),
        ]

    (one,) = found(trace_of(make, content, format="xplane"), "compilation")
    assert one.summary.startswith("the step compiles update and ones 2 times a step for ")


def waits_for_loader(make, iterator: str):
    name = f"enumerate(DataLoader)#{iterator}.__next__"
    return lambda step, at: [
        make.event(name, Kind.DATA_LOADING, at, 400_000),
        make.event("aten::mm", Kind.HOST_OP, at + 400_000, 590_000),
    ]


def test_a_loader_with_workers_is_not_told_to_load_in_parallel(make) -> None:
    (one,) = found(trace_of(make, waits_for_loader(make, "_MultiProcessingDataLoaderIter")), "input-bound")
    assert one.action.startswith("more workers")
    assert one.chain == ["the loader already has worker processes"]
    (one,) = found(trace_of(make, waits_for_loader(make, "_SingleProcessDataLoaderIter")), "input-bound")
    assert one.action.startswith("load in parallel")
    assert one.chain == []


def test_the_line_of_a_long_step_and_the_other_long_ones_are_told(make) -> None:
    lengths = [STEP] * 5 + [3 * STEP, STEP, STEP, 2 * STEP]

    def content(step, at):
        more = lengths[step] - STEP
        late = (
            [make.event("/home/ann/train.py(7): clean", Kind.PYTHON_FRAME, at + STEP - 20, more)]
            if more
            else []
        )
        late += [make.event("aten::add", Kind.HOST_OP, at + STEP - 10, more - 20)] if more else []
        whole = make.event(FIT, Kind.PYTHON_FRAME, at + 1, STEP - 30)
        return [whole, make.event("aten::mm", Kind.HOST_OP, at + 5, STEP - 60), *late]

    trace = trace_of(make, content, count=9, lengths=lengths, recorded=STACKS)
    (one,) = found(trace, "step-variation")
    assert one.summary == (
        "step 5 takes 3.00 ms, 200% more than the median of 8 steps; most of the difference is in "
        "/home/ann/train.py:7 clean; 1 more is over 25% longer than the median"
    )
    assert one.action == "find out what steps 5, 8 did that others did not, in /home/ann/train.py:7 clean"
    assert one.place["line"] == 7


def test_a_long_step_that_another_finding_explains_by_its_line_is_told_with_it(make) -> None:
    def content(step, at):
        waits = make.event("<built-in function sleep>", Kind.PYTHON_FRAME, at + STEP, 2 * STEP - 50)
        late = [
            make.event("/home/ann/train.py(7): clean", Kind.PYTHON_FRAME, at + STEP - 10, 2 * STEP),
            waits,
        ]
        return [make.event("aten::mm", Kind.HOST_OP, at + 5, STEP - 60), *(late if step == 5 else [])]

    lengths = [3 * STEP if step == 5 else STEP for step in range(8)]
    trace = trace_of(make, content, count=8, lengths=lengths, recorded=STACKS)
    (one,) = (one for one in advise(Facts(trace)).findings if one.gain_ns)
    assert one.rule == "blocking-call"
    assert one.chain[0].startswith("step 5 takes 3.00 ms, 200% more than the median of 7 steps; ")


@pytest.mark.parametrize(("ran", "said"), [(500_000, False), (200_000, True)])
def test_a_frame_in_which_xla_runs_for_most_of_the_time_waits_for_it(make, ran: int, said: bool) -> None:
    """``block_until_ready`` has no frame: its caller seems to run Python meanwhile."""

    def content(step, at):
        return [
            make.event("PjitFunction(update)", Kind.HOST_OP, at + 1_000, 50_000),
            make.event("$train.py:7 step", Kind.PYTHON_FRAME, at + 500, 900_000),
            make.event("fusion.1", Kind.HOST_OP, at + 60_000, ran, lane="tf_XLAEigen/1"),
        ]

    trace = trace_of(make, content, recorded=STACKS, format="xplane")
    assert bool(found(trace, "python-overhead")) == said
