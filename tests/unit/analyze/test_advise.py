"""Each rule: where its sentence is true, where it must not be said, and when it cannot tell."""

from __future__ import annotations

import shlex
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from stepscope.analyze.advise import RULES, Advice, Facts, Finding, _short, _under, advise, joined
from stepscope.analyze.advise.activities import changed
from stepscope.analyze.advise.dtypes import is_full_precision
from stepscope.analyze.advise.lines import lines_of, lines_text
from stepscope.analyze.sampled import Sampled
from stepscope.analyze.source_lines import is_own
from stepscope.trace.model import Device, Kind, Lane, Source
from stepscope.trace.sampled import Samples
from stepscope.trace.tables import MemoryAction
from stepscope.trace.tfprof import Profile, ProfileNode

STEP = 1_000_000


@pytest.fixture
def steps(make: SimpleNamespace):
    """Build a trace of steps of 1 ms, one after the other, each with the events that a function gives for
    it."""

    def built(content, *, count: int = 3, lengths=None, **facts):
        events, at = [], 0
        for step in range(count):
            length = lengths[step] if lengths else STEP
            events.append(make.event(f"ProfilerStep#{step}", Kind.STEP, at, length, step=step))
            events += content(step, at)
            at += length
        return make.build(events, **facts)

    return built


def found(trace, rule: str) -> list[Finding]:
    return [one for one in advise(Facts(trace)).findings if one.rule == rule]


def only(trace, rule: str) -> Finding:
    (finding,) = found(trace, rule)
    return finding


def missing(trace, rule: str) -> str:
    return next((one.missing for one in advise(Facts(trace)).abstained if one.rule == rule), "")


def kernel(
    make, at: int, duration: int, *, number: int, call_at: int | None = None, call: int = 10, name="k", **of
):
    """Device work and the call that launches it."""
    launched = at - 50 if call_at is None else call_at
    return [
        make.event("cudaLaunchKernel", Kind.RUNTIME_CALL, launched, call, correlation=number),
        make.event(
            name,
            of.pop("kind", Kind.KERNEL),
            at,
            duration,
            lane="gpu",
            device=0,
            stream=7,
            correlation=number,
            **of,
        ),
    ]


def device_bound(make, step, at, *, name="k", **of):
    """One kernel for most of the step, and the host waits for it."""
    return [
        *kernel(make, at + 10_000, 970_000, number=100 + step, call_at=at + 5_000, name=name, **of),
        make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, at + 6_000, 980_000),
    ]


def test_every_rule_is_there() -> None:
    assert [name for name, rule in RULES.items() if rule.check] == [
        "accelerator-utilization",
        "operation",
        "expensive-operation",
        "input-bound",
        "preprocessing",
        "compilation",
        "checkpoint",
        "logging",
        "evaluation",
        "blocking-call",
        "busy-machine",
        "host-callback",
        "between-steps",
        "communication-bound",
        "slow-rank",
        "hang",
        "host-bound",
        "sync-points",
        "small-kernels",
        "eager-operations",
        "unfused-optimizer",
        "dtype-hints",
        "memory-near-limit",
        "pageable-copies",
        "step-variation",
    ]


# --- loading and the other activities of the training thread ---------------------------------------------


def loading(make, share: float, *, busy: bool = False):
    def content(step, at):
        until = at + int(share * STEP)
        events = [make.event("enumerate(DataLoader)#x", Kind.DATA_LOADING, at, int(share * STEP) or 1)]
        if busy:  # what the step before launched runs behind the loading of this one
            return [*events, *kernel(make, until + 100, 990_000, number=step, call_at=until + 20)]
        events += kernel(make, until + 100, STEP - int(share * STEP) - 200, number=step, call_at=until + 20)
        return [
            *events,
            make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, until + 100, at + STEP - until - 100),
        ]

    return content


@pytest.mark.parametrize(
    ("share", "severity"), [(0.01, None), (0.08, "low"), (0.15, "medium"), (0.4, "high")]
)
def test_a_step_that_waits_for_data(make, steps, share: float, severity: str | None) -> None:
    findings = found(steps(loading(make, share)), "input-bound")
    assert [one.severity for one in findings] == ([severity] if severity else [])
    for one in findings:
        assert one.cost_ratio == pytest.approx(share, abs=0.01)
        assert one.gain_ratio == pytest.approx(share, abs=0.01)
        assert one.gain_from == "replay"
        assert one.gain_ns <= one.evidence["step_ns"]
        assert "DataLoader(num_workers" in one.action
        assert one.events[0]["name"] == "enumerate(DataLoader)#x"
        assert one.withdrawn


def test_loading_behind_a_busy_device_costs_nothing(make, steps) -> None:
    assert not found(steps(loading(make, 0.4, busy=True), count=20), "input-bound")


@pytest.mark.parametrize(("step_ns", "told"), [(600, False), (STEP, True)])
def test_what_takes_no_longer_than_measuring_it_is_no_finding(make, step_ns: int, told: bool) -> None:
    """A step of 600 ns that waits for its number 240 ns is a loop over ``range``, and not slow."""
    events = []
    for step in range(6):
        at, wait = step * step_ns, step_ns * 2 // 5
        events.append(make.event(f"ProfilerStep#{step}", Kind.STEP, at, step_ns, step=step))
        events.append(make.event("data_loading", Kind.DATA_LOADING, at, wait))
        events.append(make.event("train.py(3): main", Kind.PYTHON_FRAME, at + wait, step_ns - wait))
    findings = advise(Facts(make.build(events))).findings
    assert bool(findings) == told
    assert ("input-bound" in [one.rule for one in findings]) == told


def test_without_loading_nothing_is_said_of_it(make, steps) -> None:
    assert "loading" in missing(steps(lambda step, at: device_bound(make, step, at)), "input-bound")


def test_what_to_do_fits_the_framework(make, steps) -> None:
    trace = steps(
        lambda step, at: [
            make.event("data_loading", Kind.DATA_LOADING, at, 500_000),
            make.event("PjitFunction(train_step)", Kind.HOST_OP, at + 500_000, 450_000),
        ],
        format="xplane",
    )
    finding = only(trace, "input-bound")
    assert "DataLoader" not in finding.action
    assert "grain" in finding.action


ACTIVITIES = [
    ("preprocessing", "transformers/image_processing_owlv2.py(210): preprocess", Kind.PYTHON_FRAME),
    ("compilation", "_compile.compile_inner (dynamo_timed)", Kind.HOST_OP),
    ("checkpoint", "torch/serialization.py(944): save", Kind.PYTHON_FRAME),
    ("logging", "torch/utils/tensorboard/writer.py(500): add_histogram", Kind.PYTHON_FRAME),
]


@pytest.mark.parametrize(("rule", "name", "kind"), ACTIVITIES)
def test_what_the_training_thread_does_instead(make, steps, rule: str, name: str, kind: Kind) -> None:
    def content(step, at, lane="main"):
        return [
            make.event("/home/ann/train.py(31): fit", Kind.PYTHON_FRAME, at + 10, 990_000),
            make.event(name, kind, at + 1_000, 400_000, lane=lane),
            make.event("aten::mm", Kind.HOST_OP, at + 450_000, 500_000),
        ]

    features = {"timeline", "steps", "stacks"}
    finding = only(steps(content, recorded=features), rule)
    assert finding.gain_ratio == pytest.approx(0.4, abs=0.01)
    assert (finding.place["file"], finding.place["line"], finding.place["function"]) == (
        "/home/ann/train.py",
        31,
        "fit",
    )
    assert "/home/ann/train.py:31 fit" in finding.summary
    beside = steps(lambda step, at: content(step, at, lane="helper"), recorded=features)
    assert not found(beside, rule)


def test_a_profiler_that_was_starting_when_recording_began_hides_nothing(make, steps) -> None:
    """Its frame is never seen to end, and lasts until the last event."""

    def content(step, at):
        events = [make.event("data_loading", Kind.DATA_LOADING, at, 400_000)]
        events += [make.event("aten::mm", Kind.HOST_OP, at + 400_000 + i * 50_000, 40_000) for i in range(12)]
        start = make.event(
            "torch/profiler/profiler.py(342): start_trace", Kind.PYTHON_FRAME, -10, 3 * STEP + 20
        )
        return [start, *events] if step == 0 else events

    finding = only(steps(content, recorded={"timeline", "steps", "stacks"}), "input-bound")
    assert finding.gain_ratio == pytest.approx(0.4, abs=0.02)


def test_compiling_behind_a_busy_device_is_no_cause(make, steps) -> None:
    def content(step, at):
        return [
            *device_bound(make, step, at)[:2],
            make.event("_compile.compile_inner (dynamo_timed)", Kind.HOST_OP, at + 20_000, 400_000),
            make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, at + 430_000, 556_000),
        ]

    assert not found(steps(content), "compilation")


def test_compiling_names_function_and_shapes(make, steps) -> None:
    def content(step, at):
        return [
            make.event("PjitFunction(train_step)", Kind.HOST_OP, at + 10, 900_000),
            make.event("backend_compile_and_load", Kind.HOST_OP, at + 1_000, 700_000),
        ]

    shapes = {"row": [1, 4, 7], "shapes": ["[[8, 3]]", "[[9, 3]]", "[[10, 3]]"]}
    trace = steps(
        content, tables={"operators": shapes}, recorded={"timeline", "steps", "shapes"}, format="xplane"
    )
    finding = only(trace, "compilation")
    assert finding.evidence["compilations"] == 3
    assert finding.evidence["functions"] == [{"name": "train_step", "calls": 3}]
    assert len(finding.evidence["shapes"]) == 3
    assert "jax.jit" in finding.action
    assert finding.summary.startswith(
        "the step compiles train_step once a step for 700 µs of 1.00 ms a step; "
    )


def test_two_shapes_are_enough_to_name_what_varies(make, steps) -> None:
    def content(step, at):
        return [
            make.event("PjitFunction(train_step)", Kind.HOST_OP, at + 10, 900_000),
            make.event("backend_compile_and_load", Kind.HOST_OP, at + 1_000, 700_000),
        ]

    shapes = {"row": [1, 4], "shapes": ["[[8, 3]]", "[[9, 3]]"]}
    trace = steps(
        content, tables={"operators": shapes}, recorded={"timeline", "steps", "shapes"}, format="xplane"
    )
    assert only(trace, "compilation").evidence["shapes"] == [
        f"PjitFunction(train_step): [[{size}, 3]]" for size in (8, 9)
    ]


def test_shapes_that_are_the_same_in_each_step_did_not_change(make, steps) -> None:
    """Parameters of several shapes are not shapes that vary; lowering is not a second compilation."""

    def content(step, at):
        return [
            make.event("PjitFunction(train_step)", Kind.HOST_OP, at + 10, 900_000),
            make.event("lower_sharding_computation", Kind.HOST_OP, at + 100, 900),
            make.event("backend_compile_and_load", Kind.HOST_OP, at + 1_000, 700_000),
            make.event("detach", Kind.HOST_OP, at + 800_000, 10),
            make.event("detach", Kind.HOST_OP, at + 810_000, 10),
        ]

    shapes = {"row": [4, 5, 10, 11, 16, 17], "shapes": ["[[8, 3]]", "[[3]]"] * 3}
    trace = steps(
        content, tables={"operators": shapes}, recorded={"timeline", "steps", "shapes"}, format="xplane"
    )
    finding = only(trace, "compilation")
    assert "shapes" not in finding.evidence
    assert finding.evidence["compilations"] == 3


# --- the host and the device --------------------------------------------------------------------------------


def test_a_device_that_waits_for_the_host(make, steps) -> None:
    def late(step, at):
        return [
            make.event("aten::mm", Kind.HOST_OP, at + 1_000, 600_000),
            *kernel(make, at + 600_000, 300_000, number=step, call_at=at + 590_000),
            make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, at + 601_500, 299_000),
        ]

    finding = only(steps(late), "host-bound")
    assert finding.severity == "high"
    assert finding.cost_ratio == pytest.approx(0.7, abs=0.02)
    assert finding.gain_ns <= finding.evidence["step_ns"]
    parts = [finding.evidence[f"{part}_ns"] for part in ("launching", "python", "operators", "untraced")]
    assert sum(parts) == pytest.approx(finding.evidence["waited_ns"], abs=4)
    assert not found(steps(lambda step, at: device_bound(make, step, at)), "host-bound")


def crowded(make, *, duration: int, call: int):
    """Launches one after the other; a kernel begins when the one before it has ended."""

    def content(step, at):
        calls = [at + n * call for n in range(20)]
        begin, events = at, []
        for n, launched in enumerate(calls):
            begin = max(begin, launched + 500)
            events += kernel(make, begin, duration, number=step * 20 + n, call_at=launched, call=call - 100)
            begin += duration
        return events

    return content


def test_launch_calls_that_the_device_waits_for(make, steps) -> None:
    finding = only(steps(crowded(make, duration=5_000, call=48_000)), "launch-bound")
    assert finding.severity == "high"
    assert "CUDA graphs" in finding.action


def test_launch_calls_behind_a_busy_device_are_back_pressure(make, steps) -> None:
    trace = steps(crowded(make, duration=49_500, call=48_000))
    assert not [one for one in advise(Facts(trace)).findings if one.rule in ("launch-bound", "host-bound")]


def test_copies_are_no_launches(make, steps) -> None:
    def content(step, at):
        return [
            make.event("cudaMemcpyAsync", Kind.RUNTIME_CALL, at + 1_000, 800_000, correlation=step),
            make.event(
                "Memcpy HtoD (Pinned -> Device)",
                Kind.MEMCPY,
                at + 790_000,
                5_000,
                lane="gpu",
                device=0,
                stream=7,
                correlation=step,
            ),
        ]

    assert not found(steps(content), "launch-bound")


def test_graphs_are_not_advised_to_who_uses_them(make, steps) -> None:
    def content(step, at):
        return [
            make.event("aten::mm", Kind.HOST_OP, at + 1_000, 600_000),
            make.event("cudaGraphLaunch", Kind.RUNTIME_CALL, at + 590_000, 10_000, correlation=step),
            make.event(
                "k", Kind.KERNEL, at + 601_000, 200_000, lane="gpu", device=0, stream=7, correlation=step
            ),
            make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, at + 602_000, 200_000),
        ]

    finding = only(steps(content), "host-bound")
    assert "CUDA graphs (torch" not in finding.action
    assert "already in use: CUDA graphs" in finding.action


def test_python_overhead_of_a_host_alone(make, steps) -> None:
    def content(step, at):
        return [
            make.event("/home/ann/train.py(3): main", Kind.PYTHON_FRAME, at + 1_000, 600_000),
            make.event("aten::mm", Kind.HOST_OP, at + 2_000, 100_000),
        ]

    finding = only(steps(content, recorded={"timeline", "steps", "stacks"}), "python-overhead")
    assert finding.evidence["python_ratio"] == pytest.approx(0.5, abs=0.01)
    assert finding.evidence["frames"] == [{"name": "/home/ann/train.py(3): main", "self_ns": 1_500_000}]
    assert finding.gain_ratio == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    "name",
    [
        "<built-in method run_backward of torch._C._EngineBase object at 0x7f>",
        "<built-in function _cuda_synchronize>",
        "threading.py(604): wait",
        "torch/profiler/profiler.py(700): start_trace",
        "torch/serialization.py(944): save",
        "torch/_dynamo/convert_frame.py(700): compile_inner",
        "torch/utils/data/dataloader.py(630): __next__",
    ],
)
def test_waiting_compiling_and_profiling_are_not_pythons_time(make, steps, name: str) -> None:
    def content(step, at):
        return [make.event(name, Kind.PYTHON_FRAME, at + 1_000, 900_000)]

    assert not found(steps(content, recorded={"timeline", "steps", "stacks"}), "python-overhead")


def test_no_share_is_above_one_where_frames_lie_outside_of_steps(make, steps) -> None:
    trace = steps(
        lambda step, at: [
            make.event("loop.py(1): run", Kind.PYTHON_FRAME, at + 10, 900_000),
            make.event("other.py(1): run", Kind.PYTHON_FRAME, at + 10 + STEP * 100, 9_000_000),
        ],
        recorded={"timeline", "steps", "stacks"},
    )
    finding = only(trace, "python-overhead")
    assert finding.evidence["python_ratio"] == pytest.approx(0.9, abs=0.01)
    assert finding.gain_ratio <= finding.cost_ratio <= 1


# --- small work, waits, the optimizer
# -------------------------------------------------------------------------


def test_small_kernels_that_the_step_waits_for(make, steps) -> None:
    def content(step, at, each=7_800):
        events = [
            e
            for i in range(120)
            for e in kernel(
                make,
                at + 100 + i * (each + 500),
                each,
                number=step * 120 + i,
                call_at=at + 20 + i,
                call=1,
                name="tiny",
            )
        ]
        return [*events, make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, at + 200, 120 * (each + 500))]

    finding = only(steps(content), "small-kernels")
    assert finding.evidence["per_step"] == 120
    assert finding.evidence["most"] == [{"name": "tiny", "calls": 360}]
    assert finding.gain_ratio == pytest.approx(0.94, abs=0.05)
    assert "between" not in finding.summary
    assert not found(steps(lambda step, at: device_bound(make, step, at)), "small-kernels")


def test_small_operators_on_a_host(make, steps) -> None:
    def content(step, at):
        return [make.event("aten::add", Kind.HOST_OP, at + i * 6_000, 3_000) for i in range(150)]

    finding = only(steps(content), "small-kernels")
    assert finding.evidence["small_ratio"] == 1
    assert "operators" in finding.summary
    # They themselves take 450 µs of the 897 that are told.
    assert "take 897 µs of 1.00 ms a step with what lies between them; " in finding.summary
    assert finding.evidence["operators_ns"] == 150 * 3_000
    assert finding.evidence["between_ns"] == 149 * 3_000
    assert "tf.function" not in finding.action
    session = only(steps(content, format="timeline"), "small-kernels")
    assert "tf.function(jit_compile=True)" in session.action
    few = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 900_000)])
    assert not found(few, "small-kernels")


def small_and_backward(make, *, linked: bool = True):
    """Steps of 60 small operators in lines 9 (a third) and 30 (two thirds), and their backward pass."""

    def content(step, at):
        events = [make.event(f"aten::add{step}{i}", Kind.HOST_OP, at + i * 6_000, 5_000) for i in range(60)]
        for i in range(60):
            more = {"forward": f"aten::add{step}{59 - i}"} if linked else {}
            start = at + 400_000 + i * 9_000
            name = "autograd::engine::evaluate_function: AddBackward0"
            events.append(make.event(name, Kind.HOST_OP, start, 8_000, **more))
        return events

    return content


def stands(time: int) -> int:
    """Stand in line 9 for the first 20 operators, in line 30 for the others, then in ``backward``."""
    at = time % STEP
    return 1 if at < 120_000 else 4 if at < 360_000 else 0


def test_small_operators_of_the_backward_pass_are_told_in_the_lines_that_made_them(make, steps) -> None:
    """900 of 1,000 µs are small operators; 540 of them run in one call of ``backward``."""
    (one,) = of(sampled_by(steps(small_and_backward(make)), stands), "small-kernels")
    assert (one.place["line"], one.place["function"]) == (30, "pairs")
    told = {each["name"].split()[-1]: each["total_ns"] for each in one.evidence["lines"]}
    assert told["pairs"] + told["fetch"] == pytest.approx(one.cost_ns * 3, rel=0.01)
    assert told["pairs"] / told["fetch"] == pytest.approx(627 / 450), "as that of the forward pass is"


def test_operators_of_the_backward_pass_are_small_whatever_stands_around_them(make, steps) -> None:
    """Autograd's own bookkeeping around an operator of 6 µs takes longer than that."""

    def content(step, at):
        events = []
        for i in range(60):
            start = at + i * 15_000
            name = "autograd::engine::evaluate_function: AddBackward0"
            events.append(make.event(name, Kind.HOST_OP, start, 14_000))
            events.append(make.event("AddBackward0", Kind.HOST_OP, start + 2_000, 11_000))
            events += [
                make.event("aten::add", Kind.HOST_OP, start + 4_000 + n * 4_000, 3_000) for n in (0, 1)
            ]
        return events

    one = only(steps(content), "small-kernels")
    assert one.evidence["per_step"] == 120
    assert one.evidence["most"] == [{"name": "aten::add", "calls": 360}]
    assert one.gain_ratio == pytest.approx(0.9, abs=0.02)


def test_small_operators_that_nothing_links_to_the_forward_pass_stay_where_they_ran(make, steps) -> None:
    (one,) = of(sampled_by(steps(small_and_backward(make, linked=False)), stands), "small-kernels")
    assert (one.place["line"], one.place["function"]) == (3, "main")


@pytest.mark.parametrize(("cell", "each", "line"), [(50_000, 2_000, 9), (200_000, 1_000, None)])
def test_looks_at_the_stack_between_small_operators_are_looks_at_them(make, steps, cell, each, line) -> None:
    """Looks come when an operator lets another thread in, and keep the next one waiting for some 30 µs.

    A gap that no look explains is no part of calling operators, and nor is the line that is seen in it.
    """

    ops = 120 * cell // STEP

    def content(step, at):
        return [
            make.event("aten::add", Kind.HOST_OP, at + start + 10_000 + number * each * 3 // 2, each)
            for start in range(0, STEP, cell)
            for number in range(ops)
        ]

    # By the rule alone: advice has one finding for these and the time between them.
    (one,) = RULES["small-kernels"].check(sampled_by(steps(content), lambda time: 1))
    assert one.evidence["per_step"] == 120
    assert one.place.get("line") == line
    # The looks are the profiler's, and no part of the cost.
    assert one.cost_ns == STEP // cell * (ops * each * 3 // 2 - each // 2)


def sync(make, *, after: int):
    """A read in the middle of the step; the second kernel is launched so long after it."""

    def content(step, at):
        return [
            *kernel(make, at + 5_000, 400_000, number=2 * step, call_at=at + 2_000),
            make.event("aten::item", Kind.HOST_OP, at + 10_000, 396_000),
            make.event("cudaStreamSynchronize", Kind.RUNTIME_CALL, at + 11_000, 394_500),
            make.event("aten::mm", Kind.HOST_OP, at + 407_000, after),
            *kernel(
                make, at + 408_000 + after, 400_000, number=2 * step + 1, call_at=at + 407_000 + after - 20
            ),
            make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, at + 408_500 + after, 400_000),
        ]

    return content


def test_a_wait_after_which_the_device_runs_dry(make, steps) -> None:
    finding = only(steps(sync(make, after=150_000)), "sync-points")
    assert finding.gain_ratio == pytest.approx(0.17, abs=0.04)
    assert "aten::item" in [call["operator"] for call in finding.evidence["calls"]]


def test_a_wait_that_nothing_follows_is_harmless(make, steps) -> None:
    assert not found(steps(lambda step, at: device_bound(make, step, at)), "sync-points")


def test_values_that_are_read_one_by_one_on_a_host(make, steps) -> None:
    def content(step, at):
        return [make.event("aten::item", Kind.HOST_OP, at + i * 10_000, 2_000) for i in range(60)]

    finding = only(steps(content), "sync-points")
    assert finding.evidence["reads_per_step"] == 60
    assert "60 a step" in finding.summary
    assert not found(
        steps(lambda step, at: [make.event("aten::item", Kind.HOST_OP, at, 2_000)]), "sync-points"
    )


@pytest.mark.parametrize(
    ("sampled_at", "line"),
    [
        pytest.param(30_000, 9, id="in the loop, between two reads"),
        pytest.param(4_000_000, None, id="after the loop, which says nothing about it"),
    ],
)
def test_the_line_of_reads_that_no_sample_hits(make, sampled_at: int, line: int | None) -> None:
    """Each read lasts 5 µs, and the next follows 55 µs later."""
    step_ns, events = 8 * STEP, []
    for step in range(3):
        at = step * step_ns
        events.append(make.event(f"ProfilerStep#{step}", Kind.STEP, at, step_ns, step=step))
        events += [make.event("aten::item", Kind.HOST_OP, at + i * 60_000, 5_000) for i in range(60)]
    times = np.sort(np.concatenate([np.arange(3) * step_ns + sampled_at + i * 60_000 for i in range(15)]))
    length = np.full(len(times), 10_000)
    samples = Samples(
        0,
        times,
        times + length,
        length,
        np.zeros(len(times), int),
        ((0, 1),),
        (MAIN, FETCH),
        "/u",
        (0,),
        10_000,
    )
    facts = Facts(make.build(events))
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    (one,) = of(facts, "sync-points")
    assert one.place.get("line") == line


def optimizer(make, name: str):
    def content(step, at):
        return [
            make.event("Optimizer.step#Adam.step", Kind.HOST_OP, at, 500_000),
            *[make.event(name, Kind.HOST_OP, at + 100 + i * 8_000, 4_000) for i in range(60)],
            make.event("aten::mm", Kind.HOST_OP, at + 500_000, 490_000),
        ]

    return content


def test_an_optimizer_that_updates_parameter_by_parameter(make, steps) -> None:
    finding = only(steps(optimizer(make, "aten::add_")), "unfused-optimizer")
    assert finding.evidence["operators_per_step"] == 60
    assert "fused=True" in finding.action
    assert not found(steps(optimizer(make, "aten::_foreach_add_")), "unfused-optimizer")


def test_the_python_between_an_optimizers_operators_is_the_optimizers(make, steps) -> None:
    def content(step, at):
        return [
            make.event("Optimizer.step#Adam.step", Kind.ANNOTATION, at, 600_000),
            *[make.event("aten::add_", Kind.HOST_OP, at + 100 + i * 8_000, 4_000) for i in range(60)],
            make.event("aten::mm", Kind.HOST_OP, at + 600_000, 390_000),
        ]

    finding = only(steps(content), "unfused-optimizer")
    assert finding.evidence["optimizer_ns"] == 600_000
    assert finding.gain_ratio == pytest.approx(0.6, abs=0.01)


# --- what the device does
# --------------------------------------------------------------------------------------


def exchanging(make, share: float, *, hidden: bool = False):
    def content(step, at):
        split = int((1 - share) * STEP) - 20_000
        lane = {"stream": 9, "lane": "comm"} if hidden else {"stream": 7, "lane": "gpu"}
        begin = at + 6_000 if hidden else at + 5_000 + split
        length = split if not hidden else 940_000
        return [
            make.event("cudaLaunchKernel", Kind.RUNTIME_CALL, at + 10, 10, correlation=2 * step),
            make.event(
                "k", Kind.KERNEL, at + 5_000, length, lane="gpu", device=0, stream=7, correlation=2 * step
            ),
            make.event("cudaLaunchKernel", Kind.RUNTIME_CALL, at + 30, 10, correlation=2 * step + 1),
            make.event(
                "ncclKernel_AllReduce",
                Kind.COLLECTIVE,
                begin,
                int(share * STEP),
                device=0,
                correlation=2 * step + 1,
                **lane,
            ),
            make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, at + 100, 985_000),
        ]

    return content


def test_an_exchange_that_takes_most_is_not_called_one_to_make_faster(make, steps) -> None:
    one = only(steps(exchanging(make, 0.7)), "expensive-operation")
    assert one.summary.startswith("ncclKernel_AllReduce takes 7")
    assert one.action == (
        "the time of an exchange includes waiting for other ranks, which one rank's profile cannot show: "
        "stepscope ranks can, with the profiles of all ranks"
    )
    together = only(job(make, {0: 100_000, 1: 700_000}), "expensive-operation")
    assert together.action.endswith("stepscope ranks says how much")
    computing = only(steps(exchanging(make, 0.2)), "expensive-operation")
    assert computing.summary.startswith("k takes 80%")
    assert computing.action.startswith("the operation that takes most is where a faster version gains most")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("aten::add_", ", a fused or foreach optimizer,"),
        ("aten::_foreach_add_", ", a fused optimizer,"),
        ("aten::_fused_adamw_", "larger batches, fewer"),
    ],
)
def test_an_optimizer_is_to_be_fused_where_it_is_not_and_costs_something(make, steps, name, told) -> None:
    def content(step, at):
        within = [make.event(name, Kind.HOST_OP, at + 510_000 + 10_000 * n, 9_000) for n in range(10)]
        return [
            make.event("aten::mm", Kind.HOST_OP, at + 10_000, 400_000),
            make.event("Optimizer.step#SGD.step", Kind.HOST_OP, at + 500_000, 150_000),
            *within,
            *kernel(make, at + 900_000, 50_000, number=step, call_at=at + 890_000),
        ]

    (one,) = [each for each in advise(Facts(steps(content))).findings if each.rule == "host-bound"]
    assert told in one.action
    assert "recording stacks" not in " ".join(one.chain), "none were recorded"


def test_python_within_an_operator_is_pythons_wherever_the_operator_is_called_from(make, steps) -> None:
    """As a custom operator written in Python: frame, operator, frame, operator."""

    def content(step, at):
        return [
            make.event("model.py(1): forward", Kind.PYTHON_FRAME, at, 900_000),
            make.event("vllm::moe_forward", Kind.HOST_OP, at + 100_000, 800_000),
            make.event("moe.py(7): run", Kind.PYTHON_FRAME, at + 110_000, 780_000),
            make.event("aten::mm", Kind.HOST_OP, at + 200_000, 100_000),
            *kernel(make, at + 950_000, 40_000, number=step, call_at=at + 250_000),
        ]

    (one,) = [each for each in advise(Facts(steps(content))).findings if "untraced_ns" in each.evidence]
    assert one.rule == "python-overhead"
    assert one.evidence["python_ns"] == pytest.approx(100_000 + 680_000, abs=1_000)
    assert one.evidence["operators_ns"] == pytest.approx(20_000 + 100_000, abs=1_000)
    assert one.chain[-1] == "recording stacks slows Python down: confirm this without stacks"


@pytest.mark.parametrize(("share", "severity"), [(0.01, None), (0.15, "medium"), (0.4, "high")])
def test_communication_that_nothing_hides(make, steps, share: float, severity: str | None) -> None:
    findings = found(steps(exchanging(make, share)), "communication-bound")
    assert [one.severity for one in findings] == ([severity] if severity else [])
    if findings:
        assert findings[0].evidence["exposed_communication_ratio"] == pytest.approx(share, abs=0.01)
    assert not found(steps(exchanging(make, share, hidden=True)), "communication-bound")


def job(make, late: dict[int, int], *, buckets: int = 1):
    """Ranks that meet in an exchange, or several at once; each comes to it as late as it is told."""
    events, tables = [], {"row": [], "operation": [], "group": [], "sequence": []}
    for rank in late:
        for step in range(3):
            at = step * STEP
            arrive, end = at + late[rank], at + max(late.values()) + 20_000
            events += [
                make.event(f"ProfilerStep#{step}", Kind.STEP, at, STEP, rank=rank, step=step),
                make.event("aten::mm", Kind.HOST_OP, at + 100, arrive - at - 200, rank=rank),
                make.event(
                    "cudaLaunchKernel", Kind.RUNTIME_CALL, arrive - 90, 10, rank=rank, correlation=step
                ),
                *(
                    make.event(
                        "ncclDevKernel_AllReduce",
                        Kind.COLLECTIVE,
                        arrive + n,
                        end - arrive,
                        lane=f"gpu{n}",
                        rank=rank,
                        device=0,
                        stream=7 + n,
                        correlation=step,
                    )
                    for n in range(buckets)
                ),
                make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, arrive + 100, end - arrive, rank=rank),
            ]
    trace = make.build(events)
    rows = [int(row) for row in trace.of_kind(Kind.COLLECTIVE)]
    tables = {
        "row": rows,
        "operation": ["all_reduce"] * len(rows),
        "group": ["world"] * len(rows),
        "sequence": [3 * n + step for _ in late for n in range(buckets) for step in range(3)],
        "state": [3] * len(rows),
    }
    return make.build(events, tables={"collectives": tables})


def meetings(make, arrivals, *, host: str = "", ring_ns: int = 0):
    """Two ranks that meet in one exchange a step; each of a rank's ends comes so much after the other's."""
    events = []
    for step, arrived in enumerate(arrivals):
        for rank, late in enumerate(arrived):
            at = 2 * step * STEP
            arrive, end = at + late, at + max(arrived) + 50_000 + rank * ring_ns
            events += [
                make.event(f"ProfilerStep#{step}", Kind.STEP, at, 2 * STEP, rank=rank, step=step),
                make.event("aten::mm", Kind.HOST_OP, at + 100, late - 200, rank=rank),
                make.event("gloo:all_reduce", Kind.COLLECTIVE, arrive, end - arrive, rank=rank, lane="gloo"),
            ]
    trace = make.build(events)
    rows = [int(row) for row in trace.of_kind(Kind.COLLECTIVE)]
    count = len(arrivals)
    tables = {
        "row": rows, "operation": ["all_reduce"] * len(rows), "group": ["world"] * len(rows),
        "sequence": [step for _ in (0, 1) for step in range(count)], "state": [3] * len(rows),
    }  # fmt: skip
    made = make.build(events, tables={"collectives": tables})
    sources = tuple(
        Source(path=f"rank{n}.json", format="kineto", rank=n, events=9, host=host) for n in (0, 1)
    )
    return replace(made, sources=sources, clock="unix")


EARLY, LATE = 100_000, 900_000


def test_a_rank_is_accused_where_it_comes_last_more_often_than_by_chance(make) -> None:
    always = meetings(make, [(EARLY, LATE)] * 6, host="a")
    assert only(always, "slow-rank").place["rank"] == 1
    in_turn = [(EARLY, 300_000), (300_000, EARLY)] * 3
    by_chance = meetings(make, [*in_turn, (EARLY, 4 * LATE), (EARLY, 4 * LATE)], host="a")
    assert not found(by_chance, "slow-rank"), "two long waits are most of all waiting"


def test_ranks_of_one_host_are_compared_however_far_apart_they_leave_an_exchange(make) -> None:
    """As those of Gloo's rings do."""
    apart = {"arrivals": [(EARLY, LATE)] * 4, "ring_ns": 700_000}
    assert only(meetings(make, **apart, host="a"), "slow-rank").place["rank"] == 1
    elsewhere = meetings(make, **apart)
    assert not found(elsewhere, "slow-rank")
    assert "clocks that disagree" in missing(elsewhere, "slow-rank")


def test_a_rank_that_the_others_wait_for(make) -> None:
    advice = advise(Facts(job(make, {0: 100_000, 1: 700_000})))
    first = advice.findings[0]
    assert (first.rule, first.place["rank"]) == ("slow-rank", 1)
    assert first.gain_ratio == pytest.approx(0.6, abs=0.02)
    # What the others wait for in the exchange is that rank, not the network.
    assert not [one for one in advice.findings if one.rule == "communication-bound"]
    assert any("device waits for the host" in line for line in first.chain)


def test_a_late_rank_is_worth_no_more_than_the_next_one_leaves(make) -> None:
    """Others wait for it 600 or 100 µs: once it works like them, the one that comes next holds them up."""
    trace = job(make, {0: 100_000, 1: 600_000, 2: 700_000})
    first = advise(Facts(trace)).findings[0]
    assert (first.rule, first.place["rank"], first.gain_from) == ("slow-rank", 2, "bound")
    assert first.cost_ns == pytest.approx(350_000, abs=1_000)
    assert first.gain_ns == pytest.approx(100_000, abs=1_000)
    assert first.command.startswith("stepscope ranks ")


def test_a_rank_that_comes_last_by_nothing_is_not_accused(make) -> None:
    """Two of four come late: without the later one a step would be 1 % shorter."""
    assert not found(job(make, {0: 100_000, 1: 100_000, 2: 690_000, 3: 700_000}), "slow-rank")


def test_the_line_in_which_the_late_rank_is_meanwhile_is_named(make) -> None:
    trace = job(make, {0: 100_000, 1: 700_000})
    lane = int(trace.lane[trace.steps.row[trace.steps.rank == 1][0]])
    facts = sampled_by(trace, lambda time: 4 if time % STEP > 100_000 else 0)
    facts.__dict__["sampled"] = {1: Sampled(replace(facts.sampled[0].samples, lane=lane))}
    (one,) = of(facts, "slow-rank")
    assert (one.place["rank"], one.place["file"], one.place["line"]) == (1, "model.py", 30)
    assert one.summary.endswith("a step; before them it is in model.py:30 pairs")
    assert "file" not in only(job(make, {0: 100_000, 1: 700_000}), "slow-rank").place, "no stacks, no line"


def test_exchanges_that_are_waited_for_at_once_cost_no_more_than_the_step(make) -> None:
    """As the buckets of data-parallel training are: four waits of 600 µs, all from 100 to 700 µs."""
    one = advise(Facts(job(make, {0: 100_000, 1: 700_000}, buckets=4))).findings[0]
    assert (one.rule, one.place["rank"], one.evidence["collectives"]) == ("slow-rank", 1, 12)
    assert one.gain_ratio == pytest.approx(0.6, abs=0.02)
    assert one.evidence["waiting"] == [{"rank": 0, "wait_ns": pytest.approx(600_000, abs=100)}]


def test_ranks_that_come_together_have_no_slow_one(make) -> None:
    assert not found(job(make, {0: 700_000, 1: 705_000}), "slow-rank")


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("volta_sgemm_128x64_nn", True),
        ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>", True),
        ("ampere_sgemm_32x128_tn", True),
        ("cutlass_80_simt_sgemm_128x64_8x5_nn_align1", True),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16", True),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1", False),
        ("ampere_bf16_s16816gemm_bf16_128x128", False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", False),
        ("cutlass_80_tensorop_s1688gemm_128x256", False),
        ("volta_fp16_s884gemm_fp16_128x64", False),
        ("turing_h1688gemm_256x64", False),
    ],
)
def test_kernel_names_tell_their_precision(name: str, full: bool) -> None:
    assert is_full_precision(name) is full


@pytest.mark.parametrize(("capability", "hint"), [("7.0", "no TF32"), ("8.0", "allow TF32"), ("6.1", None)])
def test_dtype_hints_fit_the_device(make, steps, capability: str, hint: str | None) -> None:
    trace = steps(
        lambda step, at: device_bound(make, step, at, name="volta_sgemm_128x64_nn"),
        devices=(Device(rank=0, index=0, name="a", capability=capability),),
    )
    findings = found(trace, "dtype-hints")
    assert [hint in one.action for one in findings] == ([True] if hint else [])


@pytest.mark.parametrize(
    ("types", "said"), [('["c10::BFloat16", "c10::BFloat16"]', False), ('["float", "float"]', True)]
)
def test_recorded_types_have_the_last_word_on_precision(make, steps, types: str, said: bool) -> None:
    def content(step, at):
        return [
            make.event("aten::mm", Kind.HOST_OP, at + 4_000, 1_900),
            *device_bound(make, step, at, name="Cijk_Ailk_Bljk_SB_MT64x64x16"),
        ]

    plain = steps(content)
    rows = [int(row) for row in plain.named("aten::mm")]
    trace = steps(content, tables={"operators": {"row": rows, "types": [types] * 3}})
    assert bool(found(trace, "dtype-hints")) is said


def test_products_that_the_step_does_not_wait_for_gain_nothing(make, steps) -> None:
    def content(step, at):
        return [
            make.event("aten::mm", Kind.HOST_OP, at, 980_000),
            *kernel(make, at + 100_000, 300_000, number=step, name="volta_sgemm_128x64_nn"),
        ]

    assert not found(steps(content), "dtype-hints")


def test_layout_conversions(make, steps) -> None:
    def content(step, at):
        return device_bound(make, step, at, name="void nchwToNhwcKernel<float>" if step == 0 else "k")

    finding = only(steps(content), "operation")
    assert finding.evidence["conversion_ratio"] == pytest.approx(1 / 3)
    assert not found(steps(lambda step, at: device_bound(make, step, at)), "operation")


def test_pageable_copies_that_the_step_waits_for(make, steps) -> None:
    def content(step, at, where="Pageable"):
        return [
            make.event("cudaMemcpyAsync", Kind.RUNTIME_CALL, at + 1_000, 160_000, correlation=2 * step),
            make.event(
                f"Memcpy HtoD ({where} -> Device)",
                Kind.MEMCPY,
                at + 5_000,
                150_000,
                lane="gpu",
                device=0,
                stream=7,
                bytes=1000,
                correlation=2 * step,
            ),
            *kernel(make, at + 170_000, 800_000, number=2 * step + 1, call_at=at + 165_000),
            make.event("cudaDeviceSynchronize", Kind.RUNTIME_CALL, at + 166_000, 810_000),
        ]

    finding = only(steps(content), "pageable-copies")
    assert finding.evidence["pageable_ratio"] == pytest.approx(0.15)
    assert finding.evidence["moved_bytes"] == 3000
    assert finding.gain_ratio == pytest.approx(0.15, abs=0.02)
    assert not found(steps(lambda step, at: content(step, at, "Pinned")), "pageable-copies")


# --- memory, variation, utilisation, the most expensive
# -----------------------------------------------------------


@pytest.mark.parametrize(("held", "severity"), [(80, None), (92, "medium"), (99, "high")])
def test_memory_near_limit(make, steps, held: int, severity: str | None) -> None:
    trace = steps(
        lambda step, at: device_bound(make, step, at),
        devices=(Device(rank=0, index=0, name="a", memory_bytes=100),),
        recorded={"timeline", "steps", "device", "launches", "memory"},
        memory=[
            {
                "time_ns": 5,
                "address": 1,
                "device": 0,
                "action": MemoryAction.ALLOCATE,
                "bytes": held,
                "allocated_bytes": held,
            }
        ],
    )
    assert [one.severity for one in found(trace, "memory-near-limit")] == ([severity] if severity else [])


def test_memory_near_limit_shows_what_allocated_on_that_device(make, steps) -> None:
    def allocated(row, device, held):
        return {
            "time_ns": 5 + row, "address": 1 + row, "device": device, "action": MemoryAction.ALLOCATE,
            "bytes": held, "allocated_bytes": held, "row": row,
        }  # fmt: skip

    trace = steps(
        lambda step, at: device_bound(make, step, at),
        devices=tuple(Device(rank=0, index=index, name="a", memory_bytes=100) for index in (0, 1)),
        recorded={"timeline", "steps", "device", "launches", "memory"},
        memory=[allocated(1, 0, 10), allocated(2, 1, 95)],
    )
    finding = only(trace, "memory-near-limit")
    assert finding.evidence["device"] == 1
    assert [each["row"] for each in finding.events] == [2]


def test_what_a_late_rank_waits_for_is_told_with_it_and_its_communication_is_not_a_cause() -> None:
    def one(rule, rank, gain):
        return Finding(rule, "medium", f"{rule} of {rank}", {}, {}, "", gain_ns=gain, place={"rank": rank})

    late = one("slow-rank", 1, 9)
    mine, other = one("input-bound", 1, 5), one("input-bound", 0, 7)
    findings = [mine, one("communication-bound", 0, 8), other, one("slow-rank", 0, 6), late]
    rest = _under(late, findings)
    assert rest[:-1] == [mine, other]
    assert rest[-1].rule == "slow-rank"
    assert rest[-1].chain == [_short(mine)]
    assert _under(late, [other, late]) == [other, late]


def test_memory_near_limit_says_what_it_lacks(make, steps) -> None:
    trace = steps(lambda step, at: device_bound(make, step, at))
    assert "allocations" in missing(trace, "memory-near-limit")


def varied(make, longest: float, *, what: str = ""):
    lengths = [STEP, STEP, STEP, int(longest * STEP)]

    def content(step, at):
        events = [make.event("aten::mm", Kind.HOST_OP, at, STEP - 10)]
        more = lengths[step] - STEP
        if what and more:
            events.append(make.event(what, Kind.OVERHEAD, at + STEP, more - 10))
        elif more:
            events.append(make.event("aten::add", Kind.HOST_OP, at + STEP, more - 10))
        return events

    return content, lengths


@pytest.mark.parametrize(("longest", "severity"), [(1.1, None), (1.5, "medium"), (2.5, "high")])
def test_step_variation(make, steps, longest: float, severity: str | None) -> None:
    content, lengths = varied(make, longest)
    trace = steps(content, count=4, lengths=lengths)
    assert [one.severity for one in found(trace, "step-variation")] == ([severity] if severity else [])


def test_what_the_profiler_did_at_a_steps_end_is_not_the_steps(make, steps) -> None:
    content, lengths = varied(make, 2.5, what="Activity Buffer Request")
    assert not found(steps(content, count=4, lengths=lengths), "step-variation")


def test_an_empty_tail_after_the_last_event_is_not_the_steps(make, steps) -> None:
    def content(step, at):
        return [make.event("aten::mm", Kind.HOST_OP, at, STEP - 10)]

    assert not found(steps(content, count=4, lengths=[STEP, STEP, STEP, 80 * STEP]), "step-variation")


def test_two_steps_are_too_few_to_vary(make, steps) -> None:
    trace = steps(
        lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 9)], count=2, lengths=[STEP, 2 * STEP]
    )
    assert not found(trace, "step-variation")
    assert missing(trace, "step-variation").startswith("fewer than 3 marked steps")


def test_an_idle_accelerator_is_a_symptom_of_what_was_found(make, steps) -> None:
    advice = advise(Facts(steps(loading(make, 0.8))))
    assert advice.findings[0].rule == "input-bound"
    assert "accelerator-utilization" not in [one.rule for one in advice.findings]
    assert advice.findings[0].chain[0].startswith("no device works for 80% of the steps")


def test_an_idle_accelerator_without_a_cause_is_said(make, steps) -> None:
    trace = steps(
        lambda step, at: [make.event("k", Kind.KERNEL, at, 300_000, lane="gpu", device=0, stream=7)]
    )
    finding = only(trace, "accelerator-utilization")
    assert finding.evidence["utilization_ratio"] == pytest.approx(0.3)


def test_the_most_expensive_are_named_as_shares_of_the_whole(make, steps) -> None:
    trace = steps(
        lambda step, at: [
            make.event("mm", Kind.HOST_OP, at + 10, 300_000),
            make.event("add", Kind.HOST_OP, at + 500_000, 100_000),
        ]
    )
    finding = only(trace, "expensive-operation")
    assert [one["name"] for one in finding.evidence["operators"]] == ["mm", "add"]
    assert finding.evidence["operators"][0]["host_ratio"] == pytest.approx(0.3)


@pytest.mark.parametrize("wrapper", ["record_param_comms", "hipGraphLaunch", "cudaGraphLaunch"])
def test_wrappers_are_not_what_takes_the_time(make, steps, wrapper: str) -> None:
    def content(step, at):
        return [
            make.event(wrapper, Kind.HOST_OP, at + 1_000, 5_000),
            *kernel(
                make, at + 10_000, 900_000, number=step, call_at=at + 2_000, name="ncclDevKernel_AllReduce"
            ),
        ]

    assert only(steps(content), "expensive-operation").summary.startswith(
        "ncclDevKernel_AllReduce takes 100%"
    )


def test_waiting_is_not_what_takes_the_time(make, steps) -> None:
    def content(step, at):
        return [
            make.event("ThunkExecutor::Execute (wait for completion)", Kind.HOST_OP, at, 900_000),
            make.event("dot", Kind.HOST_OP, at + 900_000, 50_000),
        ]

    finding = only(steps(content, format="xplane"), "expensive-operation")
    assert finding.evidence["operators"][0]["name"] == "dot"
    assert finding.evidence["operators"][0]["host_ratio"] == pytest.approx(0.05)


def test_on_a_host_the_most_expensive_is_that_of_all_threads_as_the_views_have_it(make, steps) -> None:
    """Another thread computes 600 µs, of which the stepping one computes 100 beside it."""

    def content(step, at):
        return [
            make.event("small", Kind.HOST_OP, at, 200_000),
            make.event("large", Kind.HOST_OP, at + 100_000, 600_000, lane="pool"),
        ]

    finding = only(steps(content), "expensive-operation")
    assert [(one["name"], one["host_ns"]) for one in finding.evidence["operators"]] == [
        ("large", 500_000),
        ("small", 200_000),
    ]
    assert finding.summary == "large takes 50% of the steps"


def test_pieces_of_a_devices_work_are_launches_and_no_calls(make, steps) -> None:
    one = only(steps(lambda step, at: device_bound(make, step, at)), "expensive-operation")
    assert one.evidence["operators"][0]["launches"] == 3
    assert "calls" not in one.evidence["operators"][0]


# --- all of it together
# -------------------------------------------------------------------------------------------


def test_a_file_that_is_cut_short_is_not_judged(make, steps) -> None:
    advice = advise(Facts(steps(loading(make, 0.8), dropped={"cut_short": 1})))
    assert not advice.findings
    assert {one.rule for one in advice.abstained} == {name for name, rule in RULES.items() if rule.check}
    assert "cut short" in advice.as_dict()["caveats"][0]
    assert advice.text.startswith("not judged: the file is cut short")


def test_nothing_to_gain_is_said_with_what_was_judged(make, steps) -> None:
    advice = advise(Facts(steps(lambda step, at: device_bound(make, step, at))))
    assert [one.severity for one in advice.findings] == ["info"]
    assert advice.verdict.startswith("nothing to gain above 3%; judged: ")
    assert "sync-points" in advice.verdict
    assert advice.text.count("could not be judged:") == 1


def test_a_tfprof_profile_gets_tfprofs_rules_and_the_others_abstain() -> None:
    node = ProfileNode("BatchNorm/add", op="Add", types={"Add"})
    advice = advise(Facts(None, Profile(nodes={node.name: node})))
    assert [one.rule for one in advice.findings] == ["operation"]
    assert {one.rule for one in advice.abstained} >= {"input-bound", "host-bound", "accelerator-utilization"}
    assert (
        next(one for one in advice.abstained if one.rule == "input-bound").missing == "no timeline of events"
    )


def test_the_json_has_exactly_the_agreed_keys(make, steps) -> None:
    advice = advise(Facts(steps(loading(make, 0.4)))).as_dict()
    assert set(advice) == {"findings", "abstained", "judged", "caveats", "verdict"}
    for finding in advice["findings"]:
        assert list(finding) == [
            "rule",
            "severity",
            "summary",
            "evidence",
            "threshold",
            "action",
            "cost_ns",
            "cost_ratio",
            "gain_ns",
            "gain_ratio",
            "gain_from",
            "place",
            "chain",
            "events",
            "command",
            "withdrawn",
        ]
    for abstention in advice["abstained"]:
        assert list(abstention) == ["rule", "missing"]


def test_without_any_rule_nothing_was_judged() -> None:
    assert Advice([], []).text == "nothing could be judged\n"


def test_where_no_wait_could_be_judged_nothing_is_said_to_be_gained_or_not(make, steps) -> None:
    """Calls of the operating system alone, as some recordings hold them."""
    calls = [make.event(("poll", "read")[i % 2], Kind.OTHER, i * 1_000, 900) for i in range(40)]
    verdict = advise(Facts(make.build(calls, format="nsys"))).verdict
    assert verdict == "what the steps waited for could not be judged; judged: expensive-operation"
    busy = steps(lambda step, at: device_bound(make, step, at))
    assert advise(Facts(busy)).verdict.startswith("nothing to gain above 3%; judged: ")


def test_ranks_with_one_problem_are_one_finding(make) -> None:
    events = []
    for rank, share in ((0, 0.2), (1, 0.5), (2, 0.0)):
        events.append(make.event("ProfilerStep#0", Kind.STEP, 0, STEP, rank=rank, step=0))
        loaded = int(share * STEP)
        if loaded:
            events.append(make.event("next", Kind.DATA_LOADING, 0, loaded, rank=rank))
        events.append(make.event("aten::mm", Kind.HOST_OP, loaded, STEP - loaded, rank=rank))
    finding = only(make.build(events), "input-bound")
    assert finding.summary.startswith("rank 1, the worst of 2 of 3: ")
    assert (finding.severity, finding.place["rank"]) == ("high", 1)
    assert [one["rank"] for one in finding.evidence["next"]] == [0]


NASTY = "void at::native::k<4, float>(int, char*) it's $HOME `x`"


def test_printed_commands_run_as_they_stand(make, steps) -> None:
    trace = steps(lambda step, at: device_bound(make, step, at, name=NASTY))
    finding = next(
        one
        for one in advise(Facts(trace, path="/data/my run's/t.json")).findings
        if one.rule == "expensive-operation"
    )
    words = shlex.split(finding.command)
    assert words[:4] == ["stepscope", "profile", "kernel", "/data/my run's/t.json"]


def test_threads_of_xla_are_the_device_of_a_host(make, steps) -> None:
    """Loading while XLA's own threads compute costs nothing."""

    def content(step, at):
        return [
            make.event("data_loading", Kind.DATA_LOADING, at, 400_000),
            make.event("PjitFunction(step)", Kind.HOST_OP, at + 400_000, 20_000),
            make.event("dot", Kind.HOST_OP, at, 980_000, lane="tf_XLAPjRtCpuClient/1"),
            make.event("ThunkExecutor::Execute (wait for completion)", Kind.HOST_OP, at + 420_000, 570_000),
        ]

    assert not found(steps(content, format="xplane"), "input-bound")
    assert Lane(rank=0, process="p", thread="tf_XLAPjRtCpuClient/1").device == -1


# --- by sampled stacks ---------------------------------------------------------------------------------


MAIN, FETCH, LIBRARY = (
    "/u/train.py(3): main",
    "/u/train.py(9): fetch",
    "/v/site-packages/keras/trainer.py(7): fit",
)
VALIDATE, PAIRS = "/u/train.py(20): validate", "/u/model.py(30): pairs"
MS = 1_000_000


def sampled_by(trace, at, *, cpu: float = 1.0, around=(0,), every: int = MS // 20, last=3 * STEP) -> Facts:
    """Return facts with samples from 0 to 3 ms, or so far; ``at`` gives the stack of a time."""
    times = np.arange(0, last, every)
    stacks = ((0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 2, 1), (0, 1, 4))
    frames, stood = (MAIN, LIBRARY, FETCH, VALIDATE, PAIRS), np.array([at(int(time)) for time in times])
    ran = np.full(len(times), round(cpu * every))
    samples = Samples(0, times, times + every, ran, stood, stacks, frames, "/u", around, every)
    facts = Facts(trace)
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    return facts


def of(facts: Facts, rule: str) -> list[Finding]:
    return [one for one in advise(facts).findings if one.rule == rule]


def short_steps(make, content=lambda step, at: []):
    """Steps of 0.4 ms that begin every 1 ms."""
    events = []
    for step in range(3):
        at = step * STEP
        events.append(make.event(f"ProfilerStep#{step}", Kind.STEP, at, 400_000, step=step))
        events.append(make.event("aten::mm", Kind.HOST_OP, at + 1_000, 380_000))
        events += content(step, at)
    return make.build(events)


def test_time_between_steps_has_its_line(make) -> None:
    facts = sampled_by(short_steps(make), lambda time: 1 if time % STEP >= 400_000 else 0)
    (one,) = of(facts, "between-steps")
    assert one.summary.startswith("between the steps 600 µs of 1.00 ms a step pass in train.py:9 fetch; ")
    assert one.place["line"] == 9
    assert one.gain_ratio == pytest.approx(0.6, abs=0.01)
    assert one.command == "stepscope advise rank0.json --lines --profile"


def test_evaluation_between_steps_is_called_so(make) -> None:
    facts = sampled_by(short_steps(make), lambda time: 2 if time % STEP >= 400_000 else 0)
    (one,) = of(facts, "evaluation")
    assert one.summary.startswith(
        "the program evaluates the model between the steps for 600 µs of 1.00 ms a step"
    )
    assert not of(facts, "between-steps")


def trained_and_scored(make, *, first: int, numbered=False, within="", between=False):
    """Steps of forward, backward and a call of the model without gradients, which begins at ``first``."""
    events, sequence = [], []
    for step in range(3):
        at = step * STEP
        length = 500_000 if between else 1_000_000
        events.append(make.event(f"ProfilerStep#{step}", Kind.STEP, at, length, step=step))
        if within:
            events.append(make.event(within, Kind.HOST_OP, at + first - 1_000, 303_000))
        for start, grad in ((at + 100_000, True), (at + first, numbered)):
            events.append(make.event("nn.Module: Net", Kind.MODULE_SCOPE, start, 300_000))
            events.append(make.event("nn.Module: 0", Kind.MODULE_SCOPE, start + 1_000, 298_000))
            events.append(make.event("aten::mm", Kind.HOST_OP, start + 5_000, 290_000))
            sequence.append((start + 5_000, 7 if grad else -1))
        back = "autograd::engine::evaluate_function: MmBackward0"
        events.append(make.event(back, Kind.HOST_OP, at + 410_000, 80_000))
    built = make.build(events)
    rows = {int(built.start_ns[row]): int(row) for row in np.flatnonzero(built.kind == Kind.HOST_OP)
            if built.name_of(int(row)) == "aten::mm"}  # fmt: skip
    order = sorted((rows[start], number) for start, number in sequence)
    table = {"row": [row for row, _ in order], "sequence": [number for _, number in order]}
    return make.build(events, tables={"operators": table})


def test_forward_passes_without_gradients_after_the_backward_pass_are_an_evaluation(make) -> None:
    """Whatever its function is called."""
    one = only(trained_and_scored(make, first=600_000), "evaluation")
    assert one.summary.startswith(
        "the step evaluates the model, forward passes without gradients after the backward pass, for 300 µs "
        "of 1.00 ms a step"
    )
    assert one.evidence["without_gradients_ns"] == 300_000
    one = only(trained_and_scored(make, first=600_000, between=True), "evaluation")
    assert one.summary.startswith("the program evaluates the model between the steps for 300 µs of 1.00 ms")


def test_a_teacher_a_penalty_and_recomputed_activations_are_no_evaluation(make) -> None:
    assert not found(trained_and_scored(make, first=0), "evaluation"), "it comes before the backward pass"
    assert not found(trained_and_scored(make, first=600_000, numbered=True), "evaluation")
    recomputed = trained_and_scored(make, first=600_000, within="CheckpointFunctionBackward")
    assert not found(recomputed, "evaluation")


def programs(make, *, first: int, line="net.py(7): apply", gradients=False):
    """Steps in which XLA's thread trains with one program and runs another one from ``first`` on."""
    events, told = [], []
    thread = {"lane": "tf_XLAPjRtCpuClient/1"}
    for step in range(3):
        at = step * STEP
        events.append(make.event("train", Kind.STEP, at, STEP, step=step))
        events.append(make.event("PjitFunction(other)", Kind.HOST_OP, at + 50, 100))
        for start, module, scope, where in (
            (at + 100_000, "jit_update", "jit(update)/jvp()/dot_general", "net.py(7): apply"),
            (at + 250_000, "jit_update", "jit(update)/transpose(jvp())/dot_general", "net.py(7): apply"),
            (at + first, "jit_other", f"jit(other)/{'jvp()/' * gradients}dot_general", line),
        ):
            events.append(make.event("dot", Kind.HOST_OP, start, 100_000 if start < at + 400_000 else 300_000,
                                     **thread))  # fmt: skip
            told.append((start, module, scope, where))
    built = make.build(events, format="xplane")
    rows = {int(built.start_ns[row]): int(row) for row in range(len(built)) if built.name_of(row) == "dot"}
    order = sorted((rows[start], *rest) for start, *rest in told)
    names = ("row", "module", "framework", "line")
    table = dict(zip(names, map(list, zip(*order, strict=True)), strict=True))
    return make.build(events, format="xplane", tables={"instructions": {**table, "calls": [1] * len(order)}})


def test_a_program_of_the_models_lines_without_gradients_is_an_evaluation(make) -> None:
    one = only(programs(make, first=500_000), "evaluation")
    assert one.summary.startswith(
        "the step evaluates the model, forward passes without gradients after the backward pass, for 300 µs"
    )
    assert not found(programs(make, first=500_000, line="data.py(3): mixed"), "evaluation"), "other lines"
    assert not found(programs(make, first=0), "evaluation"), "the step may need its answer"
    assert not found(programs(make, first=500_000, gradients=True), "evaluation")


def test_a_function_that_runs_the_model_without_gradients_alone_is_the_evaluation(make) -> None:
    """What lies between its forward passes is a part of it; the loop is not, for it trains, too."""
    facts = sampled_by(trained_and_scored(make, first=600_000), lambda t: 4 if t % STEP >= 550_000 else 1)
    (one,) = of(facts, "evaluation")
    assert one.cost_ns == pytest.approx(450_000, abs=60_000)
    assert one.place["line"] == 30
    both = sampled_by(trained_and_scored(make, first=600_000), lambda t: 1)
    assert of(both, "evaluation")[0].cost_ns == 300_000


def test_steps_that_follow_each_other_have_nothing_between(steps, make) -> None:
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 900_000)])
    assert not of(Facts(trace), "between-steps")
    assert missing(trace, "between-steps") == "fewer than two gaps between steps that follow each other"


def test_a_pause_after_one_step_is_no_cost_of_every_step(make) -> None:
    at, events = 0, []
    for step, gap in enumerate([0, 0, 0, 50 * STEP, 0, 0]):
        events += [
            make.event(f"ProfilerStep#{step}", Kind.STEP, at, STEP, step=step),
            make.event("aten::mm", Kind.HOST_OP, at, 900_000),
        ]
        at += STEP + gap + 1000
    assert not of(Facts(make.build(events)), "between-steps")


def test_a_thread_that_waits_in_one_line_is_said_to(steps, make) -> None:
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 500_000)])
    facts = sampled_by(trace, lambda time: 1 if time % STEP >= 500_000 else 0, cpu=0.1)
    (one,) = of(facts, "blocking-call")
    assert one.summary.startswith(
        "the training thread waits for 500 µs of 1.00 ms a step in train.py:9 fetch; "
    )
    assert not of(facts, "python-overhead")


def test_a_thread_that_works_in_one_line_does_not_wait(steps, make) -> None:
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 500_000)])
    facts = sampled_by(trace, lambda time: 1 if time % STEP >= 500_000 else 0)
    assert not of(facts, "blocking-call")
    (one,) = of(facts, "python-overhead")
    assert one.summary.startswith(
        "the training thread runs its own code, outside the framework's operators, for 500 µs of 1.00 ms a "
        "step in train.py:9"
    )


@pytest.mark.parametrize(
    ("queued", "everywhere", "python_ns"),
    [
        (None, False, 500_000),
        (0.0, False, 500_000),
        (0.5, False, 250_000),
        (0.9, False, None),
        (0.9, True, 50_000),
    ],
)
def test_a_wait_for_a_processor_is_no_time_of_the_code_that_waits(
    steps, make, queued, everywhere, python_ns
) -> None:
    """Where the operators wait as much, Python is half of a step in which nothing waits."""
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 500_000)])
    facts = sampled_by(trace, lambda time: 1 if time % STEP >= 500_000 else 0)
    samples = facts.sampled[0].samples
    if queued is not None:
        length = np.where((samples.stack == 1) | everywhere, samples.end_ns - samples.start_ns, 0)
        samples = replace(samples, queued_ns=np.round(length * queued).astype(np.int64))
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    findings = of(facts, "python-overhead")
    assert [one.evidence["python_ns"] for one in findings] == ([] if python_ns is None else [python_ns])
    if findings:
        told = [line for line in findings[0].chain if line.startswith("the machine was busy: for ")]
        assert len(told) == bool(queued)


@pytest.mark.parametrize(("queued", "said"), [(None, None), (0.1, False), (0.5, True)])
def test_a_thread_that_waits_for_a_processor_is_said_to(steps, make, queued, said) -> None:
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 990_000)])
    facts = sampled_by(trace, lambda time: 0)
    if queued is not None:
        samples = facts.sampled[0].samples
        each = np.round((samples.end_ns - samples.start_ns) * queued).astype(np.int64)
        facts.__dict__["sampled"] = {0: Sampled(replace(samples, queued_ns=each))}
    advice = advise(facts)
    found = [one for one in advice.findings if one.rule == "busy-machine"]
    assert ("busy-machine" in advice.judged) == (queued is not None)
    assert bool(found) == bool(said)
    if said:
        assert found[0].summary == (
            "the training thread waited for a processor for 50.0 % of the steps (500 µs a step), "
            "while other threads or processes ran"
        )
        assert advice.verdict.startswith("nothing to gain above 3%")


def test_nothing_is_called_the_programs_code_without_a_stack_taken_in_it(steps, make) -> None:
    """Steps of 1 ms, sampled once each: no stack was taken in what lies between the operators."""
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 500_000)])
    facts = sampled_by(trace, lambda time: 1)
    count = len(trace.steps)
    samples = replace(
        facts.sampled[0].samples,
        start_ns=np.arange(count) * STEP - 600_000, end_ns=np.arange(count) * STEP + 400_000,
        runnable_ns=np.full(count, STEP), stack=np.ones(count, np.int64),
    )  # fmt: skip
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    assert not of(facts, "python-overhead")


@pytest.mark.parametrize(("stands", "said"), [(1, True), (0, False)])
def test_a_line_leads_by_what_was_sampled_of_the_time(steps, make, stands: int, said: bool) -> None:
    """A third of the Python has stacks, all in one line: the rest of it is not held against that line."""
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 850_000)])
    facts = sampled_by(trace, lambda time: 1)
    taken = np.arange(2 * len(trace.steps)) * STEP // 2 + 400_000
    samples = replace(
        facts.sampled[0].samples,
        start_ns=taken - STEP // 2, end_ns=taken, runnable_ns=np.full(len(taken), STEP // 2),
        stack=np.where(np.arange(len(taken)) % 2, stands, 0), interval_ns=STEP // 2,
    )  # fmt: skip
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    assert bool(of(facts, "python-overhead")) == said


@pytest.mark.parametrize(("queued", "said"), [(0.0, True), (0.99, False)])
def test_a_wait_for_a_processor_between_steps_is_no_cost_of_what_stands_there(make, queued, said) -> None:
    at, events = 0, []
    for step in range(6):
        events += [
            make.event(f"ProfilerStep#{step}", Kind.STEP, at, STEP, step=step),
            make.event("aten::mm", Kind.HOST_OP, at, 900_000),
        ]
        at += 2 * STEP
    trace = make.build(events)
    facts = sampled_by(trace, lambda time: 1 if time % (2 * STEP) >= STEP else 0, last=at)
    samples = facts.sampled[0].samples
    length = samples.end_ns - samples.start_ns
    samples = replace(samples, queued_ns=np.round(length * queued).astype(np.int64))
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    assert bool(of(facts, "between-steps")) == said


@pytest.mark.parametrize(
    ("name", "said"), [("Median", True), ("aten::median", False), ("MmBackward0", False)]
)
def test_python_that_autograd_calls_is_the_programs_own(steps, make, name: str, said: bool) -> None:
    def content(step, at):
        return [
            make.event("aten::mm", Kind.HOST_OP, at, 400_000),
            make.event(name, Kind.HOST_OP, at + 400_000, 590_000),
            make.event("aten::sub", Kind.HOST_OP, at + 900_000, 50_000),
        ]

    facts = sampled_by(steps(content, format="kineto"), lambda time: 1 if time % STEP >= 400_000 else 0)
    findings = of(facts, "python-overhead")
    assert bool(findings) == said
    if said:  # without what the operator within it takes
        assert findings[0].evidence["python_ns"] == pytest.approx(540_000, abs=60_000)
        assert " in train.py:9 fetch; " in findings[0].summary


def test_loading_within_an_evaluation_is_a_part_of_it(steps, make) -> None:
    def content(step, at):
        return [
            make.event("aten::mm", Kind.HOST_OP, at, 300_000),
            make.event("enumerate(DataLoader)#X.__next__", Kind.DATA_LOADING, at + 500_000, 400_000),
        ]

    def stood(evaluating: int):
        return sampled_by(steps(content), lambda time: evaluating if time % STEP >= 300_000 else 0)

    assert [one.rule for one in advise(stood(2)).findings if one.gain_ratio][:1] == ["evaluation"]
    assert not of(stood(2), "input-bound")
    assert of(stood(1), "input-bound")


def test_what_waits_within_an_operator_is_no_blocking_call(steps, make) -> None:
    trace = steps(lambda step, at: [make.event("gloo:all_reduce", Kind.HOST_OP, at, 980_000)])
    assert not of(sampled_by(trace, lambda time: 1, cpu=0.0), "blocking-call")


def test_compiled_code_that_calls_python_is_named(steps, make) -> None:
    def content(step, at):
        return [
            make.event("PjitFunction(step)", Kind.HOST_OP, at, 900_000),
            make.event("pure_callback.1", Kind.HOST_OP, at + 100_000, 300_000, lane="tf_XLAPjRtCpuClient/1"),
        ]

    (one,) = found(steps(content, format="xplane"), "host-callback")
    assert one.summary.startswith("compiled code calls Python (pure_callback.1) for 300 µs of 1.00 ms a step")
    assert not found(steps(lambda step, at: content(step, at)[:1], format="xplane"), "host-callback")


def test_lines_are_listed_with_their_share(make) -> None:
    facts = sampled_by(short_steps(make), lambda time: 1 if time % STEP >= 400_000 else 0)
    listed = lines_of(facts)
    assert {(one["file"], one["line"]) for one in listed} == {("train.py", 9), ("train.py", 3)}
    assert sum(one["ratio"] for one in listed) == pytest.approx(1, abs=0.02)
    assert "train.py:9 fetch" in lines_text(listed)
    assert lines_text(lines_of(Facts(short_steps(make)))).startswith("no line of the program's own code")


def loaded_by_a_worker(fetch: int, collate: int):
    """Steps of 1 ms that wait 0.6 ms for a worker that fetches and collates for so long."""

    def content(make, step, at):
        worker = {"lane": "DataLoader worker 0"}
        return [
            make.event("data_loading", Kind.DATA_LOADING, at, 600_000),
            make.event("fetch (loader worker)", Kind.ANNOTATION, at, fetch, **worker),
            make.event("collate (loader worker)", Kind.ANNOTATION, at + fetch - collate, collate, **worker),
            make.event("aten::mm", Kind.HOST_OP, at + 600_000, 390_000),
        ]

    return content


TORCH, KERAS = (
    "/v/site-packages/torch/utils/data/dataloader.py(5): __next__",
    "keras/src/trainers/data_adapters",
)


@pytest.mark.parametrize(
    ("frame", "event", "kind", "do"),
    [
        (TORCH, "aten::mm", "kineto", "DataLoader(num_workers"),
        (FETCH, "aten::mm", "kineto", "make train.py:9 fetch cheaper, or let a thread or process"),
        (FETCH, "PjitFunction(step)", "xplane", "jax.device_put the next batch"),
        ("/v/site-packages/grain/_src/dataset.py(5): __next__", "PjitFunction(step)", "xplane", "grain.Mp"),
        (f"{KERAS}/py_dataset_adapter.py(9): get", "keras/src/layer.py", "xplane", "PyDataset(workers=…"),
        ("tensorflow/python/data/ops/iterator_ops.py(8): next", "MatMul", "xplane", "dataset.map("),
    ],
)
def test_what_to_do_about_a_wait_fits_what_makes_the_batches(make, steps, frame, event, kind, do) -> None:
    def content(step, at):
        return [make.event("data_loading", Kind.DATA_LOADING, at, 600_000),
                make.event(event, Kind.HOST_OP, at + 600_000, 390_000)]  # fmt: skip

    facts = sampled_by(steps(content, format=kind), lambda time: 1 if time % STEP < 600_000 else 0)
    samples = facts.sampled[0].samples
    lane = int(facts.timeline.lane[facts.timeline.steps.row[0]])
    frames = tuple(frame if one == FETCH else one.replace("keras", "other") for one in samples.frames)
    facts.__dict__["sampled"] = {0: Sampled(replace(samples, lane=lane, frames=frames))}
    (one,) = of(facts, "input-bound")
    assert do in one.action
    others = {"DataLoader(", "grain.Mp", "PyDataset(", "dataset.map("} - {do.partition("num_")[0], do[:8], do}
    assert not [other for other in others if other in one.action and other not in do]


def test_what_makes_the_batches_of_a_program_without_stacks_is_not_known(make, steps) -> None:
    content = lambda step, at: [make.event("data_loading", Kind.DATA_LOADING, at, 600_000),  # noqa: E731
                                make.event("aten::mm", Kind.HOST_OP, at + 600_000, 390_000)]  # fmt: skip
    action = only(steps(content), "input-bound").action
    assert action.startswith("load in parallel and ahead: a loader with workers or prefetching, or a thread")
    assert "(with a torch DataLoader: " in action


MORE = "more workers (DataLoader(num_workers=…), prefetch_factor=…), or make "


@pytest.mark.parametrize(
    ("fetch", "collate", "said", "do"),
    [
        (
            590_000,
            1_000,
            "98% of the wait: the data set's own code there",
            f"{MORE}the data set's __getitem__",
        ),
        (590_000, 500_000, "98% of the wait: collate_fn there takes", f"{MORE}collate_fn cheaper"),
        (
            60_000,
            1_000,
            "10% of the wait: the rest is starting workers",
            "keep workers: DataLoader(persis",
        ),
    ],
)
def test_a_wait_for_workers_says_what_they_did(make, steps, fetch, collate, said, do) -> None:
    content = loaded_by_a_worker(fetch, collate)
    one = only(steps(lambda step, at: content(make, step, at)), "input-bound")
    assert one.chain[0].startswith(f"1 loader worker fetched during {said}")
    assert one.action.startswith(do)


@pytest.mark.parametrize(
    ("fetch", "where"), [(590_000, "data.py:7 __getitem__"), (60_000, "train.py:9 fetch")]
)
def test_the_line_of_slow_workers_is_named_and_else_that_of_the_loop(make, steps, fetch, where) -> None:
    content = loaded_by_a_worker(fetch, 1_000)
    facts = sampled_by(steps(lambda step, at: content(make, step, at)), lambda time: 1)
    at = np.arange(0, 3 * STEP, 50_000)
    worker = Samples(-1, at, at + 50_000, np.full(len(at), -1), np.zeros(len(at), np.int64), ((0,),),
                     ("/u/data.py(7): __getitem__",), "/u")  # fmt: skip
    lane = int(facts.timeline.lane[facts.timeline.steps.row[0]])
    samples = replace(facts.sampled[0].samples, lane=lane, workers=(worker,))
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    (one,) = of(facts, "input-bound")
    assert f" in {where}; " in one.summary
    listed = lines_text(lines_of(facts))
    assert "where loader workers were meanwhile" in listed
    assert listed.index("train.py:9 fetch") < listed.index("data.py:7 __getitem__")


def test_what_is_worth_little_of_the_time_between_steps_is_not_said(make, steps) -> None:
    def content(step, at):
        return [make.event("data_loading", Kind.DATA_LOADING, at, 200_000),
                make.event("aten::mm", Kind.HOST_OP, at + 200_000, 700_000)]  # fmt: skip

    assert found(steps(content), "input-bound")
    events = []
    for step in range(3):
        at = step * 20 * STEP
        events += [make.event(f"ProfilerStep#{step}", Kind.STEP, at, STEP, step=step), *content(step, at)]
    assert not found(make.build(events), "input-bound")


def test_a_wait_for_xlas_threads_is_no_blocking_call(make, steps) -> None:
    """Not all that they do is recorded: what waits in one place while they run something waits for them."""

    def content(step, at):
        ran = [make.event("dot", Kind.HOST_OP, at + begun, 80_000, lane="tf_XLAPjRtCpuClient/1")
               for begun in (100_000, 500_000)]  # fmt: skip
        return [make.event("PjitFunction(step)", Kind.HOST_OP, at, 50_000), *ran]

    trace = steps(content, format="xplane")
    where = lambda time: 1 if time % STEP >= 50_000 else 0  # noqa: E731
    facts = sampled_by(trace, where, cpu=0.0)
    assert not of(facts, "blocking-call")
    assert facts.waited[0].executing.measure_ns == pytest.approx(0.95 * 3 * STEP, rel=0.06)
    alone = sampled_by(steps(lambda step, at: content(step, at)[:1], format="xplane"), where, cpu=0.0)
    assert of(alone, "blocking-call")


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ("/usr/lib/python3.11/threading.py(629): wait", True),
        ("/usr/lib/python3.11/queue.py(180): get", True),
        ("<call of time.sleep>", True),
        ("/v/site-packages/jax/_src/array.py(640): block_until_ready", False),
        ("<call of jax.block_until_ready>", False),
    ],
)
def test_a_wait_of_pythons_library_is_not_for_xlas_threads(make, steps, frame: str, said: bool) -> None:
    """They worked for a third of it; what stands in a lock of Python's does not wait for that."""

    def content(step, at):
        ran = make.event("dot", Kind.HOST_OP, at + 100_000, 300_000, lane="tf_XLAPjRtCpuClient/1")
        return [make.event("PjitFunction(step)", Kind.HOST_OP, at, 50_000), ran]

    facts = sampled_by(
        steps(content, format="xplane"), lambda time: 1 if time % STEP >= 50_000 else 0, cpu=0.0
    )
    samples = facts.sampled[0].samples
    stacks = (samples.stacks[0], (*samples.stacks[1], len(samples.frames)), *samples.stacks[2:])
    inside = replace(samples, frames=(*samples.frames, frame), stacks=stacks)
    facts.__dict__["sampled"] = {0: Sampled(inside)}
    assert bool(of(facts, "blocking-call")) == said


@pytest.mark.parametrize(("worked", "gain"), [(700_000, 0.25), (900_000, None)])
def test_python_while_xla_stands_still_is_gained_whatever_the_graph_knows(make, steps, worked, gain) -> None:
    """XLA's threads wait for what the host hands to them; nothing recorded says so."""

    def content(step, at):
        half = worked // 2
        lanes = {"lane": "tf_XLAPjRtCpuClient/1"}
        return [
            make.event("dot", Kind.HOST_OP, at + 50_000, half, **lanes),
            make.event("dot", Kind.HOST_OP, at + 50_000 + half, half, scope="transpose(jvp(f))", **lanes),
            make.event("PjitFunction(step)", Kind.HOST_OP, at + STEP - 50_000, 50_000),
        ]

    trace = steps(content, format="xplane")
    python = lambda time: 1 if time % STEP < STEP - 50_000 else 0  # noqa: E731
    findings = of(sampled_by(trace, python), "python-overhead")
    assert [round(one.gain_ratio, 2) for one in findings] == ([] if gain is None else [gain])


def test_one_late_sample_is_no_wait(make, steps) -> None:
    """As where a busy machine lets neither the thread nor the sampler run for half of a step."""
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 500_000)])

    def stood(time: int) -> int:
        return 1 if time % STEP >= 500_000 else 0

    assert of(sampled_by(trace, stood, cpu=0.1), "blocking-call")
    seldom = sampled_by(trace, stood, cpu=0.1)
    samples = seldom.sampled[0].samples
    kept = np.flatnonzero((samples.stack == 0) | (samples.end_ns == 2 * STEP))
    late = {"start_ns": np.where(samples.stack == 1, samples.end_ns - 450_000, samples.start_ns)[kept]}
    late |= {name: getattr(samples, name)[kept] for name in ("end_ns", "runnable_ns", "stack")}
    seldom.__dict__["sampled"] = {0: Sampled(replace(samples, **late))}
    assert not of(seldom, "blocking-call")


def test_a_wait_for_other_ranks_is_no_blocking_call(make, steps) -> None:
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 500_000)])
    facts = sampled_by(trace, lambda time: 1 if time % STEP >= 500_000 else 0, cpu=0.1)
    samples = facts.sampled[0].samples
    frames = (
        MAIN,
        "/v/site-packages/torch/distributed/distributed_c10d.py(9): all_reduce",
        FETCH,
        VALIDATE,
        PAIRS,
    )
    exchanging = Facts(trace)
    exchanging.__dict__["sampled"] = {0: Sampled(replace(samples, frames=frames, around=()))}
    assert of(facts, "blocking-call")
    assert not of(exchanging, "blocking-call")


def test_python_of_the_loop_counts_against_the_time_from_step_to_step(make) -> None:
    """A framework's loop around steps that are short, beside what it waits for between them."""
    short = [
        make.event(f"ProfilerStep#{step}", Kind.STEP, step * STEP, 100_000, step=step) for step in range(3)
    ]
    work = [make.event("aten::mm", Kind.HOST_OP, step * STEP, 1_000) for step in range(3)]
    trace = make.build([*short, *work])
    assert not of(sampled_by(trace, lambda time: 0, around=(0,)), "python-overhead")
    assert of(sampled_by(trace, lambda time: 1, around=(0,)), "python-overhead")


@pytest.mark.parametrize(
    ("python", "queued", "said"),
    [(0.35, 0.0, True), (0.35, 0.6, True), (0.15, 0.0, False), (0.15, 0.6, False)],
)
def test_a_busy_machine_hides_no_python_of_the_loop(make, steps, python, queued, said) -> None:
    """Times without the waits for a processor are compared with steps without them."""
    trace = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, round((1 - python) * STEP))])
    facts = sampled_by(trace, lambda time: 0, around=(0,))
    samples = facts.sampled[0].samples
    each = np.round((samples.end_ns - samples.start_ns) * queued).astype(np.int64)
    facts.__dict__["sampled"] = {0: Sampled(replace(samples, queued_ns=each))}
    assert bool(of(facts, "python-overhead")) is said


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("t.json", "ss.ProfilerHook() or torch.profiler.profile(with_stack=True) records it"),
        ("my runs/a/profiles/t.json", "while it trains, stepscope capture 'my runs/a' --stacks records it"),
    ],
)
def test_a_finding_without_its_line_says_how_to_have_it(make, steps, path, how) -> None:
    trace = steps(lambda step, at: [make.event("data_loading", Kind.DATA_LOADING, at, 500_000),
                                    make.event("aten::mm", Kind.HOST_OP, at + 500_000, 400_000)])  # fmt: skip
    (one,) = [each for each in advise(Facts(trace, path=path)).findings if each.rule == "input-bound"]
    assert one.action.endswith(f"; the line was not recorded: {how}")
    known = sampled_by(trace, lambda time: 1)
    assert "not recorded" not in of(known, "input-bound")[0].action


def one_long_call(make, step, at):
    """A step whose kernel comes late; in the first one call makes that."""
    long = 700_000 if step == 0 else 1_000
    return [
        make.event("aten::empty", Kind.HOST_OP, at + 1_000, long + 1_000),
        make.event("cudaMalloc", Kind.RUNTIME_CALL, at + 1_500, long),
        make.event("aten::add", Kind.HOST_OP, at + long + 4_000, 980_000 - long),
        *kernel(make, at + 990_000, 5_000, number=step + 1),
    ]


def test_one_call_that_makes_most_of_the_waiting_is_named_and_no_more_launching_is_advised(
    steps, make
) -> None:
    one = only(steps(lambda step, at: one_long_call(make, step, at), count=1), "host-bound")
    assert ", 700 µs of it in one call of cudaMalloc; " in one.summary
    assert one.evidence["one_call_ns"] == 700_000
    assert one.action.startswith("find out what cudaMalloc waits for")
    many = only(steps(lambda step, at: one_long_call(make, step, at), count=4), "host-bound")
    assert "one call" not in many.summary
    assert many.action.startswith("launch less work, and launch it earlier")


def test_no_launching_is_advised_where_nothing_was_recorded_of_the_host(steps, make) -> None:
    def content(step, at):
        return [
            make.event("aten::mm", Kind.HOST_OP, at, 100_000),
            *kernel(make, at + 980_000, 10_000, number=step + 1),
        ]

    one = only(steps(content), "host-bound")
    assert "; for 890 µs of that nothing was recorded on the host; without it" in one.summary
    assert one.action.startswith(
        "look in the timeline at what surrounds the time for which nothing was recorded"
    )
    assert "kernel" not in " ".join(one.chain)  # one a step is no reason


def test_exchanges_of_a_host_cost_what_its_operators_do_not_hide(steps, make) -> None:
    def content(step, at):
        return [
            make.event("RecvTensor", Kind.SEND_RECV, at, 600_000),
            make.event("MatMul", Kind.HOST_OP, at + 200_000, 200_000, lane="worker"),
            make.event("Add", Kind.HOST_OP, at + 600_000, 390_000),
        ]

    one = only(steps(content, format="timeline"), "communication-bound")
    assert one.cost_ns == 400_000


def test_what_no_device_and_no_host_works_for_is_said_apart(steps, make) -> None:
    def content(step, at):
        waiting = make.event(
            "<built-in method acquire of _thread.lock>", Kind.PYTHON_FRAME, at + 1_000, 400_000
        )
        return [waiting, make.event("aten::mm", Kind.HOST_OP, at + 401_000, 500_000),
                *kernel(make, at + 980_000, 10_000, number=step + 1)]  # fmt: skip

    one = only(steps(content), "host-bound")
    evidence = one.evidence
    assert evidence["host_waiting_ns"] == 400_000
    parts = sum(evidence[f"{part}_ns"] for part in ("launching", "python", "operators", "untraced"))
    assert parts + evidence["host_waiting_ns"] == pytest.approx(evidence["device_idle_ns"], abs=5)
    assert any("the training thread also waits for 400 µs a step of that time" in each for each in one.chain)


def test_a_rank_that_is_judged_alone_is_named(make) -> None:
    events = []
    for rank in (0, 1):
        for step in range(3):
            at = step * STEP
            events += [
                make.event(f"ProfilerStep#{step}", Kind.STEP, at, STEP, step=step, rank=rank),
                make.event("data_loading", Kind.DATA_LOADING, at, 400_000, rank=rank),
                make.event("aten::mm", Kind.HOST_OP, at + 400_000, 590_000, rank=rank),
            ]
    trace = make.build(events)
    (one,) = (one for one in advise(Facts(trace, ranks=(1,))).findings if one.rule == "input-bound")
    assert one.summary.startswith("rank 1: the step waits for data")
    (both,) = found(trace, "input-bound")
    assert both.summary.startswith("rank 0, the worst of 2 of 2: ")


def test_the_line_that_compiled_code_called_is_named(steps, make) -> None:
    def content(step, at):
        return [
            make.event("PjitFunction(step)", Kind.HOST_OP, at, 900_000),
            make.event("pure_callback.1", Kind.HOST_OP, at + 100_000, 300_000, lane="tf_XLAPjRtCpuClient/1"),
        ]

    facts = sampled_by(steps(content, format="xplane"), lambda time: 0)
    at = np.arange(0, 3 * STEP, 50_000)
    called = Samples(-1, at, at + 50_000, np.full(len(at), -1), np.zeros(len(at), np.int64), ((0,),),
                     ("/u/host.py(7): slow",), "/u")  # fmt: skip
    facts.__dict__["sampled"] = {0: Sampled(replace(facts.sampled[0].samples, called=(called,)))}
    (one,) = of(facts, "host-callback")
    assert "for 300 µs of 1.00 ms a step in host.py:7 slow; " in one.summary


def test_python_that_a_pipeline_calls_is_the_loaders(steps, make) -> None:
    """Of TensorFlow: the step waits where it takes an element, not for what the pipeline does beside it."""

    def content(step, at):
        return [
            make.event("IteratorGetNext", Kind.DATA_LOADING, at, 200_000),
            make.event("EagerExecute", Kind.HOST_OP, at + 200_000, 700_000),
            make.event("PyFunc:PyFunc", Kind.HOST_OP, at, 800_000, lane="tf_data_private_threadpool/1"),
        ]

    facts = sampled_by(steps(content, format="xplane"), lambda time: 0)
    at = np.arange(0, 3 * STEP, 50_000)
    called = Samples(-1, at, at + 50_000, np.full(len(at), -1), np.zeros(len(at), np.int64), ((0,),),
                     ("/u/host.py(7): slow",), "/u")  # fmt: skip
    facts.__dict__["sampled"] = {0: Sampled(replace(facts.sampled[0].samples, called=(called,)))}
    assert not of(facts, "host-callback")
    (one,) = of(facts, "input-bound")
    assert "waits for data for 200 µs of 1.00 ms a step in host.py:7 slow; " in one.summary


def eager_step(make, step, at, *, count: int = 60, read: bool = False):
    """A step of 1 ms in which operations are handed over for 10 µs each, of which 2 µs execute."""
    events = []
    for n in range(count):
        begin = at + 10_000 + 15_000 * n
        events += [
            make.event("PjitFunction(add)", Kind.HOST_OP, begin, 10_000),
            make.event("PjRtCpuExecutable::Execute", Kind.HOST_OP, begin + 5_000, 2_000),
        ]
        if read:
            events.append(make.event("$array.py:312 __float__", Kind.PYTHON_FRAME, begin - 1_000, 13_000))
    return events


def test_operations_that_are_handed_over_one_by_one_are_named(steps, make) -> None:
    facts = sampled_by(steps(lambda step, at: eager_step(make, step, at), format="xplane"), lambda time: 1)
    (one,) = of(facts, "eager-operations")
    # 60 operations with 5 µs between two, less 60 executions of 2 µs.
    assert one.evidence["handing_ns"] == 60 * 10_000 + 59 * 5_000 - 60 * 2_000
    assert one.summary.startswith(
        "60 operations a step are dispatched one by one, for 775 µs of 1.00 ms a step"
    )
    assert " in train.py:9 fetch; " in one.summary
    assert one.action.startswith("put the step under one jax.jit")


@pytest.mark.parametrize(("function", "left"), [("train", ["eager-operations"]), ("other", None)])
def test_small_operators_that_are_handed_over_one_by_one_are_one_finding(function: str, left) -> None:
    place = {"file": "train.py", "line": 9, "function": "train"}
    eager = Finding("eager-operations", "high", "60 operations; without it 1 ms", {}, {}, "jit", place=place)
    small = Finding("small-kernels", "high", "70 small ones; without it 1 ms", {}, {}, "jit",
                    place={**place, "function": function})  # fmt: skip
    findings = joined([small, eager])
    assert [one.rule for one in findings] == (left or ["small-kernels", "eager-operations"])
    assert ("70 small ones" in findings[-1].chain) == (left is not None)


def test_a_compiled_step_with_a_few_operations_beside_is_not_eager(steps, make) -> None:
    few = steps(lambda step, at: eager_step(make, step, at, count=49), format="xplane")
    assert not of(sampled_by(few, lambda time: 1), "eager-operations")
    torch = steps(lambda step, at: [make.event("aten::mm", Kind.HOST_OP, at, 900_000)])
    assert missing(torch, "eager-operations") == (
        "no calls of compiled JAX functions or of TensorFlow operations"
    )


@pytest.mark.parametrize(
    ("frame", "rule"),
    [
        ("polymorphic_function/tracing_compilation.py(300): _create_concrete_function", "compilation"),
        ("polymorphic_function/tracing_compilation.py(132): call_function", None),
        ("polymorphic_function/tracing_compilation.py(178): trace_function", None),
        ("../checkpoint/checkpoint.py(2395): save", "checkpoint"),
        ("../checkpoint/checkpoint.py(2395): restore", None),
        ("../../../torch/_dynamo/backends/debugging.py(340): run", None),
        ("../../../torch/_dynamo/convert_frame.py(340): _compile", "compilation"),
    ],
)
def test_making_a_function_is_compiling_and_running_it_is_not(steps, make, frame, rule) -> None:
    root = "/v/lib/python3.11/site-packages/tensorflow/python/"
    frame = root + (frame.removeprefix("../") if frame.startswith("..") else f"eager/{frame}")
    frame = frame.replace("tensorflow/python/../../", "")

    def content(step, at):
        return [make.event(frame, Kind.PYTHON_FRAME, at, 500_000),
                make.event("aten::mm", Kind.HOST_OP, at + 500_000, 400_000)]  # fmt: skip

    trace = steps(content, recorded={"timeline", "steps", "stacks"})
    told = {one.rule for one in advise(Facts(trace)).findings} & {"compilation", "checkpoint"}
    assert told == ({rule} if rule else set())


@pytest.mark.parametrize("file", ["/tmp/__autograph_generated_file1x.py", "/tmp/torchinductor_me/ob/cob.py"])
def test_what_a_compiler_wrote_is_no_line_of_the_users(file) -> None:
    assert not is_own(f"{file}(22): loop_body")
    assert is_own("/tmp/mine.py(22): loop_body")


def test_the_line_of_compiling_is_the_call_and_not_the_function_that_is_compiled(steps, make) -> None:
    torch = "/v/lib/python3.11/site-packages/torch/_dynamo"
    frames = (MAIN, f"{torch}/eval_frame.py(832): compile_wrapper", "/u/model.py(5): scaled",
              f"{torch}/convert_frame.py(1200): _compile")  # fmt: skip

    def content(step, at):
        return [make.event("_compile.compile_inner (dynamo_timed)", Kind.HOST_OP, at, 900_000)]

    at = np.arange(0, 3 * STEP, 50_000)
    stood = np.zeros(len(at), np.int64)
    samples = Samples(0, at, at + 50_000, np.full(len(at), 50_000), stood, ((0, 1, 2, 3),), frames, "/u")
    facts = Facts(steps(content))
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    (one,) = of(facts, "compilation")
    assert (one.place["file"], one.place["line"]) == ("train.py", 3)


@pytest.mark.parametrize(
    ("compiled", "told"),
    [
        ([("f", ("a[1]", "b[2]")), ("g", ("c",)), ("f", ("a[1]", "b[3]"))], ["f, argument 1: b[2], b[3]"]),
        ([("f", ("a",)), ("f", ("a", "b"))], ["f: 1 arguments, 2 arguments"]),
        (
            [("f", ("a",)), ("f", ("a",))],
            [
                "f: the same shapes each time, so a static argument differs or the function is created anew "
                "each time"
            ],
        ),
        ([("f", ("a",)), ("g", ("a",))], []),
        ([], []),
    ],
)
def test_arguments_that_changed_between_compilations_are_told(compiled, told) -> None:
    assert changed(compiled) == told


def test_only_what_was_compiled_in_the_steps_is_told_of(steps, make) -> None:
    def content(step, at):
        return [make.event("PjitFunction(f)", Kind.HOST_OP, at, 900_000),
                make.event("backend_compile", Kind.HOST_OP, at + 1_000, 800_000)]  # fmt: skip

    facts = sampled_by(steps(content, format="xplane"), lambda time: 1)
    compiled = [(-STEP, "jit(f)", ("x[0]",)), (1_000, "jit(f)", ("x[1]",)), (STEP + 1, "jit(f)", ("x[2]",))]
    samples = replace(facts.sampled[0].samples, compiled=tuple(compiled))
    facts.__dict__["sampled"] = {0: Sampled(samples)}
    (one,) = of(facts, "compilation")
    assert one.evidence["shapes"] == ["jit(f), argument 0: x[1], x[2]"]


@pytest.mark.parametrize(("kind", "said"), [("kineto", True), ("timeline", False), ("tfprof", False)])
def test_what_a_recorder_of_single_runs_does_between_them_is_not_the_programs(make, kind, said) -> None:
    events = []
    for step in range(4):
        at = step * STEP
        events += [make.event(f"run {step}", Kind.STEP, at, 100_000, step=step),
                   make.event("MatMul", Kind.HOST_OP, at + 1_000, 98_000)]  # fmt: skip
    trace = make.build(events, format=kind)
    assert bool(found(trace, "between-steps")) == said
    assert bool(missing(trace, "between-steps")) != said
