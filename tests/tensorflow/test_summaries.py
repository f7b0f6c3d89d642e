"""TensorFlow's values are recorded, and what ``tf.summary`` wrote is read, kind by kind."""

import numpy as np
import pytest
import tensorflow as tf

import stepscope as ss
from stepscope.errors import RecordError
from stepscope.events.kinds.histogram import rows_of


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")


def test_tensors_and_variables_as_they_were(tmp_path):
    with ss.Run(tmp_path) as run:
        variable = tf.Variable(np.arange(6, dtype=np.float32))
        run.histogram("variable", variable, 0)
        variable.assign(variable * 0 + 9)
        run.histogram("variable", variable, 1)
        run.histogram("bfloat16", tf.constant([1, 2, 3], tf.bfloat16), 0)
        run.image("image", tf.fill((4, 5, 3), 0.5), 0)
    with ss.open(tmp_path, cache=False) as log:
        stored = log.run(".")
        [series] = stored.record("variable")
        np.testing.assert_allclose(series[0], rows_of(np.arange(6)))
        assert series[1][0].tolist() == [9, 9, 0]
        assert stored.record("bfloat16")[0][0][:, 2].sum() == 3
        [blob] = stored.record("image")[0][0].blobs
        assert tf.io.decode_png(blob.data).numpy()[0, 0].tolist() == [128, 128, 128]


def test_symbolic_tensors_are_refused(tmp_path):
    with ss.Run(tmp_path) as run:

        @tf.function
        def step(x):
            with pytest.raises(RecordError, match="symbolic TensorFlow tensor"):
                run.histogram("h", x)
            return x

        step(tf.ones(3))


def test_what_tf_summary_writes_is_read(tmp_path):
    rng = np.random.default_rng(0)
    values, images = rng.normal(size=100), rng.random((2, 4, 5, 3))
    sounds = rng.random((2, 50, 1)).astype(np.float32) * 2 - 1
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(step=3):
        tf.summary.histogram("h", values, description="*d*")
        tf.summary.image("i", images, max_outputs=2)
        tf.summary.audio("a", sounds, 8000, max_outputs=2)
        tf.summary.text("t", ["x", "y"])
        tf.summary.trace_on(graph=True)
        tf.function(lambda x: x * 2)(tf.ones(2))
        tf.summary.trace_export("trace")
    writer.close()
    with ss.open(tmp_path, cache=False) as log:
        stored = log.run(".")
        [h] = [each for each in stored.records() if each.tag == "h"]
        assert (h.kind, h.description, h.last_step) == ("histogram", "*d*", 3)
        np.testing.assert_allclose(stored.record("h")[0][0], rows_of(values), 1e-12)
        shown = [tf.io.decode_png(blob.data).numpy() for blob in stored.record("i")[0][0].blobs]
        np.testing.assert_allclose(np.stack(shown) / 255, images, atol=1 / 255)
        assert [clip.blob.mime for clip in stored.record("a")[0][0]] == ["audio/wav"] * 2
        assert stored.record("t")[0][0].tolist() == ["x", "y"]
        assert stored.tags("run_metadata") == ["trace"]
        assert len(stored.record("trace")[0][0]) > 10
