"""The purposes of events: each rule of the table, and on every recording the accounts that must add up."""

from __future__ import annotations

import numpy as np
import pytest
from support.recordings import DATA, recorded

from stepscope.attribute.attribution import attribution
from stepscope.attribute.purpose import BRANCH_OF, Purpose, Source
from stepscope.attribute.step_tree import PARTS, step_tree
from stepscope.attribute.table import ACTIVITY_NAMES, MODEL_NAMES, OWN_NAMES, STACK_NAMES
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
        computed = ran & (tree.part == PARTS.index(part.name.lower()))
        assert (purpose[tree.row[computed]] == part).all()
