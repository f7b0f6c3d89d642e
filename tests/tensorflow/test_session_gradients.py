"""Gradients of the Estimator, against the same training in numpy."""

import os

import numpy as np
import pytest

import stepscope as ss

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("the Estimator left with TensorFlow 2.16", allow_module_level=True)

from stepscope.integrations.tensorflow import GradientSessionHook, StepscopeHook  # noqa: E402
from stepscope.record.statistics.sampling import ReadyPace  # noqa: E402

tf.compat.v1.logging.set_verbosity("ERROR")
v1 = tf.compat.v1
RATE = 0.1


pytestmark = pytest.mark.usefixtures("strict")


def data():
    x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    return x, x.sum(1, keepdims=True) + 1


def batches():
    return tf.data.Dataset.from_tensors(data()).repeat()


def model_fn(features, labels, mode):
    kernel = v1.get_variable("kernel", initializer=np.array([[0.5], [-1.0], [2.0]], "float32"))
    bias = v1.get_variable("bias", initializer=np.zeros(1, "float32"))
    loss = tf.reduce_mean((tf.matmul(features, kernel) + bias - labels) ** 2)
    optimizer = v1.train.GradientDescentOptimizer(RATE)
    train = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def recorded(directory):
    with ss.open(directory, cache=False) as log:
        run = log.run(".")
        frames = {tag: run.series(tag) for tag in run.tags()}
    return {
        tag: dict(zip(each["step"].tolist(), each["value"].tolist(), strict=True))
        for tag, each in frames.items()
    }


def hook(**options):
    return ss.GradientHook(**{"every_n_steps": 3, "dense_steps": 0, "histograms_every": 6, **options})


def fit(directory, *, max_steps=8, **options):
    config = tf.estimator.RunConfig(str(directory / "model"))
    made = [StepscopeHook(directory / "run"), GradientSessionHook(directory / "run", hook(**options))]
    tf.estimator.Estimator(model_fn, config=config).train(batches, hooks=made, max_steps=max_steps)


def test_gradients_are_those_of_the_step(tmp_path):
    fit(tmp_path)
    check(recorded(tmp_path / "run"))


def test_the_hook_alone_records(tmp_path):
    config = tf.estimator.RunConfig(str(tmp_path / "model"))
    made = [GradientSessionHook(tmp_path / "run", hook())]
    tf.estimator.Estimator(model_fn, config=config).train(batches, hooks=made, max_steps=8)
    check(recorded(tmp_path / "run"))


def test_variables_take_turns(tmp_path):
    fit(tmp_path, rotate=2)
    found = recorded(tmp_path / "run")
    steps = {name: list(found[f"gradients/{name}/mean"]) for name in ("kernel", "bias")}
    assert steps == {"kernel": [1, 6], "bias": [3]}
    assert list(found["gradients/norm"]) == list(range(1, 9))
    assert list(found["weights/kernel/norm"]) == [1, 6]
    assert "weights/norm" not in found


def test_the_budget_bounds_samples(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(ReadyPace, "step_seconds", 0.1)
        patched.setattr(ReadyPace, "sample_seconds", 0.1)
        fit(tmp_path, max_steps=40, every_n_steps=2, histograms_every=0, max_overhead=0.1)
    # A sample costs a step, one in ten may be one: the distance is 2 times the next power of two.
    assert list(recorded(tmp_path / "run")["gradients/kernel/mean"]) == [1, 2, 16, 32]


def test_steps_are_timed_beside_samples(tmp_path, monkeypatch):
    paces = []
    original = ReadyPace.__init__
    monkeypatch.setattr(ReadyPace, "__init__", lambda self: (original(self), paces.append(self))[0])
    fit(tmp_path, max_steps=24, every_n_steps=4, histograms_every=0, max_overhead=1.0)
    [pace] = paces
    assert pace.step_seconds > 0
    assert len(pace._kinds["full"]) >= 4  # of seven samples the first tells nothing


def check(found):
    assert list(found["gradients/norm"]) == list(range(1, 9))
    assert list(found["gradients/kernel/mean"]) == [1, 3, 6]
    x, y = (each.astype("f8") for each in data())
    weights = [np.array([[0.5], [-1.0], [2.0]]), np.zeros(1)]
    for step in range(1, 9):
        error = 2 * (x @ weights[0] + weights[1] - y) / len(x)
        gradients = [x.T @ error, error.sum(0)]
        whole = np.concatenate([each.ravel() for each in gradients])
        assert found["gradients/norm"][step] == pytest.approx(np.linalg.norm(whole), rel=1e-5)
        for name, gradient, weight in zip(("kernel", "bias"), gradients, weights, strict=True):
            if step in (1, 3, 6):
                for word in ("mean", "std", "min", "max"):
                    value = getattr(gradient, word)()
                    assert found[f"gradients/{name}/{word}"][step] == pytest.approx(value, rel=1e-4, abs=1e-6)
                norm = np.linalg.norm(weight)
                assert found[f"weights/{name}/norm"][step] == pytest.approx(norm, rel=1e-5)
        weights = [old - RATE * each for old, each in zip(weights, gradients, strict=True)]


def test_only_sampled_steps_fetch_statistics(tmp_path):
    with v1.Graph().as_default(), ss.Run(tmp_path / "run") as run:
        v1.train.create_global_step()
        spec = model_fn(*(tf.constant(each) for each in data()), "train")
        one = GradientSessionHook(run, hook())
        fetched = []
        original = one.before_run

        class Spy(v1.train.SessionRunHook):
            begin = staticmethod(one.begin)

            def before_run(self, run_context):
                asked = original(run_context)
                fetched.append(sorted(asked.fetches))
                return asked

            after_run = staticmethod(one.after_run)
            end = staticmethod(one.end)

        with v1.train.SingularMonitoredSession([Spy()]) as session:
            for _ in range(4):
                session.run(spec.train_op)
    assert fetched == [
        ["gradients", "norm", "step"],
        ["norm", "step"],
        *[["gradients", "norm", "step"], ["norm", "step"]],
    ]


@pytest.mark.parametrize("kind", ["MomentumOptimizer", "AdagradOptimizer", "FtrlOptimizer"])
def test_gradients_of_an_embedding_are_with_their_zeros(tmp_path, kind):
    with v1.Graph().as_default(), ss.Run(tmp_path / "run") as run:
        v1.train.create_global_step()
        table = v1.get_variable("table", initializer=np.ones((5, 2), "float32"), use_resource=True)
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 1, 4]) * 2.0)
        optimizer = getattr(v1.train, kind)(*([0.1, 0.9] if kind[0] == "M" else [0.1]))
        train = optimizer.minimize(loss, v1.train.get_global_step())
        with v1.train.SingularMonitoredSession([GradientSessionHook(run, hook())]) as session:
            session.run(train)
    found = recorded(tmp_path / "run")
    assert found["gradients/table/norm"][1] == pytest.approx(np.sqrt(2 * 16 + 2 * 4))
    assert found["gradients/table/zero_ratio"][1] == pytest.approx(0.6)


def test_premade_estimator(tmp_path):
    columns = [tf.feature_column.numeric_column("x", (3,))]
    optimizer = v1.train.AdamOptimizer(0.01)
    kind = v1.estimator.DNNRegressor
    estimator = kind([8], columns, str(tmp_path / "model"), optimizer=optimizer)
    made = GradientSessionHook(tmp_path / "run", hook())
    estimator.train(lambda: batches().map(lambda x, y: ({"x": x}, y)), hooks=[made], max_steps=3)
    found = recorded(tmp_path / "run")
    assert list(found["gradients/norm"]) == [1, 2, 3]
    assert found["gradients/dnn/hiddenlayer_0/kernel/part_0/norm"][3] > 0


def test_accumulators_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT")
    with v1.Graph().as_default(), ss.Run(tmp_path / "run") as run:
        weight = v1.get_variable("weight", initializer=1.0, use_resource=True)
        held = v1.ConditionalAccumulator(tf.float32, shape=())
        tf.raw_ops.ResourceApplyGradientDescent(var=weight.handle, alpha=0.1, delta=held.take_grad(1))
        v1.train.create_global_step()
        one = GradientSessionHook(run, hook())
        with pytest.warns(match="the gradient of weight is handed over between processes"):
            one.begin()
        assert one.before_run(None) is None


def test_what_is_added_to_the_graph_lies_under_one_scope(tmp_path):
    before, after = [], []

    class Count(v1.train.SessionRunHook):
        def __init__(self, names):
            self.names = names

        def begin(self):
            self.names += [each.name for each in v1.get_default_graph().get_operations()]

    made = [Count(before), GradientSessionHook(tmp_path / "run", hook()), Count(after)]
    config = tf.estimator.RunConfig(str(tmp_path / "model"))
    tf.estimator.Estimator(model_fn, config=config).train(batches, hooks=made, max_steps=2)
    added = set(after) - set(before)
    assert len(added) > 50
    assert {name.partition("/")[0] for name in added} == {"stepscope_gradients"}
