"""Every rule on a training made to show it, none on a healthy one: live, written, and afterwards alike."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stepscope as ss
from stepscope import store
from stepscope.record.hooks.health import with_afterwards
from stepscope.record.memory import resident_bytes
from stepscope.serve.health import report_of

sys.path.insert(0, str(Path(__file__).parent))
from trainings import SAMPLED, Network, Time, Training, digits


def spoil(steps, scale):
    """Scale the inputs of some steps: broken batches."""

    def before(training, step):
        training.network.scale = scale if step in steps else 1.0

    return before


class Broken(Network):
    """A network some of whose batches arrive scaled."""

    scale = 1.0

    def forward(self, x):
        return super().forward(x * self.scale)


class Ascent(Network):
    """A network whose loss has the wrong sign from some step on."""

    sign = 1.0

    def loss(self, x, labels):
        loss, delta = super().loss(x, labels)
        return loss, self.sign * delta


def turn(training, step):
    training.network.sign = 1.0 if step < 100 else -1.0


def kill(training, step):
    """Push every unit of the first layer below zero, as one far too large step does."""
    if step == 50:
        training.network.biases[0] -= 20.0


def scaler(run, step, state={"scale": 65536.0, "good": 0}):  # noqa: B006  the scaler's own state
    """Scale the loss as mixed precision does, where gradients overflow at every scale."""
    if step == 0:
        state.update(scale=65536.0, good=0)
    overflow = step > 100
    state["scale"] *= 0.5 if overflow else 1.0
    run.scalar("gradients/loss_scale", state["scale"])


def count_labels(run, step):
    """Log the labels of a sampler that hardly ever draws one class."""
    for label in range(3):
        run.scalar(f"labels/{label}", [40, 23, 1][label])


def device(gpu, cpu, io_wait):
    """Log what a machine would say."""

    def record(run, step):
        if step % 5 == 0:
            run.scalar("system/gpu0/utilization_ratio", gpu)
            run.scalar("system/host/cpu_ratio", cpu)
            run.scalar("system/host/cpu_iowait_ratio", io_wait)

    return record


class Leak:
    """Keeps something of every step."""

    def __init__(self):
        self.kept = []

    def __call__(self, run, step):
        self.kept.append(np.ones(1 << 17))
        if step % 4 == 0:
            run.scalar("system/process/memory_bytes", resident_bytes())


def nothing(inputs):
    """Leave nothing to be learnt from."""
    return 0 * inputs


def slow(step):
    return 0.2 if step % 15 == 0 else 0.01


SICK = {
    # rule: (training, earliest and latest step at which it may open)
    "nonfinite-loss": (lambda: Training(Ascent(), steps=300, before=turn), 101, 200),
    "nonfinite-gradient": (lambda: Training(Ascent(), steps=300, before=turn), 101, 200),
    "nonfinite-activation": (lambda: Training(Ascent(), steps=300, before=turn), 101, 200 + SAMPLED),
    "loss-spike": (
        lambda: Training(Broken(), steps=300, before=spoil(range(200, 204), 20.0)), 200, 208),
    "loss-not-decreasing": (lambda: Training(steps=200, rate=1e-9), 0, 120),
    "plateau": (
        lambda: Training(Network(width=2), steps=2000, rate=0.02, noise=1.0, inputs=nothing), 1000, 1999),
    "overfitting": (
        lambda: Training(steps=800, samples=60, batch=60, noise=0.2, evaluate=20), 80, 799),
    "overtraining": (
        lambda: Training(steps=1000, rate=lambda step: 0.05 if step < 300 else 1e-9, evaluate=20), 490, 620),
    "gradient-spike": (
        lambda: Training(Broken(), steps=300, before=spoil([200], 100.0)), 200, 200),
    "vanishing-gradient": (
        lambda: Training(Network("sigmoid", depth=9), steps=300, rate=0.01, momentum=0.0), 90, 100),
    "exploding-gradient": (lambda: Training(Ascent(), steps=400, rate=0.002, before=turn), 100, 399),
    "update-ratio": (lambda: Training(steps=400, rate=1e-9), 190, 200),
    "poor-initialization": (lambda: Training(Network("tanh", depth=5, scale=0.1), steps=100), 0, 10),
    "dead-relu": (lambda: Training(steps=300, before=kill), 50, 150 + SAMPLED),
    "saturated-activation": (lambda: Training(Network("tanh", scale=30.0), steps=200), 40, 50),
    "clipping": (lambda: Training(steps=300, clip=0.01), 190, 220),
    "loss-scale": (lambda: Training(steps=300, record=scaler), 101, 120),
    "learning-rate": (lambda: Training(steps=300, rate=lambda step: 0.001 if step < 150 else 0.05), 150, 150),
    "class-imbalance": (lambda: Training(steps=50, record=count_labels), 7, 12),
    "data-wait": (lambda: Training(steps=300, wait_s=0.005), 100, 150),
    "gpu-underused": (lambda: Training(steps=500, record=device(0.4, 0.3, 0.0)), 295, 420),
    "cpu-bottleneck": (lambda: Training(steps=500, record=device(0.05, 0.97, 0.0)), 295, 360),
    "io-bottleneck": (lambda: Training(steps=500, record=device(0.05, 0.3, 0.8)), 295, 360),
    "memory-creep": (lambda: Training(steps=400, record=Leak()), 236, 399),
    "stalled-training": (
        lambda: Training(steps=300, step_s=lambda step: 900.0 if step == 200 else 0.01), 199, 201),
    "step-outliers": (lambda: Training(steps=600, step_s=slow), 205, 310),
}  # fmt: skip


def frozen():
    network = Network()
    network.frozen = {"layer1/weight"}
    return Training(network, steps=200)


SICK["unchanged-tensor"] = (frozen, 90, 90)

HEALTHY = {
    "relu": lambda: Training(steps=2000, rate=0.01, evaluate=200),
    "tanh": lambda: Training(Network("tanh"), steps=2000, rate=0.02, evaluate=200),
    "sigmoid": lambda: Training(Network("sigmoid"), steps=2000, rate=0.05, evaluate=200, clip=5.0),
}


def summary(findings):
    """What must be the same live, written, and afterwards."""
    return sorted((each.rule, each.tag, each.step, each.closed_step or -1, each.summary) for each in findings)


def judged(directory):
    with store.open(directory, cache=False) as log:
        run = log.run(".")
        return report_of(log, run).verdict, run.findings


@pytest.mark.parametrize("rule", SICK)
def test_a_sick_training_is_found_within_the_window_that_the_docs_promise(rule, tmp_path):
    make, earliest, latest = SICK[rule]
    hook = make().run(tmp_path)
    found = [each for each in hook.findings if each.rule == rule]
    assert found, [each.rule for each in hook.findings]
    assert earliest <= min(each.step for each in found) <= latest
    afterwards, written = judged(tmp_path)
    assert summary(hook.findings) == summary(afterwards.findings) == summary(written)
    assert hook.verdict.passed == afterwards.passed


@pytest.mark.parametrize("name", HEALTHY)
def test_no_rule_fires_on_a_healthy_training_of_2000_steps(name, tmp_path):
    hook = HEALTHY[name]().run(tmp_path)
    assert hook.findings == []
    afterwards, written = judged(tmp_path)
    assert afterwards.findings == written == []
    # Only afterwards are histograms read: the live verdict says so of what it could not judge.
    live = [with_afterwards(abstention) for abstention in afterwards.abstained]
    assert replace(afterwards, abstained=live) == hook.verdict
    assert {"loss-spike", "plateau", "vanishing-gradient", "unchanged-tensor", "data-wait"} <= set(
        afterwards.passed
    )


class Rank:
    """One rank of a job of three, each with a network of its own."""

    def __init__(self, directory, rank, network, time, hooks=()):
        self.run = ss.Run(directory, rank=rank, world_size=3, hooks=hooks, _clock=time.clock)
        self.network, self.rng = network, np.random.default_rng(rank)

    def step(self, number, scale):
        train_x, train_y, _, _ = digits()
        rows = self.rng.choice(len(train_x), 64, replace=False)
        with self.run.step():
            loss, delta = self.network.loss(train_x[rows] * scale, train_y[rows])
            for name, grad in self.network.gradients(delta).items():
                self.network.parameters[name][...] -= 0.05 * grad
            self.run.scalar("train/loss", loss)


def job(directory, steps, scale_of_rank_2, hook=None):
    """Train three replicas; the third gets its data scaled."""
    time = Time()
    ranks = [
        Rank(directory, rank, Network(), time, [] if rank or hook is None else [hook]) for rank in range(3)
    ]
    for step in range(steps):
        for number, rank in enumerate(ranks):
            rank.step(step, scale_of_rank_2(step) if number == 2 else 1.0)
        time.now += 0.01
        if hook is not None and step % 100 == 99:  # a second, after which each rank's file has its rows
            for rank in ranks:
                rank.run.flush()
            hook.look(time.now)
    seen = [] if hook is None else list(hook.findings)
    for rank in reversed(ranks):
        rank.run.close()
    return seen


def test_a_rank_that_diverges_is_named(tmp_path):
    job(tmp_path, 400, lambda step: 1.0 if step < 150 else 0.2)
    verdict, _ = judged(tmp_path)
    [finding] = [each for each in verdict.findings if each.rule == "rank-divergence"]
    assert finding.rank == 2
    assert 150 < finding.step <= 300


def test_a_rank_that_diverges_is_named_while_the_job_trains(tmp_path):
    hook = ss.HealthHook()
    seen = job(tmp_path, 900, lambda step: 1.0 if step < 150 else 0.2, hook)
    verdict, written = judged(tmp_path)
    assert [each.rank for each in seen if each.rule == "rank-divergence"] == [2]
    found = [each for each in verdict.findings if each.rule == "rank-divergence"]
    assert [each.rank for each in found] == [2]
    assert 150 < found[0].step <= 300
    assert summary(hook.findings) == summary(verdict.findings) == summary(written)


def test_the_first_rank_with_a_nan_is_named_while_the_job_trains(tmp_path):
    hook = ss.HealthHook()
    seen = job(tmp_path, 600, lambda step: 1.0 if step != 40 else float("nan"), hook)
    [finding] = [each for each in seen if each.rule == "nonfinite-loss"]
    assert (finding.rank, finding.step) == (2, 40)
    assert "first on rank 2" in finding.summary


def test_ranks_that_agree_are_left_alone(tmp_path):
    hook = ss.HealthHook()
    job(tmp_path, 400, lambda step: 1.0, hook)
    verdict, _ = judged(tmp_path)
    assert verdict.findings == hook.findings == []
    assert "rank-divergence" in verdict.passed
    assert "rank-divergence" in hook.verdict.passed


def test_the_first_rank_with_a_nan_is_named(tmp_path):
    job(tmp_path, 60, lambda step: 1.0 if step != 40 else float("nan"))
    verdict, _ = judged(tmp_path)
    [finding] = [each for each in verdict.findings if each.rule == "nonfinite-loss"]
    assert (finding.rank, finding.step) == (2, 40)
    assert "first on rank 2" in finding.summary
