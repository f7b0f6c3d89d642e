"""Code as a view: where device work was launched; cases.txt has the other views."""

from types import SimpleNamespace

import numpy as np
import pytest

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.overlap import overlap_by_step
from stepscope.analyze.views import Answer, view
from stepscope.errors import UsageError
from stepscope.trace.model import Kind, Trace
from stepscope.trace.names import Paths


def values(answer: Answer, key: str) -> dict[str, float | None]:
    return {row["name"]: row.get(key) for row in answer.as_dict()["rows"]}


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


def test_a_rank_without_steps_is_no_step_of_another(make: SimpleNamespace) -> None:
    event = make.event
    trace = make.build(
        [
            event("step", Kind.STEP, 0, 40, step=0),
            event("mm", Kind.HOST_OP, 0, 30),
            event("alone", Kind.HOST_OP, 0, 1, rank=1),
        ]
    )
    for step in (-1, 0):
        answer = view("graph", trace, ViewOptions(step=step))
        assert answer.tree.total["step_ns"][0] == 40
    with pytest.raises(UsageError, match="step 1 was not profiled"):
        view("graph", trace, ViewOptions(step=1))


def test_a_device_that_did_nothing_for_any_time_has_no_window(make: SimpleNamespace) -> None:
    work = make.event("gemm", Kind.KERNEL, 0, 0, lane="gpu", device=0, stream=1)
    assert overlap_by_step(make.build([work])) == ()
