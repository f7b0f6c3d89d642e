"""Operator norms of weights and updates against a singular value decomposition."""

import math

import pytest
import torch
from torch import nn

import stepscope as ss
from stepscope import store
from stepscope.integrations.torch import UpdateScaleHook


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.first = nn.Linear(6, 12)
        self.conv = nn.Conv1d(1, 4, 3)
        self.last = nn.Linear(40, 1)

    def forward(self, rows):
        return self.last(self.conv(self.first(self.table(rows))[:, None]).flatten(1)).square().mean()


def rms_norm(matrix):
    outputs, inputs = matrix.shape
    return float(torch.linalg.svdvals(matrix)[0]) * math.sqrt(inputs / outputs)


def test_norms_of_every_kind_of_layer(tmp_path):
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    hook = UpdateScaleHook(model, optimizer, every_n_steps=2, iterations=200)
    kept = []
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(range(3)):
            optimizer.zero_grad()
            model(torch.tensor([1, 2, 3])).backward()
            before = {name: each.detach().clone() for name, each in model.named_parameters()}
            optimizer.step()
            moved = {name: each.detach() - before[name] for name, each in model.named_parameters()}
            kept.append((before, moved))
    with store.open(tmp_path, cache=False) as log:
        [found] = log.runs()
        series = {tag: found.columns(tag)[-1] for tag in found.tags() if tag.endswith("operator_norm")}
    assert len(series) == 8
    for place, step in enumerate((0, 2)):
        for of, tensors in zip(("weights", "updates"), kept[step], strict=True):
            for name in ("first.weight", "conv.weight", "last.weight"):
                got = series[f"{of}/{name}/operator_norm"]
                assert got.step.tolist() == [0, 2]
                assert float(got.value[place]) == pytest.approx(rms_norm(tensors[name].flatten(1)), rel=1e-3)
            rows = tensors["table.weight"].square().mean(1).sqrt().max()
            assert float(series[f"{of}/table.weight/operator_norm"].value[place]) == pytest.approx(
                float(rows)
            )
    assert not optimizer._optimizer_step_post_hooks


def train(directory, rates, steps=12):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(5)])
    groups = [{"params": each.parameters(), "lr": rate} for each, rate in zip(model, rates, strict=True)]
    optimizer = torch.optim.Adam(groups)
    health = ss.HealthHook()
    with ss.Run(directory, hooks=[UpdateScaleHook(model, optimizer, every_n_steps=1), health]) as run:
        for _ in run.steps(range(steps)):
            optimizer.zero_grad()
            (model(torch.randn(16, 8)) - 1).square().mean().backward()
            optimizer.step()
    return [each for each in health.findings if each.rule == "update-scale"]


def test_a_layer_of_another_learning_rate_is_told_with_what_is_expected(tmp_path):
    [found] = train(tmp_path, [1e-3, 1e-3, 1e-6, 1e-3, 1e-3])
    assert (found.layer, found.severity, found.step) == ("2.weight", "info", 9)
    assert "where µP expects" in found.summary
    assert 300 < found.values["median_update"] / found.values["update"] < 3000


@pytest.mark.parametrize("rates", [[1e-3] * 5, [1e-3, 1e-3, 1e-4, 1e-3, 1e-2]])
def test_layers_of_like_scales_are_not(tmp_path, rates):
    assert train(tmp_path, rates) == []


def test_a_measurement_that_fails_again_and_again_is_switched_off(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    model, calls = nn.Linear(3, 3), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook = UpdateScaleHook(model, optimizer, every_n_steps=1)

    def broken(before):
        calls.append(before)
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(hook, "_record", broken)

    def train():
        with ss.Run(tmp_path, hooks=[hook]) as run:
            for _ in run.steps(range(6)):
                model(torch.ones(1, 3)).sum().backward()
                optimizer.step()

    with pytest.warns(RuntimeWarning, match="operator norms.*RuntimeError: no such kernel"):
        train()
    assert len(calls) == 3
