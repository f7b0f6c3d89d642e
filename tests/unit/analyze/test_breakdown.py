"""Names of phases and of the parts of a step; cases.txt has how long they took."""

from __future__ import annotations

import pytest

from stepscope.attribute.phases import Phase, name_phases
from stepscope.attribute.step_tree import PARTS
from stepscope.trace.names import Strings


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


def test_parts_are_named():
    assert set(PARTS) >= {"data_loading", "forward", "backward", "optimizer", "communication", "copy", "idle"}
