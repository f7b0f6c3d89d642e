"""The purposes of events: each rule of the table, and on every recording the accounts that must add up."""

import numpy as np
import pytest
from support.recordings import DATA, recorded

from stepscope.analyze.breakdown import breakdown_of
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import view
from stepscope.analyze.views.measure import measure
from stepscope.attribute.attribution import attribution
from stepscope.attribute.purpose import BRANCH_OF, Purpose, Source
from stepscope.attribute.spans import Spans
from stepscope.attribute.step_tree import PARTS, step_tree
from stepscope.attribute.table import (
    ACTIVITY_NAMES,
    CALLBACKS,
    EXCHANGES,
    JOINS,
    MAKES,
    MESSAGES,
    MODEL_NAMES,
    OWN_NAMES,
    READING,
    RECOMPUTES,
    STACK_NAMES,
    TO_DEVICE,
    WAITS,
)
from stepscope.trace import load_trace
from stepscope.trace.model import Kind

RULES = [
    pytest.param(part, place, id=rule.example)
    for part in (MODEL_NAMES, STACK_NAMES, ACTIVITY_NAMES, OWN_NAMES)
    for place, rule in enumerate(part.rules)
]
RECORDED = [
    *(
        path.relative_to(DATA).as_posix()
        for kind in ("kineto", "critical_path", "xplane")
        for path in sorted((DATA / "traces" / kind).glob("*.*"))
    ),
    "traces/dlrm_8xv100",
    *(path.relative_to(DATA).as_posix() for path in sorted((DATA / "tf_estimator").rglob("timeline-*"))),
    *(path.relative_to(DATA).as_posix() for path in sorted((DATA / "tfprof").rglob("timeline-*"))),
]


@pytest.mark.parametrize(("part", "place"), RULES)
def test_each_rule_is_the_first_for_its_example(part, place):
    assert part.number_of(part.rules[place].example) == place


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("Optimizer.step#AdamW.step", Purpose.OPTIMIZER),
        ("Optimizer.zero_grad#SGD.zero_grad", Purpose.OPTIMIZER),
        ("## optimizer ##", Purpose.OPTIMIZER),
        ("## forward ##", Purpose.FORWARD),
        ("forward", Purpose.FORWARD),
        ("forward_hook_registry", Purpose.UNKNOWN),
        ("AddmmBackward0", Purpose.BACKWARD),
        ("torch::autograd::AccumulateGrad", Purpose.BACKWARD),
        ("jit(f)/transpose(jvp(main))/dot_general", Purpose.BACKWARD),
        ("jit(f)/jvp(main)/dot_general", Purpose.FORWARD),
        ("gradients", Purpose.BACKWARD),
        ("training/Adagrad/gradients/gradients/MatMul_grad", Purpose.BACKWARD),
        ("training/Adam/update_dense/ResourceApplyAdam", Purpose.OPTIMIZER),
        ("Adagrad", Purpose.OPTIMIZER),
        ("gradients_clip", Purpose.UNKNOWN),
        ("aten::mm", Purpose.UNKNOWN),
    ],
)
def test_names_of_parts_of_the_model(name, purpose):
    assert MODEL_NAMES.purpose_of(name) == purpose


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("train.py(20): predict", Purpose.UNKNOWN),
        ("$model.py:20 predict", Purpose.UNKNOWN),
        ("/v/site-packages/keras/src/trainers/trainer.py(500): predict", Purpose.EVALUATING),
        ("train.py(20): evaluate", Purpose.EVALUATING),
    ],
)
def test_names_of_evaluations(name, purpose):
    """A program's own ``predict`` may be the model that it trains."""
    assert ACTIVITY_NAMES.purpose_of(name) == purpose


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        (
            TO_DEVICE,
            ("Memcpy HtoD (Pageable -> Device)", "MEMCPYHtoD", "CopyHostToDevice", "copy host to device",
             "Host -> Device"),
            ("Memcpy DtoH (Device -> Pageable)", "copy device to host", "copy device to device"),
        ),
        (
            READING,
            ("aten::item", "aten::_local_scalar_dense", "np.asarray(jax.Array)", "$ops.py:7 numpy"),
            ("aten::index", "items", "$ops.py:7 numpy_function"),
        ),
        (
            WAITS,
            ("<built-in method recv_into of _socket.socket object at 0x7f>", "cudaStreamSynchronize",
             "<built-in method kevent of select.kqueue object at 0x7f>", "Thread.join (/x/threading.py:9)",
             "_c10d_functional::wait_tensor", "wait (threading.py:9)"),
            ("<built-in method receive of Queue>", "str.join", "Pool.join (/x/pool.py:9)", "aten::await_"),
        ),
        (
            EXCHANGES,
            ("/v/site-packages/torch/distributed/distributed_c10d.py(2810): all_reduce",),
            ("/v/torch/distributions/normal.py(9): sample",),
        ),
        (
            MESSAGES,
            ("/usr/lib/multiprocessing/connection.py(247): recv", "ray/_private/worker.py(8): get"),
            ("/usr/lib/multiprocessing/process.py(9): start", "x-ray/scan.py(8): read"),
        ),
        (JOINS, ("threading.py(9): join",), ("threading.py(9): wait", "posixpath.py(9): join")),
        (
            RECOMPUTES,
            ("torch/utils/checkpoint.py(311): backward",),
            ("torch/utils/checkpoint.py(9): checkpoint", "train.py(9): backward"),
        ),
        (
            MAKES,
            ("torch/nn/modules/linear.py(110): __init__", "torch/nn/init.py(20): reset_parameters"),
            ("torch/nn/modules/linear.py(120): forward",),
        ),
        (
            CALLBACKS,
            ("pure_callback", "xla_ffi_python_cpu_callback", "EagerPyFunc", "PyFuncStateless"),
            ("callback", "train.py(9): pure_callback"),
        ),
    ],
    ids=[
        "copies to a device", "reads", "waits", "exchanges", "messages", "joins", "computing again",
        "making a module", "callbacks",
    ],
)  # fmt: skip
def test_names_that_several_views_ask_for(pattern, names, others):
    assert [name for name in names if not pattern.search(name)] == []
    assert [name for name in others if pattern.search(name)] == []


@pytest.mark.parametrize("name", RECORDED)
def test_purposes_are_an_account_of_each_step(name):
    trace = load_trace(recorded(name), cache=False)
    known, tree = attribution(trace), step_tree(trace)
    spent = tree.summed(known.purpose[tree.row], len(Purpose))
    assert (spent.sum(axis=1) + tree.nothing_ns == tree.wall_ns).all()
    branches = np.zeros((len(tree.windows), BRANCH_OF.max() + 1), np.int64)
    np.add.at(branches.T, BRANCH_OF, spent.T)
    assert (branches.sum(axis=1) == spent.sum(axis=1)).all()
    assert ((known.purpose == Purpose.UNKNOWN) == (known.source == Source.NONE)).all()


@pytest.mark.parametrize("name", RECORDED)
def test_the_parts_of_a_step_are_a_projection(name):
    trace = load_trace(recorded(name), cache=False)
    purpose, tree = attribution(trace).purpose, step_tree(trace)
    ran = np.isin(trace.kind[tree.row], (Kind.KERNEL, Kind.HOST_OP))
    for part in (Purpose.FORWARD, Purpose.BACKWARD, Purpose.OPTIMIZER):
        assert (purpose[tree.row[ran & (tree.part == PARTS.index(part.name.lower()))]] == part).all()


@pytest.mark.parametrize("name", RECORDED)
def test_operations_begin_with_the_parts_of_the_summary(name):
    trace = load_trace(recorded(name), cache=False)
    tree = step_tree(trace)
    found = breakdown_of(trace, tree)
    steps = len(found.steps)
    parts = {part: total / steps for part in PARTS if (total := found.total_ns(part))}
    measures, options = measure(trace, tree=tree), ViewOptions().changed({"max_depth": "10000"})
    for kind in ("code", "scope", "op"):
        if kind == "code" and not (trace.stack >= 0).any():
            continue
        answer = view(kind, trace, options, measures=measures, by_part=True)
        [total, own] = [
            next(column.values for column in answer.columns if column.key == f"step_{which}_ns")
            for which in ("total", "self")
        ]
        listed = {line.name: total[at] for at, line in enumerate(answer.lines) if line.depth == 1}
        known = {part: ns for part, ns in listed.items() if part in parts}
        assert known == pytest.approx(parts)
        assert set(listed) - set(known) <= {part for part in PARTS if found.total_ns(part) is None}
        assert own.sum() == pytest.approx(total[0]) == pytest.approx(tree.wall_ns.sum() / steps)


@pytest.mark.parametrize("name", RECORDED)
def test_a_device_has_no_more_time_than_its_lanes(name):
    trace = load_trace(recorded(name), cache=False)
    work = trace.device_work()
    of_lane = {
        lane: set(zip(*(column[work[trace.lane[work] == lane]].tolist() for column in columns), strict=True))
        for columns in [(trace.name, trace.start_ns, trace.duration_ns)]
        for lane in np.unique(trace.lane[work]).tolist()
    }
    for lane, events in of_lane.items():
        rows = work[trace.lane[work] == lane]
        span = trace.end_ns[rows].max() - trace.start_ns[rows].min()
        assert Spans.of(trace.start_ns[rows], trace.end_ns[rows]).measure_ns <= span
        for other, others in of_lane.items():
            same_rank = trace.lanes[lane].rank == trace.lanes[other].rank
            assert lane == other or not same_rank or 2 * len(events & others) <= len(events), (lane, other)


@pytest.mark.parametrize("name", RECORDED)
def test_nothing_recorded_means_on_no_lane(name):
    trace = load_trace(recorded(name), cache=False)
    tree = step_tree(trace)
    for window in range(len(tree.windows)):
        mine = tree.window == window
        start, end = int(tree.windows.start_ns[window]), int(tree.windows.end_ns[window])
        gaps = Spans.of(tree.start_ns[mine], tree.end_ns[mine]).gaps(start, end)
        beside = np.isin(trace.kind, (Kind.STEP, Kind.OVERHEAD))
        rows = np.flatnonzero((trace.rank == tree.windows.rank[window]) & ~beside)
        recorded_then = Spans.of(trace.start_ns[rows], trace.end_ns[rows]).intersect(gaps)
        assert recorded_then.measure_ns == 0, (window, recorded_then.measure_ns, gaps.measure_ns)


def test_an_account_names_what_a_step_does_beside_training(make):
    kinds = make.Kind
    trace = make.build(
        [
            make.event("step 1", kinds.STEP, 0, 100, step=1),
            make.event("train.py(9): main", kinds.PYTHON_FRAME, 0, 90),
            make.event("train.py(80): evaluate", kinds.PYTHON_FRAME, 0, 30),
            make.event("aten::mm", kinds.HOST_OP, 10, 20),
            make.event("<built-in function collect>", kinds.PYTHON_FRAME, 30, 40),
            make.event("<built-in method acquire of _thread.lock object>", kinds.PYTHON_FRAME, 70, 10),
        ]
    )
    (spent,) = step_tree(trace).purposes_ns(trace).tolist()
    assert {Purpose(number): ns for number, ns in enumerate(spent) if ns} == {
        Purpose.EVALUATING: 30, Purpose.COLLECTING: 40, Purpose.WAITING_THREAD: 10, Purpose.UNKNOWN: 20,
    }  # fmt: skip


def test_a_stronger_source_is_not_overridden_by_a_weaker_one(make):
    kinds = make.Kind
    trace = make.build(
        [
            make.event("train.py(80): evaluate", kinds.PYTHON_FRAME, 0, 100),  # that trains
            make.event("Optimizer.step#SGD.step", kinds.ANNOTATION, 10, 40),
            make.event("<built-in method print of module object at 0x7f>", kinds.PYTHON_FRAME, 20, 10),
            make.event("aten::add_", kinds.HOST_OP, 30, 10),
            make.event("aten::mm", kinds.HOST_OP, 60, 10),
        ]
    )
    known = attribution(trace)
    assert [Purpose(each).name for each in known.purpose] == [
        "EVALUATING", "OPTIMIZER", "OPTIMIZER", "OPTIMIZER", "EVALUATING",
    ]  # fmt: skip
    assert [Source(each).name for each in known.source] == ["STACK", *["RECORDED"] * 3, "STACK"]
