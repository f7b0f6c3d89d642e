"""Gradients that nobody sets to zero are told, and those that are set to zero in any way are not."""

import pytest
import torch
from torch import nn

import stepscope as ss
from stepscope import store
from stepscope.integrations.torch import backward, watch
from stepscope.integrations.torch.zeroing import UPDATES
from stepscope.serve.health import report_of

STEPS = UPDATES + 8


def zero_in_place(model, optimizer):
    optimizer.zero_grad(set_to_none=False)


def zero_data(model, optimizer):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.data.zero_()


def zero_model(model, optimizer):
    model.zero_grad()


def zero_optimizer(model, optimizer):
    optimizer.zero_grad()


def keep(model, optimizer):
    pass


def train(path, zero, *, every=1, before_backward=False, frozen=False):
    """Return the recorded configuration and findings of a training."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    model[0].requires_grad_(not frozen)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
    hooks = [ss.HealthHook(), ss.GradientHook(every_n_steps=1)]
    with ss.Run(path, hooks=hooks, card=False) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(STEPS * every)):
            if not before_backward and step % every == 0:
                zero(model, optimizer)
            loss = ((model(inputs) - targets) ** 2).mean()
            if before_backward and step % every == 0:
                zero(model, optimizer)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if step % every == every - 1:
                optimizer.step()
            run.scalar("train/loss", loss)
    with store.open(path, cache=False) as log:
        stored = log.run(".")
        findings = report_of(log, stored).verdict.findings
        assert {one.rule for one in stored.findings} <= {one.rule for one in findings}
        return stored.info.config, findings


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("every", [1, 3])
def test_gradients_that_are_kept_are_found(tmp_path, every, frozen):
    config, findings = train(tmp_path, keep, every=every, frozen=frozen)
    assert config["gradients_kept"] is True
    [finding] = [finding for finding in findings if finding.rule == "gradients-not-zeroed"]
    assert finding.severity == "high"
    assert finding.summary.startswith("no backward pass of the first updates found gradients of zero")


@pytest.mark.parametrize("before_backward", [False, True])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("zero", [zero_in_place, zero_data, zero_model, zero_optimizer])
def test_gradients_that_are_zeroed_in_any_way_are_not(tmp_path, zero, every, before_backward):
    config, findings = train(tmp_path, zero, every=every, before_backward=before_backward)
    assert "gradients_kept" not in config
    assert not [finding for finding in findings if finding.rule == "gradients-not-zeroed"]


def test_a_discriminator_that_the_generator_passes_through_is_not(tmp_path):
    torch.manual_seed(0)
    generator, discriminator = nn.Linear(2, 4), nn.Linear(4, 1)
    one, other = (torch.optim.SGD(part.parameters(), lr=1e-3) for part in (generator, discriminator))
    with ss.Run(tmp_path, card=False) as run:
        watch(nn.ModuleList([generator, discriminator]), [one, other], run)
        for _ in run.steps(range(STEPS)):
            made = generator(torch.randn(8, 2))
            other.zero_grad(set_to_none=False)
            discriminator(made.detach()).mean().backward()
            other.step()
            one.zero_grad()
            discriminator(made).mean().backward()  # into the discriminator's gradients, too
            one.step()
    with store.open(tmp_path, cache=False) as log:
        assert "gradients_kept" not in log.run(".").info.config


def test_a_step_without_a_backward_pass_says_nothing(tmp_path):
    parameter = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=1e-3)
    parameter.grad = torch.ones(2)
    with ss.Run(tmp_path, card=False) as run:
        watch(None, optimizer, run)
        for _ in run.steps(range(STEPS)):
            optimizer.step()
    with store.open(tmp_path, cache=False) as log:
        assert "gradients_kept" not in log.run(".").info.config


@pytest.mark.parametrize("zero", [keep, zero_optimizer])
def test_the_looks_end(tmp_path, zero):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with ss.Run(tmp_path, card=False) as run:
        watch(model, optimizer, run)
        before = len(optimizer._optimizer_step_post_hooks), len(backward._passes.listeners)
        for _ in run.steps(range(STEPS)):
            zero(model, optimizer)
            model(torch.randn(8, 2)).mean().backward()
            optimizer.step()
        after = len(optimizer._optimizer_step_post_hooks), len(backward._passes.listeners)
    assert (before[0] - after[0], before[1] - after[1]) == (1, 1)


def test_sparse_gradients_are_not_looked_at(tmp_path):
    model = nn.Embedding(8, 2, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with ss.Run(tmp_path, card=False) as run:
        watch(model, optimizer, run)
        before = len(optimizer._optimizer_step_post_hooks), len(backward._passes.listeners)
        for step in run.steps(range(STEPS)):
            model(torch.arange(4)).mean().backward()
            optimizer.step()
            if step == 1:
                after = len(optimizer._optimizer_step_post_hooks), len(backward._passes.listeners)
    assert (before[0] - after[0], before[1] - after[1]) == (1, 1)
    with store.open(tmp_path, cache=False) as log:
        assert "gradients_kept" not in log.run(".").info.config
