"""Graph nodes and what feeds them, and collectives by their wrappers; the first of a table counts as any."""

from __future__ import annotations

from stepscope.analyze.views.dataflow import node_names
from stepscope.analyze.views.measure import _collectives


def test_a_node_is_named_by_its_scope_or_else_by_its_name(make):
    e, kind = make.event, make.Kind
    trace = make.build(
        [
            e("MatMul", kind.HOST_OP, 0, 10, scope="dense"),
            e("Add", kind.HOST_OP, 20, 10, scope="dense/bias"),
            e("Relu", kind.HOST_OP, 40, 10),
        ]
    )
    key, names = node_names(trace)
    assert trace.scope[0] == 0  # the first of all scopes
    assert [names[number] for number in key.tolist()] == ["dense", "dense/bias", "Relu"]


def test_the_wrapper_of_a_collective_is_named_by_what_is_around_it(make):
    e, kind = make.event, make.Kind
    trace = make.build(
        [
            e("c10d::allreduce_", kind.HOST_OP, 0, 100),
            e("record_param_comms", kind.HOST_OP, 10, 50),
            e("work", kind.HOST_OP, 200, 100),
            e("record_param_comms", kind.HOST_OP, 210, 50),
            e("nccl:all_gather", kind.HOST_OP, 220, 20),
            e("record_param_comms", kind.HOST_OP, 400, 50),
        ]
    )
    assert trace.parent[1] == 0  # the first event
    rows, told = _collectives(trace)
    assert rows.tolist() == [1, 3, 5]
    assert [trace.strings[name] for name in told.tolist()] == [
        "c10d::allreduce_",
        "nccl:all_gather",
        "record_param_comms",
    ]


def test_a_wrapper_that_comes_first_is_named_by_what_is_in_it(make):
    e, kind = make.event, make.Kind
    trace = make.build(
        [e("record_param_comms", kind.HOST_OP, 0, 50), e("nccl:all_gather", kind.HOST_OP, 10, 20)]
    )
    _, told = _collectives(trace)
    assert [trace.strings[name] for name in told.tolist()] == ["nccl:all_gather"]
