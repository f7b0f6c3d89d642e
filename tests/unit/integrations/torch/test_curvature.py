"""Sharpness of quadratics whose eigenvalues are known, and the age of Adam's second moment."""

import math

import pytest
import torch
from torch import nn

import stepscope as ss
from stepscope.integrations.torch import SecondMoments, SharpnessHook
from stepscope.integrations.torch.curvature import sharpness


def quadratic(eigenvalues):
    rotation = torch.linalg.qr(torch.randn(len(eigenvalues), len(eigenvalues), dtype=torch.float64))[0]
    matrix = rotation @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ rotation.T
    x = torch.randn(len(eigenvalues), dtype=torch.float64, requires_grad=True)
    unused = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    return lambda: 0.5 * x @ matrix @ x, [x, unused]


@pytest.mark.parametrize(("eigenvalues", "largest"), [((5.0, 1.0, 0.1), 5.0), ((-7.0, 3.0, 1.0), -7.0)])
def test_sharpness_is_the_largest_eigenvalue(eigenvalues, largest):
    torch.manual_seed(0)
    assert sharpness(*quadratic(eigenvalues), iterations=40)[0] == pytest.approx(largest, rel=1e-6)


def recorded(directory):
    with ss.open(directory, cache=False) as log:
        run = log.run(".")
        return {tag: run.columns(tag)[0] for tag in run.tags()}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_edge_of_stability_is_that_of_the_optimizer(tmp_path, momentum):
    torch.manual_seed(0)
    x = nn.Parameter(torch.tensor([1.0, 1.0]))
    scale = torch.tensor([10.0, 1.0])

    def loss():
        return 0.5 * (scale * x * x).sum()

    optimizer = torch.optim.SGD([x], lr=0.05, momentum=momentum)
    state = torch.get_rng_state()
    with ss.Run(tmp_path, hooks=[SharpnessHook(loss, optimizer, every_n_steps=5, iterations=20)]) as run:
        for _ in run.steps(range(11)):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
            kept = x.grad.clone()
    found = recorded(tmp_path)
    assert found["curvature/sharpness"].step.tolist() == [0, 5, 10]
    assert found["curvature/sharpness"].value.tolist() == pytest.approx([10.0] * 3, rel=1e-4)
    expected = 10 * 0.05 / (2 * (1 + momentum))
    assert found["curvature/edge_ratio"].value.tolist() == pytest.approx([expected] * 3, rel=1e-4)
    assert torch.equal(x.grad, kept)  # the training's gradients are as they were
    assert torch.equal(torch.get_rng_state(), state)


def test_no_edge_is_claimed_for_adaptive_optimizers(tmp_path):
    x = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([x])
    with ss.Run(tmp_path, hooks=[SharpnessHook(lambda: (x**2).sum(), optimizer, every_n_steps=1)]) as run:
        for _ in run.steps(range(2)):
            pass
    assert "curvature/edge_ratio" not in recorded(tmp_path)
    assert recorded(tmp_path)["curvature/sharpness"].value.tolist() == pytest.approx([2.0, 2.0], rel=1e-5)


def test_a_loss_that_raises_is_told_and_given_up(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    calls = []

    def broken():
        calls.append(1)
        raise RuntimeError("no derivative")

    hook = SharpnessHook(broken, torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1), every_n_steps=1)

    def train():
        with ss.Run(tmp_path, hooks=[hook]) as run:
            for _ in run.steps(range(6)):
                pass

    with pytest.warns(RuntimeWarning, match="of sharpness.*RuntimeError: no derivative") as warned:
        train()
    assert len(calls) == 3
    statement = "values of sharpness are not measured since step 0: RuntimeError: no derivative"
    assert [statement in str(warning.message) for warning in warned] == [False, True]
    with ss.open(tmp_path, cache=False) as log:
        texts = [problem.text for problem in log.run(".").problems if problem.kind == "unmeasured"]
    assert texts == [statement]


def test_the_second_moment_is_that_before_the_step(tmp_path):
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.99), eps=1e-8)
    with ss.Run(tmp_path) as run:
        moments = SecondMoments(optimizer, run, model)
        for step in run.steps(range(5)):
            model.weight.grad = torch.tensor([[6.0 if step == 4 else 2.0]])
            optimizer.step()
        moments.remove()
        optimizer.step()
    found = recorded(tmp_path)["optimizer/second_moment/weight"]
    assert found.step.tolist() == [1, 2, 3, 4]  # at the first step there is none yet
    # The corrected moment of a constant gradient is its square.
    assert found.value.tolist() == pytest.approx([1.0, 1.0, 1.0, 3.0], rel=1e-5)


@pytest.mark.parametrize("named", [True, False])
def test_the_second_moment_is_compared_with_the_gradient_that_a_closure_computes(tmp_path, named):
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with ss.Run(tmp_path) as run:
        SecondMoments(optimizer, run, model)
        for step in run.steps(range(6)):

            def closure(step=step):
                model.weight.grad = torch.tensor([[6.0 if step == 4 else 2.0]])

            optimizer.step(closure=closure) if named else optimizer.step(closure)
    found = recorded(tmp_path)["optimizer/second_moment/weight"]
    assert found.step.tolist() == [1, 2, 3, 4, 5]
    assert found.value.tolist()[:4] == pytest.approx([1.0, 1.0, 1.0, 3.0], rel=1e-5)
    assert found.value.tolist()[4] < 1


def test_an_optimizer_without_one_records_nothing(tmp_path):
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with ss.Run(tmp_path) as run:
        SecondMoments(optimizer, run, model)
        for _ in run.steps(range(3)):
            model.weight.grad = torch.ones(1, 1)
            optimizer.step()
    assert not any(tag.startswith("optimizer/") for tag in recorded(tmp_path))
    assert math.isfinite(model.weight.item())
