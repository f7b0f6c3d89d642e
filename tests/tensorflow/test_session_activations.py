"""Activations of the Estimator, against the same layer in numpy."""

import os

import numpy as np
import pytest

import stepscope as ss

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("the Estimator left with TensorFlow 2.16", allow_module_level=True)

from stepscope.integrations.tensorflow import ActivationSessionHook, StepscopeHook  # noqa: E402

tf.compat.v1.logging.set_verbosity("ERROR")
v1 = tf.compat.v1


pytestmark = pytest.mark.usefixtures("strict")


INPUTS = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
KERNEL = np.array([[9.0, 0.5], [-9.0, 0.1], [9.0, -0.2]], "float32")


def batches():
    return tf.data.Dataset.from_tensors((INPUTS, INPUTS.sum(1, keepdims=True))).repeat()


def model(function, *, normalised=False):
    """A layer that does not learn, so that its outputs are those of numpy at every step."""

    def model_fn(features, labels, mode):
        with v1.variable_scope("hidden"):
            before = tf.matmul(features, tf.constant(KERNEL))
            if normalised:
                before = (before - tf.reduce_mean(before, 0)) / tf.math.reduce_std(before, 0)
            out = function(before)
        weight = v1.get_variable("weight", initializer=np.ones((2, 1), "float32"))
        loss = tf.reduce_mean((tf.matmul(out, weight) - labels) ** 2)
        train = v1.train.GradientDescentOptimizer(0.01).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    return model_fn


def train(directory, model_fn, steps=12, **options):
    hook = ss.ActivationHook(every_n_steps=1, histograms_every=4, max_overhead=None, window=5, **options)
    run = directory / "run"
    estimator = tf.estimator.Estimator(model_fn, str(directory / "model"))
    estimator.train(batches, steps=steps, hooks=[StepscopeHook(run), ActivationSessionHook(run, hook)])
    with ss.open(run, cache=False) as log:
        one = log.run(".")
        frames = {
            tag: one.series(tag)["value"].tolist() for tag in one.tags() if tag.startswith("activations/")
        }
        return frames, {each.tag: one.record(each.tag)[0] for each in one.records()}


def test_a_sigmoid_is_measured_as_numpy_does(tmp_path):
    frames, records = train(tmp_path, model(tf.sigmoid))
    out = 1 / (1 + np.exp(-(INPUTS @ KERNEL).astype(np.float64)))
    for stat, value in (("mean", out.mean()), ("std", out.std()), ("min", out.min()), ("max", out.max())):
        found = frames[f"activations/hidden/{stat}"]
        assert len(found) == 12
        assert found == pytest.approx([value] * 12, rel=1e-5)
    share = (np.abs(2 * out - 1) >= 0.99).mean()
    assert 0.1 < share < 0.9
    assert frames["activations/hidden/saturation_ratio"] == pytest.approx([share] * 12)
    assert "activations/hidden/dead_ratio" not in frames
    histogram = records["activations/hidden/histogram"][0]
    assert histogram[:, 2].sum() == out.size


def test_units_of_a_relu_are_dead_that_are_never_active(tmp_path):
    frames, _ = train(tmp_path, model(lambda before: tf.nn.relu(before - tf.constant([0.0, 50.0]))))
    assert frames["activations/hidden/dead_ratio"][-1] == 0.5
    out = np.maximum(INPUTS @ KERNEL - [0, 50], 0)
    assert frames["activations/hidden/fraction_of_zero_values"][-1] == pytest.approx((out == 0).mean())


def test_a_sigmoid_is_saturated_without_normalisation_alone(tmp_path):
    """As the rules say afterwards: the share of a wide layer falls where its inputs are normalised."""
    wide = lambda before: tf.sigmoid(tf.concat([4 * before[:, :1]] * 2, 1))  # noqa: E731
    narrow = lambda before: tf.sigmoid(tf.concat([before[:, :1]] * 2, 1))  # noqa: E731
    for name, function, normalised, told in (
        ("wide", wide, False, True),
        ("batch_norm", narrow, True, False),
    ):
        frames, _ = train(tmp_path / name, model(function, normalised=normalised), steps=12)
        assert (frames["activations/hidden/saturation_ratio"][-1] > 0.5) == told
        with ss.open(tmp_path / name / "run", cache=False) as log:
            from stepscope.serve.health import report_of

            rules = {each.rule for each in report_of(log, log.run(".")).verdict.findings}
        assert ("saturated-activation" in rules) == told


def test_layers_are_chosen_and_a_graph_without_any_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT")
    frames, _ = train(tmp_path / "chosen", model(tf.sigmoid), layers="nothing")
    assert frames == {}
    with ss.open(tmp_path / "chosen" / "run", cache=False) as log:
        assert "statistics" in log.run(".").info.problems
