import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from support.records import numbers
from torch import nn

import stepscope as ss
from stepscope.integrations.torch import watch


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def run_with(tmp_path, model, inputs, **options):
    hook = ss.ActivationHook(**{"every_n_steps": 1, "max_overhead": None, **options})
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watch(model, None, run)
        for _, given in zip(run.steps(range(len(inputs))), inputs, strict=True):
            model(given)
    assert run.problems == {}
    return numbers(tmp_path)


def test_what_layers_put_out_is_measured(tmp_path):
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3), nn.Tanh(), nn.Sigmoid())
    with torch.no_grad():
        model[2].weight.mul_(20)
    inputs = [torch.randn(5, 4) for _ in range(3)]
    found = run_with(tmp_path, model, inputs)
    for step, given in enumerate(inputs):
        out = given
        for at, layer in enumerate(model):
            out = layer(out)
            wide = out.detach().double()
            assert found[f"activations/{at}/mean"][step] == pytest.approx(
                float(wide.mean()), rel=1e-5, abs=1e-7
            )
            assert found[f"activations/{at}/std"][step] == pytest.approx(
                float(wide.std(correction=0)), rel=1e-5
            )
            assert found[f"activations/{at}/min"][step] == pytest.approx(float(wide.min()))
            zeros = float((wide == 0).double().mean())
            assert found[f"activations/{at}/fraction_of_zero_values"][step] == pytest.approx(zeros)
        saturated = float((torch.tanh(model[:3](given)).abs() >= 0.99).double().mean())
        assert found["activations/3/saturation_ratio"][step] == pytest.approx(saturated)
    assert saturated > 0
    assert "activations/1/saturation_ratio" not in found
    assert "activations/3/dead_ratio" not in found


@pytest.mark.parametrize("shape", ["rows", "images"])
def test_dead_units_are_those_silent_for_the_whole_window(tmp_path, shape):
    first = nn.Linear(3, 4) if shape == "rows" else nn.Conv2d(1, 4, 1)
    model = nn.Sequential(first, nn.ReLU())
    with torch.no_grad():
        first.weight.zero_()
        first.bias.copy_(torch.tensor([1.0, -1.0, -1.0, 1.0]))
    inputs = [torch.randn((5, 3) if shape == "rows" else (2, 1, 5, 5)) for _ in range(6)]
    dead = run_with(tmp_path, model, inputs, window=3)["activations/1/dead_ratio"]
    # The first sample tells how many units there are; three silent ones later the two are dead.
    assert dead == {3: 0.5, 4: 0.5, 5: 0.5}


def test_evaluation_is_not_measured_and_no_hook_stays(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    hook = ss.ActivationHook(every_n_steps=1, layers=lambda name, layer: isinstance(layer, nn.ReLU))
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watched = watch(model, None, run)
        model.eval()
        model(torch.ones(1, 2))
        model.train()
        with torch.no_grad():
            model(torch.ones(1, 2))
        for _ in range(3):
            model(torch.ones(1, 2))
        watched.remove()
        model(torch.ones(1, 2))
    found = numbers(tmp_path)
    assert sorted(found["activations/1/mean"]) == [0, 1, 2]
    assert not any(tag.startswith("activations/0") for tag in found)
    assert not any(module._forward_hooks for module in model.modules())


def test_outputs_that_are_no_tensor_or_not_finite(tmp_path):
    class Two(nn.Module):
        def forward(self, x):
            return {"numbers": [1], "out": x / 0}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.two, self.ids = nn.LSTM(2, 3), Two(), nn.Flatten()

        def forward(self, x):
            self.ids(x.long())
            return self.two(self.rnn(x)[0])

    found = run_with(tmp_path, Outer(), [torch.randn(2, 2, 2)], histograms_every=1)
    assert found["activations/two/nonfinite_count"] == {0: 12} or "activations/two/mean" not in found
    assert np.isfinite(found["activations/rnn/mean"][0])
    assert not any(tag.startswith("activations/ids") for tag in found)


class Functional(nn.Module):
    """Activations that are functions, one that is a module, and a sum that is not a layer's output."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.act, self.fc3 = nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)
        with torch.no_grad():
            self.fc1.weight.zero_()
            self.fc1.bias.copy_(torch.tensor([1.0, -1.0, 1.0, 1.0]))
            self.fc3.weight.mul_(100)

    def forward(self, x):
        x = nn.functional.relu(self.fc1(x))
        x = self.act(self.fc2(x))
        return torch.relu(torch.tanh(self.fc3(x)) + 1)


def test_activations_that_are_functions_are_measured_under_the_layer_before(tmp_path):
    found = run_with(tmp_path, Functional(), [torch.randn(5, 4) for _ in range(4)], window=3)
    assert found["activations/fc1/dead_ratio"] == {3: 0.25}
    assert "activations/act/dead_ratio" in found
    assert "activations/fc2/dead_ratio" not in found  # its module says so already
    assert found["activations/fc3/saturation_ratio"][3] > 0
    assert "activations/fc3/dead_ratio" not in found


def test_calls_are_seen_in_measured_passes_only_and_an_error_leaves_nothing_behind(tmp_path):
    class Raises(Functional):
        def forward(self, x):
            super().forward(x)
            raise ValueError("mine")

    model = Raises()
    with ss.Run(tmp_path, hooks=[ss.ActivationHook(every_n_steps=1, max_overhead=None)]) as run:
        watch(model, None, run)
        for _ in run.steps(range(2)):
            with pytest.raises(ValueError, match="mine"):
                model(torch.randn(5, 4))
    assert torch.overrides._get_current_function_mode() is None
    assert "__torch_function__" not in repr(torch.relu)


class Parts(nn.Module):
    """Two layers with an activation between them, a module or a function."""

    def __init__(self, bias=0.0, *, module=True):
        super().__init__()
        self.one, self.act, self.two = nn.Linear(4, 8), nn.ReLU() if module else None, nn.Linear(8, 1)
        nn.init.constant_(self.one.bias, bias)

    def forward(self, x):
        return self.two(self.act(self.one(x)) if self.act else nn.functional.relu(self.one(x)))

    def loss(self, x):
        return self.two(self.act(self.one(x)) if self.act else torch.relu(self.one(x))).square().mean()


WAYS = {
    "model": lambda model, x: model(x).square().mean(),
    "method": lambda model, x: model.loss(x),
    "layers": lambda model, x: model.two(model.act(model.one(x))).square().mean(),
}


def train(tmp_path, model, loss, steps=5, *, count=True):
    hook = ss.ActivationHook(every_n_steps=1, max_overhead=None, window=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    zeros = {}
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(steps)) if count else range(steps):
            x = torch.randn(6, 4)
            with torch.no_grad():
                zeros[step] = float((model.one(x) <= 0).double().mean())
            loss(model, x).backward()
            optimizer.step()
            optimizer.zero_grad()
    return numbers(tmp_path), zeros, run


@pytest.mark.parametrize("way", WAYS)
def test_layers_are_measured_whoever_calls_them(tmp_path, way):
    found, zeros, run = train(tmp_path, Parts(), WAYS[way])
    assert found["activations/act/fraction_of_zero_values"] == pytest.approx(zeros)
    assert run.problems == {}


@pytest.mark.parametrize("way", WAYS)
def test_a_dead_network_is_seen_whoever_calls_its_layers(tmp_path, way):
    found, _, _ = train(tmp_path, Parts(bias=-100.0), WAYS[way])
    assert found["activations/act/dead_ratio"] == {3: 1.0, 4: 1.0}  # the first tells how many units there are


def test_functions_in_a_method_of_the_model_are_attributed_to_the_layer_before(tmp_path):
    found, _, _ = train(tmp_path, Parts(bias=-100.0, module=False), WAYS["method"])
    assert found["activations/one/dead_ratio"] == {3: 1.0, 4: 1.0}  # the first tells how many units there are
    assert "activations/two/dead_ratio" not in found


def test_steps_of_the_optimizer_count_if_the_run_counts_none(tmp_path):
    found, zeros, _ = train(tmp_path, Parts(), WAYS["method"], count=False)
    # The first step has passed when the optimizer shows that there are any.
    assert found["activations/act/fraction_of_zero_values"] == pytest.approx(
        {step: zero for step, zero in zeros.items() if step}
    )


def test_a_layer_is_measured_until_the_next_backward_pass(tmp_path):
    """Two parts that are trained one after the other, with a checkpoint that computes one again."""
    model = nn.ModuleDict({"one": nn.Linear(2, 2), "two": nn.Linear(2, 2)})
    hook = ss.ActivationHook(every_n_steps=1, max_overhead=None, stats=["mean"])
    means = {"one": {}, "two": {}}
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watch(model, None, run)
        for step in run.steps(range(3)):
            for name in model:
                x = torch.randn(4, 2)
                out = torch.utils.checkpoint.checkpoint(model[name], x, use_reentrant=False)
                means[name][step] = float(out.detach().double().mean())
                out.sum().backward()
                model[name](x * 2).sum().backward()  # a second part of the batch
    found = numbers(tmp_path)
    for name, expected in means.items():
        assert found[f"activations/{name}/mean"] == pytest.approx(expected, rel=1e-5)


def test_a_rollout_and_an_evaluation_by_parts_are_not_measured(tmp_path):
    model = Parts()

    def loss(model, x):
        with torch.no_grad():
            model.one(100 * x)
        model.eval()
        model.one(100 * x)
        model.train()
        return model.loss(x)

    found, zeros, _ = train(tmp_path, model, loss)
    assert found["activations/act/fraction_of_zero_values"] == pytest.approx(zeros)
    assert max(found["activations/one/max"].values()) < 10


@pytest.mark.slow
def test_a_compiled_model_is_not_measured_and_the_run_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    for number, compiled in enumerate((torch.compile(Parts(), backend="eager"), Parts())):
        if number:
            compiled.compile(backend="eager")
        compiled(torch.randn(6, 4))  # it has run before
        with pytest.warns(RuntimeWarning, match="activations are not measured since step 0: torch.compile"):
            found, _, _ = train(tmp_path / str(number), compiled, WAYS["model"])
        assert not any(tag.startswith("activations/") for tag in found)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_of_a_compiled_block_its_output_is_measured(tmp_path):
    model = Parts()
    model.one = torch.compile(model.one, backend="eager", fullgraph=True)
    found, zeros, _ = train(tmp_path, model, WAYS["model"])
    assert found["activations/act/fraction_of_zero_values"] == pytest.approx(zeros)
    assert "activations/one/mean" in found


def test_a_model_that_only_a_compiled_function_calls_is_said_to_be_silent(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    compiled = torch.compile(lambda model, x: model(x).square().mean(), backend="eager", fullgraph=True)
    with pytest.warns(RuntimeWarning, match="not measured since step 0: in 3 .* no layer of Parts was"):
        found, _, _ = train(tmp_path, Parts(), compiled)
    assert not any(tag.startswith("activations/") for tag in found)


def test_layers_that_are_not_used_any_more_are_named_with_the_step(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    model, steps = Parts(), iter(range(12))

    def loss(model, x):
        part = next(steps) in range(4, 10)
        return model.two(torch.randn(6, 8)).square().mean() if part else model.loss(x)

    with pytest.warns(RuntimeWarning, match="of one, act are not measured since step 4: they were not"):
        train(tmp_path, model, loss, steps=12)
    (fact,) = ss.open(tmp_path, cache=False).run(".").info.unmeasured
    assert (fact.what, fact.since, fact.until) == ("activations of one, act", 4, 10)


def test_layers_that_were_never_used_and_steps_without_training_are_no_fault(tmp_path):
    model = Parts()
    model.spare = nn.Linear(2, 2)
    train(tmp_path / "spare", model, WAYS["method"])
    with ss.Run(tmp_path / "idle", hooks=[ss.ActivationHook(every_n_steps=1)]) as run:
        watch(model, None, run)
        for _ in run.steps(range(9)):
            with torch.no_grad():
                model(torch.randn(2, 4))
    assert run.problems == {}


def test_what_measuring_raises_does_not_reach_the_training(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    hook = ss.ActivationHook(every_n_steps=1, max_overhead=None)

    class Odd(nn.Linear):
        def forward(self, x):
            out = super().forward(x)
            return out.to_sparse()

    model = nn.Sequential(Odd(2, 2))
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watch(model, None, run)
        for _ in run.steps(range(4)):
            model(torch.randn(2, 2))
