"""What TensorFlow 2 writes with ``tf.summary`` and through Keras is read value for value."""

import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

from stepscope.events import EventFile, EventWriter, encode_event  # noqa: E402
from stepscope.events.tensors import array  # noqa: E402


def written(directory):
    return sorted(Path(directory).glob("**/*tfevents*"))


def theirs(path):
    """Every value with a tensor or number, as TensorFlow's own reader gives it."""
    found = defaultdict(list)
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            number = value.simple_value if value.HasField("simple_value") else tf.make_ndarray(value.tensor)
            found[value.tag].append((event.wall_time, event.step, number))
    return found


def ours(path):
    file = EventFile(path)
    batch = file.read()
    assert file.status.problem is None
    found = {
        c.tag: list(zip(c.wall.tolist(), c.step.tolist(), c.value.tolist(), strict=True))
        for c in batch.scalars
    }
    return file, batch, found


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64"])
def test_scalars(tmp_path, dtype):
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        for step in range(20):
            tf.summary.scalar(
                "loss", tf.constant(step, dtype) / tf.constant(3, dtype), step=step, description="text"
            )
            tf.summary.scalar("late/accuracy", -step, step=step * 10**9)
    (path,) = written(tmp_path)
    expected = {
        tag: [(wall, step, float(number)) for wall, step, number in rows]
        for tag, rows in theirs(path).items()
    }
    _, batch, found = ours(path)
    assert found == expected
    assert batch.metadata["loss"].summary_description == "text"
    assert {found.plugin_name for found in batch.metadata.values()} == {"scalars"}


def test_values_that_are_not_finite(tmp_path):
    numbers = [np.nan, np.inf, -np.inf, 0.0]  # TensorFlow itself makes -0.0 zero
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        for step, number in enumerate(numbers):
            tf.summary.scalar("x", number, step=step)
    (path,) = written(tmp_path)
    assert repr([value for _, _, value in ours(path)[2]["x"]]) == repr(numbers)


def test_everything_else(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        for step in range(3):
            tf.summary.histogram("weights", np.arange(10.0), step=step)
            tf.summary.text("note", ["a", "b"], step=step)
            tf.summary.image("image", np.zeros((1, 2, 2, 3)), step=step)
            tf.summary.audio("sound", np.zeros((1, 8, 1), np.float32), 8000, step=step)
            tf.summary.write("own", tf.constant([[1, 2]], tf.bfloat16), step=step)
    (path,) = written(tmp_path)
    file, batch, found = ours(path)
    records = batch.records
    expected = theirs(path)
    assert not found
    assert sorted(records.tag) == sorted(tag for tag, rows in expected.items() for _ in rows)
    plugins = dict(zip(records.tag, records.plugin, strict=True))
    assert plugins == {
        "weights": "histograms",
        "note": "text",
        "image": "images",
        "sound": "audio",
        "own": "",
    }
    for tag, step, position, index in zip(
        records.tag, records.step, records.position, records.index, strict=True
    ):
        value = file.event_at(int(position)).values[index]
        assert array(value.tensor).astype(object).tolist() == expected[tag][step][2].astype(object).tolist()


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's own
def test_a_keras_callback(tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = tf.keras.callbacks.TensorBoard(str(tmp_path), update_freq=1, histogram_freq=1)
    data = np.ones((8, 2)), np.ones((8, 1))
    model.fit(*data, batch_size=2, epochs=2, verbose=0, callbacks=[callback], validation_data=data)
    tags = set()
    for path in written(tmp_path):
        _, batch, found = ours(path)
        expected = theirs(path)
        assert {tag: [(w, s, float(n)) for w, s, n in expected[tag]] for tag in found} == found
        assert set(found) | set(batch.records.tag) >= set(expected)
        tags |= {f"{path.parent.name}/{tag}" for tag in found}
    assert tags >= {"train/epoch_loss", "validation/epoch_loss", "validation/evaluation_loss_vs_iterations"}


def test_tensorflow_reads_ours(tmp_path):
    writer = EventWriter(tmp_path)
    for step in range(10):
        writer.scalar("loss", step / 7, step, 1e9 + step)
        writer.scalars([("a", step), ("big", 1e300)], step, 1e9 + step)
    writer.close()
    found = theirs(writer.path)
    assert found["loss"] == [(1e9 + step, step, np.float32(step / 7)) for step in range(10)]
    assert [(step, float(number)) for _, step, number in found["big"]] == [
        (step, 1e300) for step in range(10)
    ]
    events = list(tf.compat.v1.train.summary_iterator(str(writer.path)))
    file = EventFile(writer.path)
    assert encode_event(file.event_at(0)) == events[0].SerializeToString(deterministic=True)
