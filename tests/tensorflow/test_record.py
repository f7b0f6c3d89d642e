"""TensorFlow's values: eager tensors, variables, and what a function sees in their place."""

from pathlib import Path

import pytest

import stepscope as ss

tf = pytest.importorskip("tensorflow")


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")


def recorded(directory: Path, tag: str) -> list[tuple[int, float]]:
    """What TensorFlow reads from the file of a run."""
    [path] = directory.glob("*tfevents*")
    return [
        (event.step, value.simple_value)
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == tag
    ]


def test_eager_tensors_and_variables(tmp_path):
    variable = tf.Variable(4.0)
    values = [
        tf.constant(0.5),
        tf.constant([1.5]),
        tf.constant(2, tf.int64),
        tf.constant(True),
        tf.constant(3.0, tf.bfloat16),
        variable,
        variable * 2,
    ]
    with ss.Run(tmp_path) as run:
        for step, value in enumerate(values):
            run.scalar("loss", value, step)
        variable.assign(99.0)
    assert recorded(tmp_path, "loss") == list(enumerate([0.5, 1.5, 2.0, 1.0, 3.0, 4.0, 8.0]))


def test_steps_may_be_tensors_and_variables(tmp_path):
    iterations = tf.Variable(7, dtype=tf.int64)
    with ss.Run(tmp_path) as run:
        run.scalar("loss", 0.5, tf.constant(3))
        run.scalar("loss", 0.25, iterations)
        iterations.assign_add(1)
        run.scalar("loss", tf.constant(0.125), iterations)
    assert recorded(tmp_path, "loss") == [(3, 0.5), (7, 0.25), (8, 0.125)]


def test_a_tensor_inside_a_function_has_no_number(tmp_path):
    with ss.Run(tmp_path) as run:

        @tf.function
        def step(x):
            with pytest.raises(ss.StepscopeError, match="symbolic TensorFlow tensor"):
                run.scalar("loss", x)
            return x

        step(tf.constant(1.0))


def test_several_elements_are_refused(tmp_path):
    with ss.Run(tmp_path) as run, pytest.raises(ss.StepscopeError, match=r"a tensor of shape \(3,\)"):
        run.scalar("loss", tf.ones(3))


def test_a_custom_loop(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.01)

    @tf.function
    def train(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)
    losses = []
    with ss.Run(tmp_path) as run:
        for x, y in run.steps(data):
            loss = train(x, y)
            losses.append(float(loss))
            run.scalar("train/loss", loss)
            run.scalar("train/learning_rate", optimizer.learning_rate)
    assert recorded(tmp_path, "train/loss") == list(enumerate(losses))
    assert [value for _, value in recorded(tmp_path, "train/learning_rate")] == pytest.approx([0.01] * 8)
