"""Saturated layers by the histograms of any writer."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope as ss
from stepscope.health.saturation import layer_of, saturated
from stepscope.serve.health import report_of


def rows(values, bins=200, ends=None):
    counts, edges = np.histogram(values, bins=bins, range=ends)
    return np.column_stack([edges[:-1], edges[1:], counts]).astype(float)


def sigmoid(scale, seed=0):
    return 1 / (1 + np.exp(-scale * np.random.default_rng(seed).normal(size=4000)))


@pytest.mark.parametrize(
    ("tag", "layer"),
    [
        ("activations/fc1/histogram", "fc1"),
        ("dnn/hiddenlayer_0/activation", "dnn/hiddenlayer_0"),
        ("dnn/dnn/hiddenlayer_0_activation_1", "dnn/dnn/hiddenlayer_0"),
        ("hidden/Sigmoid", "hidden/Sigmoid"),
        ("gradients/activations/histogram", None),
        ("attention/activations", None),
        ("weights/fc1", None),
    ],
)
def test_activations_are_known_by_their_name(tag, layer):
    assert layer_of(tag) == layer


@pytest.mark.parametrize(("scale", "share"), [(20.0, 0.79), (1.0, 0.0)])
def test_the_share_is_that_of_the_values(scale, share):
    values = [sigmoid(scale, seed) for seed in range(3)]
    exact = [(np.abs(2 * each - 1) >= 0.99).mean() for each in values]
    found = saturated("a/sigmoid", [rows(each) for each in values])
    assert found == pytest.approx(exact, abs=0.03)
    assert found == pytest.approx([share] * 3, abs=0.05)
    tanh = [np.tanh(scale * np.random.default_rng(seed).normal(size=4000)) for seed in range(3)]
    found = saturated("a/tanh", [rows(each) for each in tanh])
    assert found == pytest.approx([(np.abs(each) >= 0.99).mean() for each in tanh], abs=0.06)


@pytest.mark.parametrize(
    "values",
    [
        np.maximum(0, 0.2 * np.random.default_rng(0).normal(size=4000)),  # a ReLU below 1
        np.maximum(0, np.random.default_rng(0).normal(size=4000)),  # one beyond
        np.random.default_rng(0).normal(size=4000),
    ],
)
def test_other_activations_are_not_judged(values):
    assert saturated("activations/a", [rows(values)]) is None


def test_what_is_too_coarse_is_not_judged():
    assert saturated("a/sigmoid", [rows(sigmoid(20.0), bins=5)]) is None
    assert saturated("a/sigmoid", [np.zeros((0, 3))]) is None


@pytest.mark.parametrize("writer", ["run", "SummaryWriter"])
@pytest.mark.parametrize(("scale", "told"), [(30.0, True), (1.0, False)])
def test_a_run_of_histograms_alone_is_judged(tmp_path, writer, scale, told):
    if writer == "run":
        with ss.Run(tmp_path) as run:
            for step in range(12):
                run.histogram("hidden_0/sigmoid", sigmoid(scale, step), step)
                run.scalar("train/loss", 1.0, step)
    else:
        tensorboard = pytest.importorskip("torch.utils.tensorboard")
        with tensorboard.SummaryWriter(str(tmp_path)) as made:
            for step in range(12):
                made.add_histogram("hidden_0/sigmoid", sigmoid(scale, step), step)
                made.add_scalar("train/loss", 1.0, step)
    with ss.open(tmp_path, cache=False) as log:
        verdict = report_of(log, log.run(".")).verdict
    findings = [each for each in verdict.findings if each.rule == "saturated-activation"]
    assert [each.layer for each in findings] == ["hidden_0/sigmoid"] * told
    assert ("saturated-activation" in verdict.passed) != told
