"""Updates by hand in PyTorch: how many steps a program has, by what changes between its backward passes."""

from types import SimpleNamespace

import pytest

from stepscope.kernels.marks import Switches
from stepscope.kernels.steps import Steps
from stepscope.launch import pytorch
from stepscope.launch.loop import Loop

torch = pytest.importorskip("torch")
from stepscope.integrations.torch import backward  # noqa: E402  needs PyTorch


class Process(Switches):
    """Of a run that is made at the first update."""

    opened, counted = None, False

    def __init__(self):
        super().__init__()
        self.steps = Steps(0, lambda: 0.0)
        self.uncounted, self.say = str, lambda text: None

    def run(self):
        self.opened = SimpleNamespace(step_counter=self.steps, recording=True, add_hook=lambda hook: None)
        return self.opened


@pytest.fixture
def loop(monkeypatch):
    monkeypatch.setattr(torch.optim.Optimizer, "__init__", torch.optim.Optimizer.__init__)
    monkeypatch.setattr(torch.nn.Module, "load_state_dict", torch.nn.Module.load_state_dict)
    loop = Loop(Process(), learns=torch.is_grad_enabled)
    pytorch._watch_weights(torch, torch.optim.Optimizer, loop)
    by_hand = loop.by_hand
    backward.listen(loop)
    yield loop
    backward.ignore(loop)
    backward.ignore(by_hand)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def loss_of(model, x=None):
    return model(torch.randn(16, 4) if x is None else x).pow(2).mean()


def in_place(model, step):
    loss_of(model).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
            p.grad = None


def by_data(model, step):
    loss_of(model).backward()
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-0.01)
        p.grad.zero_()


def half_precision(model, step):
    model.bfloat16()
    loss = loss_of(model, torch.randn(16, 4, dtype=torch.bfloat16))
    for p, gradient in zip(
        model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
    ):
        p.data = p.data - 0.1 * gradient


def loaded_at_times(model, step):
    in_place(model, step)
    if step % 3 == 1:
        model.load_state_dict({name: 2 * value for name, value in model.state_dict().items()})


def in_micro_batches(model, step):
    for _ in range(3):
        (loss_of(model) / 3).backward()
    in_place_after(model)


def in_place_after(model):
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
            p.grad.zero_()


def looked_into(model, step):
    """Gradients of the inputs are asked for, too, after each update and before the next."""
    in_place(model, step)
    for _ in range(2):
        x = torch.randn(16, 4, requires_grad=True)
        torch.autograd.grad(loss_of(model, x), x)


def penalised(model, step):
    x = torch.randn(16, 4, requires_grad=True)
    gradient = torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]
    (loss_of(model, x) + gradient.pow(2).mean()).backward()
    in_place_after(model)


def new_tensors(model, step):
    if step == 0:
        model.weights = {name: p.detach().requires_grad_() for name, p in model.named_parameters()}
    loss = torch.func.functional_call(model, model.weights, torch.randn(16, 4)).pow(2).mean()
    gradients = torch.autograd.grad(loss, list(model.weights.values()))
    model.weights = {
        name: (p - 0.01 * gradient).detach().requires_grad_()
        for (name, p), gradient in zip(model.weights.items(), gradients, strict=True)
    }


def by_function(model, step):
    if step == 0:
        model.weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights, x):
        return torch.func.functional_call(model, weights, x).pow(2).mean()

    gradients = torch.func.grad(loss)(model.weights, torch.randn(16, 4))
    model.weights = {name: p - 0.01 * gradients[name] for name, p in model.weights.items()}


@pytest.mark.parametrize(
    "trains",
    [
        in_place,
        by_data,
        half_precision,
        loaded_at_times,
        in_micro_batches,
        looked_into,
        penalised,
        new_tensors,
        by_function,
    ],
    ids=lambda function: function.__name__,
)
def test_each_update_is_a_step(loop, trains):
    model = network()
    for step in range(7):
        trains(model, step)
    loop.close()
    assert loop.steps.last[0] == 6


def saliency(model):
    for p in model.parameters():
        p.requires_grad_(False)
    x = torch.randn(16, 4, requires_grad=True)
    loss_of(model, x).backward()


def per_example(model):
    def loss(weights, x):
        return torch.func.functional_call(model, weights, x).pow(2).mean()

    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(
        dict(model.named_parameters()), torch.randn(16, 4)
    )


def of_checkpoints(model):
    only_gradients(model)
    model.load_state_dict({name: 0.5 * value for name, value in model.state_dict().items()})


def only_gradients(model):
    model.zero_grad()
    loss_of(model).backward()


@pytest.mark.parametrize(
    "asks", [saliency, per_example, of_checkpoints, only_gradients], ids=lambda function: function.__name__
)
def test_gradients_without_updates_are_no_steps(loop, asks):
    model = network()
    for _ in range(5):
        asks(model)
    loop.close()
    assert loop.run is None


def test_a_batch_ends_the_step_of_the_update_before(loop):
    model = network()
    for step in range(4):
        loop.fetched(loop.before_fetch())
        loop.fetched(loop.before_fetch())  # skipped
        in_place(model, step)
        in_place(model, step)
    loop.before_fetch()
    assert loop.steps.last[0] == 7
    assert not loop.steps.running


def test_once_there_is_an_optimizer_it_alone_tells_of_updates(loop):
    by_hand, model = loop.by_hand, network()
    torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        in_place(model, step)  # as what seeks a sharper loss near the weights
    loop.close()
    assert loop.by_hand is None
    assert by_hand not in [each() for each in backward._passes.listeners]
    assert loop.run is None
