from __future__ import annotations

import pytest

from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.phases import Phase, name_phases, phases
from stepscope.analyze.step_tree import PARTS
from stepscope.trace.names import Strings


@pytest.fixture
def training(make):
    """One step of 100: load 0-20, forward kernel 25-45, backward 45-70, all-reduce 60-80, optimizer 85-90."""
    e, K = make.event, make.Kind
    return [
        e("ProfilerStep#1", K.STEP, 0, 100, step=1),
        e("enumerate(DataLoader)#__next__", K.DATA_LOADING, 0, 20),
        e("aten::stack", K.HOST_OP, 5, 5),
        e("aten::mm", K.HOST_OP, 20, 10),
        e("launch", K.RUNTIME_CALL, 22, 2, correlation=1),
        e("autograd::engine::evaluate_function: MmBackward0", K.HOST_OP, 40, 10, lane="autograd"),
        e("launch", K.RUNTIME_CALL, 42, 2, lane="autograd", correlation=2),
        e("nccl", K.RUNTIME_CALL, 44, 2, lane="autograd", correlation=3),
        e("Optimizer.step#SGD.step", K.ANNOTATION, 80, 10),
        e("launch", K.RUNTIME_CALL, 82, 2, correlation=4),
        e("k1", K.KERNEL, 25, 20, device=0, stream=7, correlation=1),
        e("k2", K.KERNEL, 45, 25, device=0, stream=7, correlation=2),
        e("ncclDevKernel", K.COLLECTIVE, 60, 20, device=0, stream=9, correlation=3),
        e("k3", K.KERNEL, 85, 5, device=0, stream=7, correlation=4),
        e("Memcpy DtoH", K.MEMCPY, 88, 6, device=0, stream=7),
    ]


def test_parts_of_a_training_step(make, training):
    (step,) = breakdown(make.build(training)).steps
    assert step.parts_ns == {
        "data_loading": 20,
        "forward": 20,
        "backward": 25,
        "optimizer": 5,
        "other": 0,
        "communication": 10,  # of 20, the rest is behind the backward pass
        "copy": 4,  # of 6, the rest is behind the optimizer
        "idle": 16,
    }
    assert sum(step.parts_ns.values()) == step.wall_ns == 100
    assert step.ratio("backward") == 0.25


def test_what_is_not_recorded_is_not_zero(make, training):
    kept = [e for e in training if e.kind not in (make.Kind.DATA_LOADING, make.Kind.ANNOTATION)]
    found = breakdown(make.build(kept))
    assert found.steps[0].parts_ns["data_loading"] is None
    assert found.steps[0].parts_ns["optimizer"] is None
    assert set(found.missing) == {"data_loading", "optimizer"}
    assert found.ratio("data_loading") is None
    assert found.total_ns("communication") == 10
    assert sum(value or 0 for value in found.steps[0].parts_ns.values()) == 100
    assert "no optimizer was recognised" in found.notes[0]


def test_what_follows_the_backward_pass_is_not_forward_by_default(make, training):
    """An optimizer of one's own has no name that tells it."""
    e, K = make.event, make.Kind
    own = [
        e("aten::_foreach_add_", K.HOST_OP, 80, 10),
        *(each for each in training if each.kind != K.ANNOTATION),
    ]
    found = breakdown(make.build(own))
    assert found.notes == (
        "no optimizer was recognised: operators after the backward pass are in no known part",
    )
    (step,) = found.steps
    assert (step.parts_ns["forward"], step.parts_ns["other"], step.parts_ns["optimizer"]) == (20, 5, None)
    unmarked = breakdown(make.build([each for each in own if each.kind != K.STEP]))
    assert any("its operators count as forward" in note for note in unmarked.notes)


def test_work_counts_in_the_step_in_which_it_runs(make):
    e, K = make.event, make.Kind
    events = [
        e("s", K.STEP, 0, 50, step=1),
        e("s", K.STEP, 50, 50, step=2),
        e("launch", K.RUNTIME_CALL, 10, 1, correlation=1),
        e("k", K.KERNEL, 40, 30, device=0, correlation=1),
    ]
    first, second = breakdown(make.build(events)).steps
    assert (first.parts_ns["other"], second.parts_ns["other"]) == (10, 20)


def test_a_host_without_a_device(make):
    e, K = make.event, make.Kind
    events = [
        e("s", K.STEP, 0, 100, step=1),
        e("next", K.DATA_LOADING, 0, 30),
        e("aten::collate", K.HOST_OP, 5, 20),
        e("aten::mm", K.HOST_OP, 30, 20),
        e("MmBackward0", K.HOST_OP, 55, 25),
        e("gloo:all_reduce", K.COLLECTIVE, 70, 20, lane="gloo"),
    ]
    (step,) = breakdown(make.build(events)).steps
    parts = step.parts_ns
    assert (parts["data_loading"], parts["forward"], parts["backward"]) == (30, 20, 25)
    assert parts["communication"] == 10  # of 20
    assert step.parts_ns["copy"] is None
    assert step.parts_ns["idle"] == 15


def test_loading_in_the_background_is_not_the_steps(make):
    e, K = make.event, make.Kind
    events = [
        e("s", K.STEP, 0, 100, step=1),
        e("next", K.DATA_LOADING, 0, 10),
        e("worker", K.DATA_LOADING, 10, 80, lane="worker"),
        e("k", K.KERNEL, 20, 10, device=0),
    ]
    assert breakdown(make.build(events)).steps[0].parts_ns["data_loading"] == 10


def test_without_steps_the_whole_is_one(make):
    e, K = make.event, make.Kind
    found = breakdown(make.build([e("k", K.KERNEL, 10, 20, device=0), e("k", K.KERNEL, 50, 10, device=0)]))
    assert [(s.step, s.wall_ns, s.parts_ns["idle"]) for s in found.steps] == [(-1, 50, 20)]
    assert "no steps were recorded" in found.notes[0]


def test_ranks_are_apart(make, training):
    other = [make.event(e.name, e.kind, e.start, e.duration, lane=e.lane[3], rank=1, device=e.device,
                        stream=e.stream, **e.more) for e in training]  # fmt: skip
    found = breakdown(make.build(training + other))
    assert [step.rank for step in found.steps] == [0, 1]
    assert found.steps[0].parts_ns == found.steps[1].parts_ns
    assert found.total_ns("forward") == 40
    assert found.total_ns("forward", rank=1) == 20


def test_phases_reach_children_and_kernels(make, training):
    trace = make.build(training)
    found = phases(trace)
    by_name = {trace.name_of(row): Phase(p).name for row, p in enumerate(found.phase) if p >= 0}
    assert by_name["k1"] == "FORWARD"
    assert by_name["k2"] == by_name["ncclDevKernel"] == "BACKWARD"
    assert by_name["k3"] == "OPTIMIZER"
    assert by_name["aten::stack"] == "DATA_LOADING"
    assert found.seen == set(Phase)


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("Optimizer.step#AdamW.step", Phase.OPTIMIZER),
        ("Optimizer.zero_grad#SGD.zero_grad", Phase.OPTIMIZER),
        ("## optimizer ##", Phase.OPTIMIZER),
        ("## forward ##", Phase.FORWARD),
        ("forward", Phase.FORWARD),
        ("forward_hook_registry", None),
        ("AddmmBackward0", Phase.BACKWARD),
        ("torch::autograd::AccumulateGrad", Phase.BACKWARD),
        ("jit(f)/transpose(jvp(main))/dot_general", Phase.BACKWARD),
        ("jit(f)/jvp(main)/dot_general", Phase.FORWARD),
        ("gradients", Phase.BACKWARD),
        ("training/Adagrad/gradients/gradients/MatMul_grad", Phase.BACKWARD),
        ("training/Adam/update_dense/ResourceApplyAdam", Phase.OPTIMIZER),
        ("Adagrad", Phase.OPTIMIZER),
        ("gradients_clip", None),
        ("aten::mm", None),
    ],
)
def test_names(name, phase):
    assert name_phases(Strings.of([name])).tolist() == [-1 if phase is None else phase]


def test_the_innermost_scope_decides(make):
    e, K = make.event, make.Kind
    events = [
        e("MatMul", K.HOST_OP, 0, 5, scope="training/Adagrad/gradients/dnn"),
        e("Assign", K.HOST_OP, 5, 5, scope="training/Adagrad/update"),
        e("MatMul", K.HOST_OP, 10, 5, scope="dnn/layer"),
    ]
    trace = make.build(events)
    assert phases(trace).phase.tolist() == [Phase.BACKWARD, Phase.OPTIMIZER, Phase.FORWARD]


def test_parts_are_named():
    assert set(PARTS) >= {"data_loading", "forward", "backward", "optimizer", "communication", "copy", "idle"}


def test_a_step_begins_when_its_data_is_asked_for(make):
    """As ``for batch in loader: with run.step():`` leaves it: loading lies before the mark of the step."""
    e, K = make.event, make.Kind
    events = [
        e("DataLoader", K.DATA_LOADING, 0, 30_000_000),
        e("ProfilerStep#5", K.STEP, 31_000_000, 10_000_000, step=5),
        e("DataLoader", K.DATA_LOADING, 41_000_000, 3_000_000),
        e("evaluation", K.ANNOTATION, 44_000_000, 50_000_000),
        e("DataLoader", K.DATA_LOADING, 94_000_000, 20_000_000),
        e("ProfilerStep#6", K.STEP, 114_500_000, 10_000_000, step=6),
        e("DataLoader", K.DATA_LOADING, 124_500_000, 1_000_000),
        e("evaluation", K.ANNOTATION, 125_500_000, 50_000_000),
        e("ProfilerStep#7", K.STEP, 175_500_000, 10_000_000, step=7),
    ]
    one, two, three = breakdown(make.build(events)).steps
    assert (one.wall_ns, one.parts_ns["data_loading"]) == (41_000_000, 30_000_000)
    assert (two.wall_ns, two.parts_ns["data_loading"]) == (30_500_000, 20_000_000)
    assert (three.wall_ns, three.parts_ns["data_loading"]) == (10_000_000, 0), (
        "what it loaded is too far away"
    )


def test_time_between_steps_is_in_none_of_them(make):
    e, K = make.event, make.Kind
    found = breakdown(
        make.build(
            [
                e("step", K.STEP, 0, 100, step=1),
                e("step", K.STEP, 100, 100, step=2),
                e("step", K.STEP, 260, 100, step=3),
                e("aten::mm", K.HOST_OP, 0, 90),
                e("callback", K.HOST_OP, 205, 50),
            ]
        )
    )
    assert [step.after_ns for step in found.steps] == [0, 60, None]
    assert [sum(value or 0 for value in step.parts_ns.values()) for step in found.steps] == [100, 100, 100]


def test_between_steps_of_which_some_were_not_recorded_lies_nothing_known(make):
    e, K = make.event, make.Kind
    steps = [e("step", K.STEP, 1000 * n, 100, step=number) for n, number in enumerate((400, 800, 801))]
    found = breakdown(make.build([*steps, e("aten::mm", K.HOST_OP, 0, 90)]))
    assert [step.after_ns for step in found.steps] == [None, 900, None]


def test_what_takes_an_element_from_a_pipeline_loads_and_what_the_pipeline_runs_is_no_forward_pass(make):
    """TensorFlow's eager ``next(dataset)``, while a thread of the pipeline runs Python."""
    Kind = make.Kind
    events = [
        make.event("train", Kind.STEP, 0, 1000, step=0),
        make.event("EagerLocalExecute: IteratorGetNext", Kind.HOST_OP, 0, 600),
        make.event("IteratorGetNextOp::DoCompute", Kind.DATA_LOADING, 50, 500),
        make.event("PyFunc:PyFunc", Kind.HOST_OP, 0, 900, lane="tf_data_private_threadpool/12"),
        make.event("MatMul", Kind.HOST_OP, 600, 100),
        make.event("gradient_tape/MatMul", Kind.HOST_OP, 700, 200),
    ]
    trace = make.build(events, format="xplane")
    (step,) = breakdown(trace).steps
    told = {part: ns for part, ns in step.parts_ns.items() if ns}
    assert told == {"data_loading": 500, "forward": 100, "backward": 200, "idle": 200}
