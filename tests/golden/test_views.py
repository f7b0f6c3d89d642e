"""Views of real traces: numbers that can be known in other ways."""

import json

import numpy as np
import pytest
from support.recordings import recorded

from stepscope.analyze.advise import Facts, advise
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import VIEWS, view
from stepscope.trace import load_trace
from stepscope.trace.model import DEVICE_WORK, Trace

EVERYTHING = ViewOptions(max_depth=100_000)


@pytest.fixture(scope="module", params=["resnet50_v100_workers0", "v100_rank1of2", "b200_rank0of8"])
def trace(request: pytest.FixtureRequest) -> Trace:
    return load_trace(recorded(f"traces/kineto/{request.param}.json.gz"), cache=False)


@pytest.mark.parametrize("name", VIEWS)
def test_no_view_loses_or_invents_device_time(trace: Trace, name: str) -> None:
    if name == "code" and "stacks" not in trace.recorded:
        pytest.skip("no Python stacks in this trace")
    answer = view(name, trace, EVERYTHING)
    counted = np.isin(trace.kind, DEVICE_WORK) & (trace.device >= 0)
    if (trace.step >= 0).any():
        counted &= trace.step >= 0
    column = next(one for one in answer.columns if one.key in ("device_total_ns", "device_ns"))
    assert column.values[0] * answer.windows == pytest.approx(trace.duration_ns[counted].sum())
    assert answer.tree.own["device_ns"].sum() == answer.tree.total["device_ns"][0]


def test_the_answer_is_json(trace: Trace) -> None:
    for name in ("scope", "graph", "op", "kernel"):
        rows = json.loads(json.dumps(view(name, trace).as_dict(), allow_nan=False))["rows"]
        assert rows[0]["name"] == "(all)"


def test_the_spread_is_that_of_the_steps() -> None:
    trace = load_trace(recorded("traces/kineto/resnet50_v100_workers0.json.gz"), cache=False)
    work = (trace.device >= 0) & (trace.step >= 0)
    per_step = [trace.duration_ns[work & (trace.step == step)].sum() for step in np.unique(trace.step[work])]
    answer = view("kernel", trace)
    shown = [
        next(c for c in answer.columns if c.key == f"device_{x}_ns").values[0]
        for x in ("min", "median", "max")
    ]
    assert shown == [min(per_step), np.median(per_step), max(per_step)]
    assert answer.label == "mean per step over 2 profiled steps"


@pytest.mark.parametrize(("workers", "severity"), [(0, "high"), (4, None)])
def test_the_input_rule(workers: int, severity: str | None) -> None:
    advice = advise(
        Facts(load_trace(recorded(f"traces/kineto/resnet50_v100_workers{workers}.json.gz"), cache=False))
    )
    found = [one for one in advice.findings if one.rule == "input-bound"]
    assert [one.severity for one in found] == ([severity] if severity else [])
    if found:
        assert 0.3 <= found[0].evidence["input_ratio"] <= 0.4


def test_a_tensorflow_timeline_is_shown_by_data_flow() -> None:
    trace = load_trace(recorded("tf_estimator/single/timeline-400.json.gz"), cache=False)
    answer = view("graph", trace, EVERYTHING)
    nodes = [line.name for line in answer.lines[1:]]
    assert len(nodes) == len(set(nodes))  # each node once, under its first consumer
    total = next(c for c in answer.columns if c.key == "host_total_ns").values[0]
    assert total == trace.self_ns[trace.device < 0].sum()


def test_the_critical_ranks_of_a_real_job() -> None:
    advice = advise(Facts(load_trace(recorded("traces/dlrm_8xv100"), cache=False)))
    first = advice.findings[0]
    # Known of this job: rank 7 comes last for 76 % of the waiting.
    assert (first.rule, first.place["rank"]) == ("slow-rank", 7)
    assert first.evidence["late_ratio"] == pytest.approx(0.76, abs=0.005)
    assert not [one for one in advice.findings if one.rule == "communication-bound"]
