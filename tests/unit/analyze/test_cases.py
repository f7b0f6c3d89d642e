"""Each analysis on traces small enough to add up by hand: cases.txt has these, an approved file answers."""

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import Case, read_table
from support.made_traces import GPU, events_of_line, kind_named

from stepscope.analyze.advise import Facts, advise
from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.chosen import keep_steps
from stepscope.analyze.critical_path import critical_path, critical_paths
from stepscope.analyze.glance import step_facts, waited_for
from stepscope.analyze.idle import idle
from stepscope.analyze.kernel_details import kernel_details
from stepscope.analyze.launch import launches, queue_series
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.overlap import blocking, overlap, overlap_by_step
from stepscope.analyze.shapes import shape_table
from stepscope.analyze.views import VIEWS, Answer, view
from stepscope.analyze.views.dataflow import node_names
from stepscope.analyze.views.measure import _collectives, measure
from stepscope.analyze.views.memory import memory_report
from stepscope.analyze.views.steps import trace_steps
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import synchronizing_calls
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.step_tree import PARTS
from stepscope.attribute.windows import windows
from stepscope.errors import EmptyTraceError, StepscopeError
from stepscope.trace.model import Device, Kind
from stepscope.trace.names import Strings
from stepscope.trace.tables import MemoryAction

SMALL, LARGE = [[64, 64], [64, 64]], [[4096, 4096], [4096, 4096]]
A100 = "NVIDIA A100-SXM4-40GB"


# --- traces of several cases -----------------------------------------------------------------------------


class Maker:
    """Makes the events and traces that cases share, at times in ns."""

    def __init__(self, make):
        self.make = make

    def ev(self, name, kind, start, duration, **more):
        return self.make.event(name, kind_named(kind), start, duration, **more)

    def training(self, rank=0):
        """One step of 100: load 0-20, forward 25-45, backward 45-70, all-reduce 60-80, optimizer 85-90."""
        rows = [
            ("ProfilerStep#1", "step", 0, 100, {"step": 1}),
            ("enumerate(DataLoader)#__next__", "load", 0, 20, {}), ("aten::stack", "op", 5, 5, {}),
            ("aten::mm", "op", 20, 10, {}), ("launch", "rt", 22, 2, {"correlation": 1}),
            ("autograd::engine::evaluate_function: MmBackward0", "op", 40, 10, {"lane": "autograd"}),
            ("launch", "rt", 42, 2, {"lane": "autograd", "correlation": 2}),
            ("nccl", "rt", 44, 2, {"lane": "autograd", "correlation": 3}),
            ("Optimizer.step#SGD.step", "ann", 80, 10, {}), ("launch", "rt", 82, 2, {"correlation": 4}),
            ("k1", "kernel", 25, 20, {"device": 0, "stream": 7, "correlation": 1}),
            ("k2", "kernel", 45, 25, {"device": 0, "stream": 7, "correlation": 2}),
            ("ncclDevKernel", "coll", 60, 20, {"device": 0, "stream": 9, "correlation": 3}),
            ("k3", "kernel", 85, 5, {"device": 0, "stream": 7, "correlation": 4}),
            ("Memcpy DtoH", "memcpy", 88, 6, {"device": 0, "stream": 7}),
        ]  # fmt: skip
        return [self.ev(*row, rank=rank, **more) for *row, more in rows]

    def device_events(self, offset=0):
        rows = (("gemm", "kernel", 0, 40, 1), ("nccl", "coll", 30, 30, 2), ("copy", "memcpy", 50, 20, 3),
                ("gemm", "kernel", 90, 10, 1))  # fmt: skip
        return [self.ev(name, kind, offset + start, length, device=0, stream=stream)
                for name, kind, start, length, stream in rows]  # fmt: skip

    def launched(self):
        """A late launch, a short gap, a long gap with its work launched in time, one without launch."""
        calls = ((0, 5000), (81_000, 2000), (84_000, 1000), (86_000, 1000))
        kernels = (("a", 6000, 14_000), ("b", 90_000, 10_000), ("c", 101_000, 9000), ("d", 200_000, 1000))
        return [
            self.ev("aten::first", "op", 0, 10_000), self.ev("next", "load", 30_000, 40_000),
            self.ev("aten::second", "op", 80_000, 9000),
            *(self.ev("launch", "rt", *call, correlation=n) for n, call in enumerate(calls, 1)),
            *(self.ev(name, "kernel", *at, device=0, stream=1, correlation=n)
              for n, (name, *at) in enumerate(kernels, 1)),
            self.ev("e", "kernel", 205_000, 1000, device=0, stream=1),
        ]  # fmt: skip

    def two_steps(self):
        """Two steps of linear, which runs mm, which launches a kernel, and of add; the kernels differ."""
        events, fc = [], {"scope": "net/fc"}
        for step, kernel in ((0, 100), (1, 300)):
            at = step * 1000
            events += [
                self.ev(f"ProfilerStep#{step}", "step", at, 900, step=step),
                self.ev("linear", "op", at + 100, 400, **fc),
                self.ev("mm", "op", at + 150, 200, flops=1000, **fc),
                self.ev("cudaLaunchKernel", "rt", at + 200, 50, correlation=step, **fc),
                self.ev("add", "op", at + 600, 100, scope="net"),
                self.ev("gemm", "kernel", at + 500, kernel, correlation=step, step=step, bytes=5000, **fc,
                        **GPU),
            ]  # fmt: skip
        return events

    def multiplied(self, device, helper):
        """Steps of 10 ms; in each a product whose kernel takes 500 us and more each step, and a copy."""
        events = []
        for step in range(3):
            at, call = step * 10_000_000, step * 10
            gpu = {"device": 0, "stream": 7}
            events += [
                self.ev(f"s{step}", "step", at, 10_000_000, step=step),
                self.ev("aten::mm", "op", at + 1000, 1_000_000),
                self.ev("launch", "rt", at + 2000, 5000, correlation=call + 1),
                self.ev("ampere_sgemm_tensorop", "kernel", at + 107_000, 500_000 + 1000 * step,
                        correlation=call + 1, **gpu),
                self.ev("memcpy", "rt", at + 2_000_000, 5000, correlation=call + 3),
                self.ev("Memcpy HtoD", "memcpy", at + 2_010_000, 1000, correlation=call + 3, bytes=12_000,
                        **gpu),
            ]  # fmt: skip
            if helper:
                events.append(self.ev("launch", "rt", at + 8000, 1000, correlation=call + 2))
                more = {"correlation": call + 2, **gpu}
                events.append(self.ev("splitKreduce", "kernel", at + 800_000, helper, **more))
        plain = self.make.build(events)
        tables = {
            "operators": {"row": plain.named("aten::mm").tolist(), "shapes": [json.dumps(LARGE)] * 3,
                          "types": ['["float","float"]'] * 3, "values": ["[]"] * 3},
            "kernels": {"row": plain.named("ampere_sgemm_tensorop").tolist(), "stream": [7] * 3,
                        "grid": [256, 256, 512], "block": [128] * 3, "registers": [64] * 3,
                        "shared_bytes": [2048] * 3, "occupancy": [0.5] * 3, "blocks_per_sm": [2.0] * 3},
        }  # fmt: skip
        return self._of_device(events, tables, device, {"timeline", "device", "launches", "shapes"})

    def _of_device(self, events, tables, name, recorded):
        device = Device(rank=0, index=0, name=name, memory_bytes=40 << 30)
        return self.make.build(events, tables=tables, devices=(device,), recorded=recorded)

    def product_of(self, *, kernel="ampere_sgemm", kind="float", device=A100, shapes=LARGE):
        """One step of 10 ms with one product that takes 8."""
        events = [
            self.ev("s", "step", 0, 10_000_000, step=1), self.ev("aten::linear", "op", 0, 100),
            self.ev("aten::mm", "op", 10, 50), self.ev("launch", "rt", 20, 5, correlation=1),
            self.ev(kernel, "kernel", 100, 8_000_000, device=0, correlation=1),
        ]  # fmt: skip
        types = [json.dumps([kind, kind])]
        table = {"row": [2], "shapes": [json.dumps(shapes)], "types": types, "values": ["[]"]}
        recorded = {"timeline", "steps", "device", "launches", "shapes"}
        return self._of_device(events, {"operators": table}, device, recorded)

    def products(self, shapes, *, kernel_ns=8_000_000, host_ns=50_000, apart_ns=20_000_000, ahead=False):
        """One product after the other; ``ahead``: the host hands all over before the device is done."""
        events = [self.ev("s", "step", 0, apart_ns * len(shapes), step=1)]
        rows, kernels = [], []
        for n in range(len(shapes)):
            at = n * (host_ns if ahead else apart_ns)
            rows.append(len(events))
            events.append(self.ev("aten::mm", "op", at, host_ns))
            events.append(self.ev("launch", "rt", at + 5, 5, correlation=n + 1))
            begin = n * kernel_ns + 100 if ahead else at + 100
            kernels.append(self.ev("gemm", "kernel", begin, kernel_ns, device=0, stream=7, correlation=n + 1))
        table = {"row": rows, "shapes": [json.dumps(each, indent=2) for each in shapes],
                 "types": ['["float", "float"]'] * len(rows), "values": ["[]"] * len(rows)}  # fmt: skip
        recorded = {"timeline", "steps", "device", "launches", "shapes"}
        return self._of_device([*events, *kernels], {"operators": table}, A100, recorded)


def change(time, row, count, level, address):
    action = MemoryAction.ALLOCATE if count > 0 else MemoryAction.FREE
    return {"time_ns": time, "row": row, "bytes": count, "allocated_bytes": level, "address": address,
            "device": 0, "action": action}  # fmt: skip


# --- questions and answers -------------------------------------------------------------------------------


def overlaps(trace):
    by_step = overlap_by_step(trace)
    return [*overlap(trace), "by step, and what blocks", *blocking(trace, by_step)]


def purposes(trace):
    return {
        f"{row} {trace.name_of(row)}": Purpose(purpose).name
        for row, purpose in enumerate(attribution(trace).purpose)
        if purpose
    }


def of_dispatch(trace):
    said = advise(Facts(trace))
    findings = [one.rule for one in said.findings]
    return [
        findings,
        [f"{one.rule}: {one.missing}" for one in said.abstained if "only dispatch" in one.missing],
    ]


def queued(trace):
    return list(zip(*(each.tolist() for each in queue_series(trace, trace.device_work())), strict=True))


def parts_of(answer: Answer):
    return {line.name: PARTS[answer.tree.part[line.node]] if answer.tree.part[line.node] >= 0 else None
            for line in answer.lines}  # fmt: skip


def collectives(trace):
    rows, names = _collectives(trace)
    return [(row, trace.strings[name]) for row, name in zip(rows.tolist(), names.tolist(), strict=True)]


def shown(answer: Answer):
    """Return the rows of a view, with the sums of its tree, and what it says beside them."""
    rows = [{name: value for name, value in row.items() if name not in ("parent", "id")}
            for row in answer.as_dict()["rows"]]  # fmt: skip
    return [f"{answer.windows} windows: {answer.label}", *rows, *answer.notes]


QUESTIONS = {
    "breakdown": breakdown, "purposes": purposes, "overlap": overlaps, "idle": idle, "launches": launches,
    "windows": lambda trace: [windows(trace).marked, windows(trace).start_ns, windows(trace).end_ns],
    "queue": queued, "path": critical_paths, "kernels": kernel_details,
    "shapes": lambda trace: [shape_table(trace), shape_table(trace).text],
    "waits": lambda trace: waited_for(Facts(trace)), "facts": lambda trace: step_facts(Facts(trace)),
    "dispatch": of_dispatch, "memory": lambda trace: memory_report(trace).text,
    "steps": lambda trace: [*trace_steps(trace).rows, trace_steps(trace).text],
}  # fmt: skip
NAMES = {
    of.__name__: of for of in (
        synchronizing_calls, critical_path, idle, view, ViewOptions, measure, node_names, collectives,
        parts_of, kernel_details,
    )
} | {
    "Kind": Kind, "GPU": GPU, "SMALL": SMALL, "LARGE": LARGE, "QUESTIONS": QUESTIONS,
    "allocating": {  # 10 before the recording; a holds 100 at the peak, b 50 that it frees before the end
        "recorded": {"timeline", "memory"},
        "memory": [change(10, 0, 100, 110, 1), change(210, 1, 50, 160, 2), change(290, 1, -50, 110, 2)],
    },
}  # fmt: skip


def answer_of(case: Case, known: dict[str, Any], make) -> Any:
    """Make the trace of a case, and ask."""
    maker = Maker(make)
    known |= {name: getattr(maker, name) for name in dir(maker) if not name.startswith("_")}
    given: dict[str, Any] = {}
    lines: dict[str, str] = {}
    events = []
    for line in case.lines:
        word, _, rest = line.partition(": ")
        if line.startswith("! "):
            given |= eval(f"dict({line[2:]})", known)
        elif line.startswith("+ "):
            events += eval(line[2:], known)
        elif line.startswith("| "):
            events += events_of_line(line, known)
        elif not line.startswith("@ "):
            lines[word] = rest
    known["trace"] = trace = eval(lines["trace"], known) if "trace" in lines else make.build(events, **given)
    try:
        if "ask" in lines:
            return eval(lines["ask"], known)
        if case.rule in VIEWS:
            return shown(
                view(case.rule, trace, ViewOptions(**eval(f"dict({lines.get('options', '')})", known)))
            )
        return QUESTIONS[case.rule](trace)
    except StepscopeError as error:
        return f"{type(error).__name__}: {error}"


def plain(value: Any) -> Any:
    """Return an answer as JSON has it, with four digits of each fraction."""
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items() if name not in ("pieces", "tree")}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.4g}")
    return value.item() if isinstance(value, np.generic) else value


def lines_of(answer: Any) -> Iterable[str]:
    """Yield an answer as lines: each element of a list, and each field of what holds some, is one."""
    if isinstance(answer, str):
        yield from answer.splitlines()
    elif isinstance(answer, list):
        for each in answer:
            yield from lines_of(each) if isinstance(each, str) or holds_rows(each) else [json.dumps(each)]
    elif holds_rows(answer):
        for name, value in answer.items():
            rows = value if isinstance(value, list) and value and isinstance(value[0], (dict, list)) else None
            yield f"{name}:" if rows else f"{name}: {json.dumps(value)}"
            yield from (f"   {json.dumps(row)}" for row in rows or ())
    else:
        yield json.dumps(answer)


def holds_rows(answer: Any) -> bool:
    return isinstance(answer, dict) and any(isinstance(value, (list, dict)) for value in answer.values())


SHARED, CASES = read_table(Path(__file__).with_name("cases.txt"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_what_is_answered_about_made_traces(case: Case, make, approved) -> None:
    lines = []
    for label, known in case.choices(dict(NAMES)):
        rows = lines_of(plain(answer_of(case, known, make)))
        lines += [f"{label}:"] * bool(label) + [f"   {row}" for row in rows]
    approved.check("analyses", case.title, "\n".join(lines))


@pytest.mark.parametrize("steps", ["", "1", "0-1"])
def test_means_of_kernels_are_those_of_the_kernel_view(make, steps) -> None:
    trace = keep_steps(Maker(make).multiplied(A100, 100_000), steps)
    answer = view("kernel", trace, ViewOptions(max_depth=1000))
    columns = {column.key: column.values for column in answer.columns}
    rows = {line.name: columns["device_ns"][at] for at, line in enumerate(answer.lines) if at}
    assert rows == pytest.approx({row.name: row.step_mean_ns for row in kernel_details(trace).rows})


def test_an_empty_trace_is_an_error(make) -> None:
    with pytest.raises(EmptyTraceError):
        view("op", make.build([]))


def test_work_that_cannot_be_told_leaves_utilisation_open(make) -> None:
    trace = Maker(make).product_of()
    name = trace.name.copy()
    name[trace.named("aten::linear")] = len(trace.strings)
    strings = Strings.of([*trace.strings.texts(), "aten::convolution"])
    answer = shape_table(replace(trace, name=name, strings=strings))
    assert answer.steps[0].utilisation_ratio is None
    assert "1 call of aten::convolution" in answer.notes[-1]


def test_a_table_of_shapes_has_the_utilisation_of_its_step_and_its_peak(make) -> None:
    trace = Maker(make).products([LARGE, LARGE])
    table = shape_table(trace)
    assert table.utilisation_ratio == pytest.approx(table.steps[0].utilisation_ratio)
    assert table.as_dict()["peak"]["name"] == table.peak.name
    assert replace(table, peak=None).as_dict()["peak"] is None
    assert [row["calls"] for row in table.as_dict()["rows"]] == [row.calls for row in table.rows]


def test_each_case_is_approved(approved) -> None:
    assert not SHARED
    approved.check_names("analyses", [case.title for case in CASES])
