from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import stepscope as ss
from stepscope.events import EventFile
from stepscope.integrations.torch import watch


def numbers(directory):
    [path] = directory.glob("*tfevents*")
    columns = EventFile(path).read().scalars
    return {each.tag: dict(zip(each.step.tolist(), each.value.tolist(), strict=True)) for each in columns}


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
