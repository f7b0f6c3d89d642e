"""The rules on what ``GradientHook`` and ``ActivationHook`` really record of trainings, sick and healthy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from stepscope import store  # noqa: E402
from stepscope.serve.health import report_of  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from torch_trainings import Training, network  # noqa: E402


def sgd(rate, momentum=0.9):
    return lambda parameters: torch.optim.SGD(parameters, rate, momentum=momentum)


def adam(rate):
    return lambda parameters: torch.optim.Adam(parameters, rate)


def decaying(parameters):
    return torch.optim.AdamW(parameters, 0.3, weight_decay=2.0)


def squared(outputs, labels):
    return (outputs - nn.functional.one_hot(labels, 10)).square().mean()


def unstable():
    """Linear regression with a learning rate just beyond the stable ones: each step overshoots more."""
    return Training(nn.Linear(64, 10), sgd(0.9, 0.0), loss=squared)


def divergent():
    """Two linear layers with a learning rate far beyond the stable ones: infinite within some steps."""
    return Training(
        nn.Sequential(nn.Linear(64, 48), nn.Linear(48, 10)), sgd(100.0, 0.0), loss=squared, steps=120
    )


def kill(training, step, x):
    if step == 50:
        with torch.no_grad():
            training.model[0].bias -= 20.0
    return x


def outlier(training, step, x):
    return x * 100 if step == 200 else x


def overflow(training, step, x):
    return x * float("inf") if 100 <= step < 115 else x


class Detached(nn.Module):
    """A model one of whose layers takes part in the output, but not in the gradient."""

    def __init__(self):
        super().__init__()
        self.main, self.side = network(), nn.Linear(64, 10)

    def forward(self, x):
        return self.main(x) + 0.01 * self.side(x).detach()


def norm_clip(parameters):
    nn.utils.clip_grad_norm_(parameters, 0.01)


def value_clip(parameters):
    nn.utils.clip_grad_value_(parameters, 1e-4)


def scaled():
    return Training(spoil=overflow, scaler=torch.amp.GradScaler("cpu", init_scale=65536.0))


SICK = {
    # rule: (training, earliest and latest step at which it may open, word of the tag that shows it)
    "nonfinite-loss": (divergent, 0, 100, "train/loss"),
    "nonfinite-gradient": (divergent, 0, 100, "gradients/"),
    "nonfinite-activation": (divergent, 0, 110, "activations/"),
    "gradient-spike": (lambda: Training(spoil=outlier), 200, 200, "gradients/norm"),
    "exploding-gradient": (unstable, 19, 200, "gradients/norm"),
    "vanishing-gradient": (
        lambda: Training(network("sigmoid", depth=9), sgd(0.01, 0.0)), 90, 100, "gradients/"),
    "update-ratio low": (lambda: Training(optimizer=sgd(1e-9)), 190, 200, "updates/"),
    "update-ratio high": (lambda: Training(network("tanh"), decaying), 190, 200, "updates/"),
    "poor-initialization": (
        lambda: Training(network("tanh", depth=5, scale=0.1), steps=50), 0, 10, "activations/"),
    "dead-relu": (lambda: Training(spoil=kill), 50, 160, "activations/1/"),
    "saturated-activation": (
        lambda: Training(network("tanh", scale=30.0), steps=100), 40, 50, "activations/"),
    "unchanged-tensor": (lambda: Training(Detached(), steps=150), 90, 110, "side.weight"),
    "clipping norm": (lambda: Training(clip=norm_clip), 199, 220, "gradients/"),
    "clipping value": (lambda: Training(clip=value_clip), 199, 220, "gradients/"),
    "loss-scale": (scaled, 100, 120, "gradients/loss_scale"),
}  # fmt: skip

HEALTHY = {
    "relu": lambda: Training(optimizer=sgd(0.01), steps=2000, evaluate=200),
    "relu with Adam": lambda: Training(optimizer=adam(1e-3), steps=2000, evaluate=200),
    "tanh": lambda: Training(network("tanh"), sgd(0.02), steps=2000, evaluate=200),
    "sigmoid": lambda: Training(network("sigmoid"), sgd(0.05), steps=2000, evaluate=200),
    "linear": lambda: Training(nn.Linear(64, 10), sgd(0.1, 0.0), loss=squared, steps=2000),
}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def summary(findings):
    """What must be the same live, written, and afterwards."""
    return sorted((each.rule, each.tag, each.step, each.closed_step or -1, each.summary) for each in findings)


def judged(directory):
    with store.open(directory, cache=False) as log:
        run = log.run(".")
        return report_of(log, run).verdict, run.findings


@pytest.mark.parametrize("case", SICK)
def test_what_the_hooks_record_of_a_sick_training_is_found(case, tmp_path):
    make, earliest, latest, word = SICK[case]
    rule = case.split()[0]
    hook = make().run(tmp_path)
    found = [each for each in hook.findings if each.rule == rule]
    assert found, [each.rule for each in hook.findings]
    assert earliest <= min(each.step for each in found) <= latest
    assert any(word in each.tag for each in found), [each.tag for each in found]
    afterwards, written = judged(tmp_path)
    assert summary(hook.findings) == summary(afterwards.findings) == summary(written)


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_what_the_hooks_record_of_a_healthy_training_is_left_alone(name, tmp_path):
    hook = HEALTHY[name]().run(tmp_path)
    assert hook.findings == []
    passed = set(hook.verdict.passed)
    assert {
        "exploding-gradient",
        "gradient-spike",
        "update-ratio",
        "unchanged-tensor",
        "nonfinite-gradient",
    } <= passed
    assert name == "linear" or "poor-initialization" in passed
    assert ("dead-relu" in passed) == name.startswith("relu") or name != "linear"
    afterwards = judged(tmp_path)[0]
    assert (afterwards.findings, afterwards.passed) == (hook.verdict.findings, hook.verdict.passed)
    missing = {each.rule: each.missing for each in afterwards.abstained}
    for live in hook.verdict.abstained:
        assert live.missing.startswith(missing.pop(live.rule))  # live, it adds what only later is judged
    assert not missing
