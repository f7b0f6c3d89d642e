"""The value whose gradient each step of a script descends."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from stepscope.launch.objective import Objective  # noqa: E402
from stepscope.launch.process import process  # noqa: E402


class Scaler:
    """As PyTorch's: it gives a new tensor."""

    def scale(self, outputs):
        return outputs * 1024


@pytest.fixture
def world():
    """An objective of its own autograd, the loop's optimizers, and what was recorded."""
    scaler = type("Scaler", (Scaler,), {})
    autograd = SimpleNamespace(backward=torch.autograd.backward)
    loop, recorded = SimpleNamespace(updated={1}, updates=0), []
    objective = Objective(SimpleNamespace(autograd=autograd, Tensor=torch.Tensor), loop)
    objective.watch(scaler)
    objective.begin(SimpleNamespace(scalar=lambda *point: recorded.append(point)))
    weight = torch.ones(3, requires_grad=True)
    return SimpleNamespace(
        autograd=autograd, loop=loop, recorded=recorded, objective=objective, weight=weight, scaler=scaler()
    )


def descend(world, step, *roots):
    for root in roots:
        world.autograd.backward(root)
    world.loop.updates += 1
    world.objective.after_step(step)


def test_the_passes_of_a_step_add_up(world):
    descend(world, 0, world.weight.sum() / 2, world.weight.sum() / 4)
    descend(world, 1)  # a step without a pass
    descend(world, 2, [world.weight.sum()])
    assert world.recorded == [("backward/loss", 2.25, 0), ("backward/loss", 3.0, 2)]
    assert world.weight.grad.tolist() == [1.75] * 3


def test_a_step_may_end_when_the_pass_of_the_next_one_is_over(world):
    """Without a loader the first step is known to be over at the second update."""
    for step in range(3):
        world.autograd.backward(world.weight.sum() * (step + 1))
        if step:
            world.objective.after_step(step - 1)
        world.loop.updates += 1
    world.objective.after_step(2)
    assert world.recorded == [("backward/loss", 3.0 * (step + 1), step) for step in range(3)]


def test_a_scaled_loss_is_recorded_unscaled(world):
    descend(world, 0, world.scaler.scale(world.weight.sum()))
    assert world.recorded == [("backward/loss", 3.0, 0)]


def test_a_pass_within_a_pass_is_no_part_of_the_objective(world):
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(context, value):
            context.save_for_backward(value)
            return value.clone()

        @staticmethod
        def backward(context, slope):
            inner = context.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                world.autograd.backward(inner * 1, slope)
            return inner.grad

    descend(world, 0, Again.apply(world.weight).sum())
    assert world.recorded == [("backward/loss", 3.0, 0)]


def test_a_loss_that_is_nan_is_recorded(world):
    descend(world, 0, (world.weight * float("nan")).sum())
    assert [str(value) for _, value, _ in world.recorded] == ["nan"]


@pytest.mark.parametrize("case", ["two optimizers", "another optimizer", "below 0", "a vector", "weighted"])
def test_it_stops_where_the_sum_is_no_loss_of_one_model(world, case):
    descend(world, 0, world.weight.sum())
    if case == "two optimizers":
        world.loop.updated = {1, 2}
    if case == "another optimizer":
        world.loop.updated = {2}
    if case == "a vector":
        world.autograd.backward(world.weight * 1, torch.ones(3))
    elif case == "weighted":
        world.autograd.backward(world.weight.sum(), torch.tensor(2.0))
    else:
        world.autograd.backward(-world.weight.sum() if case == "below 0" else world.weight.sum())
    world.objective.after_step(1)
    world.loop.updated = {1}
    descend(world, 2, world.weight.sum())
    assert world.recorded == [("backward/loss", 3.0, 0)]


def test_the_callback_of_a_framework_records_its_own(world):
    with process.leading():
        descend(world, 0, world.weight.sum())
    assert world.recorded == []
