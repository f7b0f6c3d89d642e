"""The views of a trace small enough to add up by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.step_tree import PARTS
from stepscope.analyze.views import Answer, view
from stepscope.analyze.views.memory import memory_report
from stepscope.analyze.views.steps import trace_steps
from stepscope.errors import EmptyTraceError, UsageError
from stepscope.trace.model import Kind, Trace
from stepscope.trace.names import Paths
from stepscope.trace.tables import MemoryAction


@pytest.fixture
def trace(make: SimpleNamespace) -> Trace:
    """Two steps of linear, which runs mm, which launches a kernel, and of add; the kernels differ."""
    event, events = make.event, []
    for step, kernel in ((0, 100), (1, 300)):
        at = step * 1000
        events += [
            event(f"ProfilerStep#{step}", Kind.STEP, at, 900, step=step),
            event("linear", Kind.HOST_OP, at + 100, 400, scope="net/fc"),
            event("mm", Kind.HOST_OP, at + 150, 200, scope="net/fc", flops=1000),
            event("cudaLaunchKernel", Kind.RUNTIME_CALL, at + 200, 50, scope="net/fc", correlation=step),
            event("add", Kind.HOST_OP, at + 600, 100, scope="net"),
            event(
                "gemm", Kind.KERNEL, at + 500, kernel, lane="gpu", device=0, stream=7, correlation=step,
                scope="net/fc", step=step, bytes=5000,
            ),
        ]  # fmt: skip
    return make.build(events)


def values(answer: Answer, key: str) -> dict[str, float | None]:
    return {row["name"]: row.get(key) for row in answer.as_dict()["rows"]}


def test_loading_owns_what_it_spends_whatever_operators_do_it(make: SimpleNamespace) -> None:
    events = [
        make.event("ProfilerStep#0", Kind.STEP, 0, 1000, step=0),
        make.event("enumerate(DataLoader)", Kind.DATA_LOADING, 0, 600),
        make.event("aten::stack", Kind.HOST_OP, 10, 580),
        make.event("aten::mm", Kind.HOST_OP, 600, 300),
    ]
    answer = view("op", make.build(events))
    assert values(answer, "step_ns") == {
        "(all)": 1000, "enumerate(DataLoader)": 600, "aten::mm": 300, "(nothing recorded)": 100,
        "aten::stack": 0,
    }  # fmt: skip
    assert values(answer, "host_ns")["aten::stack"] == 580


def test_a_node_has_the_part_of_the_step_that_took_most_of_it(make: SimpleNamespace) -> None:
    events = [
        make.event("ProfilerStep#0", Kind.STEP, 0, 1000, step=0),
        make.event("enumerate(DataLoader)", Kind.DATA_LOADING, 0, 600, scope="net"),
        make.event("aten::stack", Kind.HOST_OP, 10, 580, scope="net"),
        make.event("aten::mm", Kind.HOST_OP, 600, 300, scope="net"),
    ]
    answers = {name: view(name, make.build(events)) for name in ("op", "scope")}
    parts = {
        name: {
            line.name: PARTS[answer.tree.part[line.node]] if answer.tree.part[line.node] >= 0 else None
            for line in answer.lines
        }
        for name, answer in answers.items()
    }
    assert parts["op"] == {
        "(all)": "data_loading", "enumerate(DataLoader)": "data_loading", "aten::mm": "other",
        "(nothing recorded)": "idle", "aten::stack": None,
    }  # fmt: skip
    assert parts["scope"]["net"] == "data_loading"
    assert parts["scope"]["net/aten::mm"] == "other"


def test_threads_that_wait_and_frames_outside_of_steps_take_nothing_of_the_step(
    make: SimpleNamespace,
) -> None:
    events = [
        make.event("ProfilerStep#0", Kind.STEP, 100, 1000, step=0),
        make.event("train.py(1): main", Kind.PYTHON_FRAME, 0, 5000),
        make.event("aten::mm", Kind.HOST_OP, 200, 300),
        make.event("threading.py(5): wait", Kind.PYTHON_FRAME, 0, 9000, lane="pool"),
    ]
    answer = view("op", make.build(events))
    assert values(answer, "step_ns") == {"(all)": 1000, "aten::mm": 300, "(Python)": 700}


def test_an_operator_that_is_dispatched_to_itself_is_called_once(make: SimpleNamespace) -> None:
    events = [
        make.event("aten::mul", Kind.HOST_OP, 0, 100),
        make.event("aten::mul", Kind.HOST_OP, 10, 80),
        make.event("aten::mul", Kind.HOST_OP, 200, 100),
    ]
    answer = view("op", make.build(events))
    assert (values(answer, "calls")["aten::mul"], values(answer, "host_ns")["aten::mul"]) == (2, 200)


@pytest.fixture
def multiplying(make: SimpleNamespace) -> Trace:
    """A convolution that hands its work to another operator, which launches the kernel, and a product."""
    image, weight = "[[8, 3, 32, 32], [16, 3, 3, 3], [], [], [], [], [], [], []]", "[1, 1]"
    values = f'["", "", "", "{weight}", "{weight}", "{weight}", "False", "[0, 0]", "1"]'
    return make.build(
        [
            make.event("aten::convolution", Kind.HOST_OP, 0, 100),
            make.event("aten::cudnn_convolution", Kind.HOST_OP, 10, 80),
            make.event("cudaLaunchKernel", Kind.RUNTIME_CALL, 20, 5, correlation=1),
            make.event("aten::mm", Kind.HOST_OP, 200, 50),
            make.event("conv", Kind.KERNEL, 100, 1000, lane="gpu", device=0, stream=7, correlation=1),
        ],
        recorded={"timeline", "device", "launches", "shapes"},
        tables={
            "operators": {
                "row": [0, 3], "shapes": [image, "[[64, 32], [32, 16]]"], "types": ['["float"]'] * 2,
                "values": [values, "[]"],
            }
        },
    )  # fmt: skip


def test_operations_of_shapes_are_the_operators_that_did_them(multiplying: Trace) -> None:
    answer = view("op", multiplying, ViewOptions(select=("float_ops",), order_by="float_ops"))
    flops = 2 * 8 * 16 * 3 * 3 * 3 * 32 * 32
    assert values(answer, "flops") == {
        "(all)": flops + 65536, "aten::cudnn_convolution": flops, "aten::mm": 65536,
        "aten::convolution": None,
    }  # fmt: skip
    assert [line.name for line in answer.lines[:3]] == ["(all)", "aten::cudnn_convolution", "aten::mm"]
    assert values(answer, "flops_per_second")["aten::cudnn_convolution"] == flops / 1000e-9
    assert any("from the shapes" in note for note in answer.notes)


def test_a_sum_of_operations_that_lacks_some_has_no_rate(make: SimpleNamespace) -> None:
    """As of PyTorch 1.9, which recorded no strides: the convolution's work is not known."""
    trace = make.build(
        [
            make.event("aten::convolution", Kind.HOST_OP, 0, 100),
            make.event("aten::mm", Kind.HOST_OP, 200, 50),
        ],
        recorded={"timeline", "shapes"},
        tables={
            "operators": {
                "row": [0, 1], "shapes": ["[[8, 3, 32, 32], [16, 3, 3, 3]]", "[[64, 32], [32, 16]]"],
                "types": ['["float"]'] * 2, "values": ["", ""],
            }
        },
    )  # fmt: skip
    answer = view("op", trace, ViewOptions(select=("float_ops",), order_by="float_ops"))
    assert values(answer, "flops_per_second") == {
        "(all)": None, "aten::mm": 65536 / 50e-9, "aten::convolution": None,
        "(nothing recorded)": None,
    }  # fmt: skip
    one = "1 call of aten::convolution"
    lacking = f"FLOPs of sums are too low: those of {one} cannot be told from what was recorded"
    assert lacking in answer.notes


def test_operations_that_nothing_tells_are_said_to_be_missing(make: SimpleNamespace) -> None:
    trace = make.build([make.event("aten::mm", Kind.HOST_OP, 0, 100)])
    notes = view("op", trace, ViewOptions(order_by="float_ops")).notes
    assert any(note.startswith("FLOPs not recorded") for note in notes)
    assert not any("FLOPs" in note for note in view("op", trace).notes)


def test_values_are_means_over_the_profiled_steps(trace: Trace) -> None:
    answer = view("op", trace)
    assert (answer.windows, answer.label) == (2, "mean per step over 2 profiled steps")
    nothing = {"(nothing recorded)": 0}
    assert values(answer, "device_ns") == {"(all)": 200, "mm": 200, "linear": 0, "add": 0} | nothing
    # mm's own 150 and the launch inside it
    assert values(answer, "host_ns") == {"(all)": 500, "mm": 200, "linear": 200, "add": 100} | nothing
    nothing = {"(nothing recorded)": None}
    assert values(answer, "calls") == {"(all)": None, "mm": 1, "linear": 1, "add": 1} | nothing


def test_the_step_column_adds_up_to_the_step(trace: Trace) -> None:
    """Host 100-500 linear with mm 150-350, add 600-700; the device 500-600, in the second step 500-800."""
    answer = view("op", trace)
    assert values(answer, "step_ns") == {
        "(all)": 900, "mm": 400, "linear": 200, "add": 50, "(nothing recorded)": 250,
    }  # fmt: skip
    assert values(answer, "step_ratio")["mm"] == pytest.approx(4 / 9)
    for name in ("scope", "graph"):
        tree = view(name, trace).tree
        assert tree.total["step_ns"][0] == tree.own["step_ns"].sum() == 1800
        assert tree.own["step_ns"][0] == 0


def test_the_spread_over_the_steps_is_shown(trace: Trace) -> None:
    answer = view("op", trace)
    spread = [values(answer, f"step_{which}_ns")["mm"] for which in ("min", "median", "max")]
    assert spread == [300, 400, 500]
    spread = [
        values(view("kernel", trace), f"device_{which}_ns")["gemm"] for which in ("min", "median", "max")
    ]
    assert spread == [100, 200, 300]


def test_one_step_can_be_asked_for(trace: Trace) -> None:
    answer = view("op", trace, ViewOptions(step=1))
    assert (answer.label, values(answer, "device_ns")["mm"]) == ("step 1", 300)
    with pytest.raises(UsageError, match="step 7 was not profiled\nhint: steps: 0, 1"):
        view("op", trace, ViewOptions(step=7))


def test_scopes_hold_the_operators_that_ran_in_them(trace: Trace) -> None:
    answer = view("scope", trace)
    assert [(line.name, line.depth) for line in answer.lines] == [
        ("(all)", 0),
        ("(nothing recorded)", 1),
        ("net", 1),
        ("net/add", 2),
        ("net/fc", 2),
        ("net/fc/linear", 3),
        ("net/fc/mm", 3),
    ]
    assert values(answer, "device_total_ns")["net"] == 200
    assert values(answer, "host_total_ns") == {
        "(all)": 500, "net": 500, "net/add": 100, "net/fc": 400, "net/fc/linear": 200, "net/fc/mm": 200,
        "(nothing recorded)": 0,
    }  # fmt: skip


def test_the_graph_view_reaches_from_operators_to_what_they_launch(trace: Trace) -> None:
    answer = view("graph", trace)
    assert [(line.name, line.depth) for line in answer.lines] == [
        ("(all)", 0), ("(nothing recorded)", 1), ("add", 1), ("linear", 1), ("mm", 2),
        ("cudaLaunchKernel", 3), ("gemm", 4),
    ]  # fmt: skip
    assert values(answer, "device_total_ns")["linear"] == 200
    assert values(answer, "device_self_ns")["linear"] == 0


def test_flops_and_bytes_have_achieved_rates(trace: Trace) -> None:
    op = view("op", trace).as_dict()["rows"]
    mm = next(row for row in op if row["name"] == "mm")
    assert (mm["flops"], mm["flops_per_second"]) == (1000, 2000 / 400e-9)
    kernel = view("kernel", trace).as_dict()["rows"][1]
    assert (kernel["moved_bytes"], kernel["moved_bytes_per_second"]) == (5000, 10_000 / 400e-9)
    assert next(row for row in op if row["name"] == "add")["flops"] is None


def test_code_needs_stacks(trace: Trace) -> None:
    with pytest.raises(EmptyTraceError, match="which line of code"):
        view("code", trace)


def test_code_counts_device_work_where_it_was_launched(make: SimpleNamespace) -> None:
    event = make.event
    trace = make.build(
        [
            event("mm", Kind.HOST_OP, 0, 100),
            event("cudaLaunchKernel", Kind.RUNTIME_CALL, 10, 20, correlation=1),
            event("gemm", Kind.KERNEL, 200, 70, lane="gpu", device=0, stream=7, correlation=1),
        ],
        recorded={"timeline", "device", "launches", "stacks"},
    )
    strings = type(trace.strings).of([*trace.strings.texts(), "train.py(3): main", "model.py(9): forward"])
    frames = len(trace.strings)
    stacks = Paths(np.array([-1, 0], np.int32), np.array([frames, frames + 1], np.int32), strings)
    # the last row is the kernel; only the operator's thread knows its stack
    columns = {name: getattr(trace, name) for name in Trace.__dataclass_fields__}
    columns.update(strings=strings, stacks=stacks, stack=np.array([1, 1, -1], np.int32))
    answer = view("code", Trace(**columns))
    assert [(line.name, line.depth) for line in answer.lines] == [
        ("(all)", 0), ("(nothing recorded)", 1), ("train.py(3): main", 1), ("model.py(9): forward", 2),
    ]  # fmt: skip
    assert values(answer, "device_total_ns")["train.py(3): main"] == 70


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"max_depth": 2}, ["(all)", "(nothing recorded)", "net"]),
        ({"trim_name_regexes": ("net/fc",)}, ["(all)", "(nothing recorded)", "net", "net/add", "net/fc"]),
        ({"start_name_regexes": ("net/fc",)}, ["(all)", "net/fc", "net/fc/linear", "net/fc/mm"]),
        (
            {"hide_name_regexes": ("net/fc", r"\(n.*")},
            ["(all)", "net", "net/add", "net/fc/linear", "net/fc/mm"],
        ),
        ({"show_name_regexes": (".*m",)}, ["(all)", "net/fc/mm"]),
        ({"order_by": "micros", "max_depth": 3}, ["(all)", "net", "net/fc", "net/add", "(nothing recorded)"]),
        ({"account_type_regexes": ("add",)}, ["(all)", "net", "net/add"]),
        ({"account_type_regexes": ("kernel",)}, ["(all)", "net", "net/fc", "net/fc/mm"]),
        ({"account_type_regexes": ("gpu:0",)}, ["(all)", "net", "net/fc", "net/fc/mm"]),
    ],
)
def test_tfprofs_options_choose(trace: Trace, options: dict, names: list[str]) -> None:
    assert [line.name for line in view("scope", trace, ViewOptions(**options)).lines] == names


def test_thresholds_compare_the_mean_of_a_step(make: SimpleNamespace) -> None:
    events = [make.event(f"ProfilerStep#{s}", Kind.STEP, s * 10**6, 10**6, step=s) for s in range(2)]
    events += [make.event("slow", Kind.HOST_OP, s * 10**6, 3000) for s in range(2)]
    events += [make.event("once", Kind.HOST_OP, 5000, 3000)]
    answer = view("op", make.build(events), ViewOptions(min_cpu_micros=2))
    assert [line.name for line in answer.lines] == ["(all)", "slow"]


def test_displayed_only_counts_what_is_shown(trace: Trace) -> None:
    shown = view("scope", trace, ViewOptions(hide_name_regexes=(".*mm",), account_displayed_op_only=True))
    assert values(shown, "host_total_ns")["(all)"] == 300


def test_an_op_list_ends_after_max_depth_as_in_tfprof(trace: Trace) -> None:
    assert len(view("op", trace, ViewOptions(max_depth=1)).lines) == 1 + 2


def test_ranks_are_windows_of_their_own(make: SimpleNamespace) -> None:
    events = []
    for rank, spent in ((0, 100), (1, 300)):
        events += [
            make.event("ProfilerStep#0", Kind.STEP, 0, 1000, rank=rank, step=0),
            make.event("mm", Kind.HOST_OP, 10, spent, rank=rank),
        ]
    answer = view("op", make.build(events))
    assert (answer.windows, answer.label) == (2, "mean per step over 1 profiled step on 2 ranks")
    assert values(answer, "host_ns")["mm"] == 200


def test_without_steps_everything_is_one_window(make: SimpleNamespace) -> None:
    answer = view("op", make.build([make.event("mm", Kind.HOST_OP, 0, 100)]))
    assert (answer.windows, answer.label) == (1, "whole trace, no steps marked")
    assert any(note.startswith("device time not recorded") for note in answer.notes)
    assert "device_ns" not in answer.as_dict()["rows"][1]


def test_what_lies_outside_the_steps_is_counted_and_said(make: SimpleNamespace) -> None:
    events = [
        make.event("ProfilerStep#0", Kind.STEP, 0, 1000, step=0),
        make.event("mm", Kind.HOST_OP, 0, 100),
        make.event("late", Kind.HOST_OP, 2000, 70),
    ]
    answer = view("op", make.build(events))
    assert "left out: 1 event outside the counted steps (70 ns)" in answer.text


def test_what_the_importer_lost_is_said(make: SimpleNamespace) -> None:
    trace = make.build(
        [make.event("mm", Kind.HOST_OP, 0, 100)],
        notes=("the file ends in the middle of an event",),
        dropped={"negative_durations": 1200, "launch_arrows": 5},
    )
    notes = view("op", trace).notes
    assert notes[:2] == [
        "the file ends in the middle of an event",
        "dropped or mended: 1,200 negative durations",
    ]
    assert not any("arrows" in note for note in notes)


def test_selected_columns_that_a_trace_has_not_are_said(trace: Trace) -> None:
    notes = view("op", trace, ViewOptions(select=("micros", "params", "device", "op_types"))).notes
    assert "shown for tfprof's own files only: device, op_types" in notes
    assert any(note.startswith("not recorded in a") and note.endswith("params") for note in notes)


def test_an_empty_trace_is_an_error(make: SimpleNamespace) -> None:
    with pytest.raises(EmptyTraceError):
        view("op", make.build([]))


def test_a_step_of_several_ranks_is_one_step(make: SimpleNamespace) -> None:
    event, kind = make.event, make.Kind
    trace = make.build([event("s", kind.STEP, 0, 900 + rank, step=3, rank=rank) for rank in range(4)])
    assert trace_steps(trace).text.splitlines()[-1].startswith("1 step on 4 ranks: min 900 ns")


def test_steps(trace: Trace) -> None:
    rows = trace_steps(trace).rows
    assert [(row.step, row.duration_ns, row.device_ns, row.host_ns) for row in rows] == [
        (0, 900, 100, 500),
        (1, 900, 300, 500),
    ]


@pytest.fixture
def allocating(make: SimpleNamespace) -> Trace:
    """10 before the recording; a holds 100 at the peak, b 50 that it frees before the end."""
    event = make.event

    def change(time: int, row: int, count: int, level: int, address: int) -> dict[str, int]:
        action = MemoryAction.ALLOCATE if count > 0 else MemoryAction.FREE
        return {
            "time_ns": time, "row": row, "bytes": count, "allocated_bytes": level, "address": address,
            "device": 0, "action": action,
        }  # fmt: skip

    return make.build(
        [event("a", Kind.HOST_OP, 0, 100), event("b", Kind.HOST_OP, 200, 100)],
        recorded={"timeline", "memory"},
        memory=[change(10, 0, 100, 110, 1), change(210, 1, 50, 160, 2), change(290, 1, -50, 110, 2)],
    )


def test_a_peak_is_a_peak(allocating: Trace) -> None:
    answer = view("op", allocating, ViewOptions(select=("bytes", "peak_bytes", "residual_bytes")))
    nothing = {"(nothing recorded)": 0}
    assert values(answer, "bytes") == {"(all)": 150, "a": 100, "b": 50} | nothing
    assert values(answer, "peak_bytes") == {"(all)": 160, "a": 100, "b": 50} | nothing
    assert values(answer, "residual_bytes") == {"(all)": 100, "a": 100, "b": 0} | nothing


def test_memory_orders_and_hides(allocating: Trace) -> None:
    answer = view("op", allocating, ViewOptions(order_by="peak_bytes", min_peak_bytes=60))
    assert [line.name for line in answer.lines] == ["(all)", "a"]


def test_the_memory_report_names_the_holders(allocating: Trace) -> None:
    text = memory_report(allocating).text
    assert "rank 0 device 0: peak 160 B" in text
    assert "100 B  a (1 allocation)" in text


def test_memory_that_was_not_recorded_is_said(trace: Trace) -> None:
    assert "memory not recorded" in view("op", trace, ViewOptions(select=("bytes",))).text
    with pytest.raises(EmptyTraceError, match="what used memory"):
        memory_report(trace)


@pytest.mark.parametrize("ranks", [(0,), (0, 1)])
def test_steps_that_two_recordings_of_a_rank_number_alike_count_each(make, ranks) -> None:
    """As those of two runs of one script in one directory do: the mean is of all of them."""
    events = []
    for rank in ranks:
        for step, at, long in ((1, 0, 40), (2, 100, 50), (1, 9000, 60), (2, 9100, 90)):
            events += [
                make.event(f"ProfilerStep#{step}", Kind.STEP, at, 100, step=step, rank=rank),
                make.event("aten::mm", Kind.HOST_OP, at, long, rank=rank),
            ]
    trace = make.build(events)
    answer = view("op", trace, ViewOptions(order_by="micros"))
    assert "over 4 profiled steps" in answer.label
    row = next(line for line in answer.as_dict()["rows"] if line["name"] == "aten::mm")
    told = [row[key] for key in ("step_ns", "step_min_ns", "step_median_ns", "step_max_ns")]
    assert told == [60, 40, 55, 90]
    (row,) = (
        line
        for line in view("op", trace, ViewOptions(order_by="micros", step=1)).as_dict()["rows"]
        if line["name"] == "aten::mm"
    )
    assert row["step_ns"] == 50
