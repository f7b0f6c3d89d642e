"""The rules on what ``GradientHook`` and ``ActivationHook`` really record of trainings, sick and healthy."""

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


def squared(outputs, labels):
    return (outputs - nn.functional.one_hot(labels, 10)).square().mean()


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


def overflow(training, step, x):
    return x * float("inf") if 100 <= step < 115 else x


class Detached(nn.Module):
    """A model one of whose layers takes part in the output, but not in the gradient."""

    def __init__(self):
        super().__init__()
        self.main, self.side = network(), nn.Linear(64, 10)

    def forward(self, x):
        return self.main(x) + 0.01 * self.side(x).detach()


def value_clip(parameters):
    nn.utils.clip_grad_value_(parameters, 1e-4)


def scaled():
    return Training(spoil=overflow, scaler=torch.amp.GradScaler("cpu", init_scale=65536.0))


SICK = {
    # rules: (training, earliest and latest step at which they may open, a word of the tag of each)
    "nonfinite": (
        divergent, 0, 110, {"nonfinite-loss": "train/loss", "nonfinite-gradient": "gradients/",
                            "nonfinite-activation": "activations/"}),
    "dead": (lambda: Training(spoil=kill), 50, 160, {"dead-relu": "activations/1/"}),
    "saturated": (lambda: Training(network("tanh", scale=30.0), steps=100), 40, 50,
                  {"saturated-activation": "activations/"}),
    "detached": (lambda: Training(Detached(), steps=150), 90, 110, {"unchanged-tensor": "side.weight"}),
    "clipped": (lambda: Training(clip=value_clip), 199, 250, {"clipping": "gradients/"}),
    "scaled": (scaled, 100, 120, {"loss-scale": "gradients/loss_scale"}),
}  # fmt: skip


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


@pytest.mark.slow
@pytest.mark.parametrize("case", SICK)
def test_what_the_hooks_record_of_a_sick_training_is_found(case, tmp_path):
    make, earliest, latest, tags = SICK[case]
    hook = make().run(tmp_path)
    for rule, word in tags.items():
        findings = [each for each in hook.findings if each.rule == rule]
        assert findings, [each.rule for each in hook.findings]
        assert earliest <= min(each.step for each in findings) <= latest
        assert any(word in each.tag for each in findings), [each.tag for each in findings]
    afterwards, written = judged(tmp_path)
    assert summary(hook.findings) == summary(afterwards.findings) == summary(written)


@pytest.mark.slow
def test_what_the_hooks_record_of_a_healthy_training_is_left_alone(tmp_path):
    hook = Training(optimizer=sgd(0.01), steps=600, evaluate=200).run(tmp_path)
    assert hook.findings == []
    assert {
        "exploding-gradient", "gradient-spike", "update-ratio", "unchanged-tensor", "nonfinite-gradient",
        "poor-initialization", "dead-relu",
    } <= set(hook.verdict.passed)  # fmt: skip
    assert judged(tmp_path)[0].findings == []
