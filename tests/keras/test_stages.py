"""The stages of the batches that ``fit`` trains, as each rank's telemetry has them."""

import time

import numpy as np
import pytest

keras = pytest.importorskip("keras")

import stepscope as ss  # noqa: E402
from stepscope.integrations.keras import StepscopeCallback  # noqa: E402
from stepscope.store.ranks import Ranks  # noqa: E402

BACKEND = keras.backend.backend()
KERAS3 = not keras.__version__.startswith("2.")
EAGER = ["forward", "backward", "optimizer", "rest"]
DELAY_S = 0.02
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's own


def stages_of(log_dir, model, data, **options):
    run = ss.Run(log_dir, rank=0, world_size=2)
    with run:
        model.fit(*data, batch_size=8, epochs=2, verbose=0, callbacks=[StepscopeCallback(run)], **options)
        assert run.step_counter.stages.first == 0
    return Ranks(str(log_dir)).stages()


def expected():
    return EAGER if BACKEND == "torch" else ["dispatch", "rest"]


def test_stages_of_a_fit_sum_to_its_steps(make_model, data, tmp_path):
    table = stages_of(tmp_path, make_model(), data)
    data_known = [] if BACKEND == "tensorflow" else ["data"]
    assert sorted(table.stages) == sorted([*data_known, *expected()])
    assert np.isfinite(table.durations_s).all()
    steps = Ranks(str(tmp_path)).steps(0, attempt=1)
    assert table.durations_s[:, 0].sum(axis=1) == pytest.approx(steps.step_time_s, rel=1e-3)
    call = table.durations_s[:, 0, table.stages.index("forward" if BACKEND == "torch" else "dispatch")]
    assert (call > 0).all()


@pytest.mark.skipif(BACKEND == "jax", reason="JAX is compiled, or traced")
@pytest.mark.parametrize("slow", ["forward", "optimizer"])
def test_a_slow_call_of_an_eager_fit_is_in_its_stage(make_model, data, tmp_path, slow):
    class SlowLayer(keras.layers.Layer):
        def call(self, x):
            time.sleep(DELAY_S if slow == "forward" else 0)
            return x

    takes = "apply" if KERAS3 else "apply_gradients"

    def slowed(self, *arguments, **named):
        time.sleep(DELAY_S if slow == "optimizer" else 0)
        return getattr(keras.optimizers.SGD, takes)(self, *arguments, **named)

    SlowSGD = type("SlowSGD", (keras.optimizers.SGD,), {takes: slowed})
    model = keras.Sequential([keras.Input((3,)), SlowLayer(), keras.layers.Dense(1)])
    model.compile(SlowSGD(0.01), "mse", run_eagerly=True)
    table = stages_of(tmp_path, model, data)
    assert set(EAGER) <= set(table.stages)
    took = np.median(table.durations_s[:, 0], axis=0)
    assert took[table.stages.index(slow)] >= DELAY_S


@pytest.mark.skipif(BACKEND == "jax" or not KERAS3, reason="JAX is compiled; train_step of Keras 3")
def test_a_model_that_is_trained_by_its_parts_has_the_same_stages(data, tmp_path):
    class Encoder(keras.layers.Layer):
        def call(self, x):
            time.sleep(DELAY_S)
            return x

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = Encoder(), keras.layers.Dense(1)
            self.head.build((None, 3))

        def call(self, x):
            return self.head(self.encoder(x))  # for Keras to build it; train_step does not call it

        def train_step(self, batch):
            x, y = batch
            if BACKEND == "torch":
                loss = keras.ops.mean(keras.ops.square(self.head(self.encoder(x)) - y))
                self.zero_grad()
                loss.backward()
                gradients = [each.value.grad for each in self.trainable_weights]
                self.optimizer.apply(gradients, self.trainable_weights)
            else:
                import tensorflow as tf

                with tf.GradientTape() as tape:
                    loss = keras.ops.mean(keras.ops.square(self.head(self.encoder(x)) - y))
                gradients = tape.gradient(loss, self.trainable_weights)
                self.optimizer.apply(gradients, self.trainable_weights)
            return {"loss": loss}

    model = Model()
    model.compile("sgd", "mse", run_eagerly=True)
    table = stages_of(tmp_path, model, data)
    assert set(EAGER) <= set(table.stages)
    took = np.median(table.durations_s[:, 0], axis=0)
    assert took[table.stages.index("forward")] >= DELAY_S
    assert took[table.stages.index("backward")] < DELAY_S


def test_nothing_is_left_on_the_model_and_its_optimizer(make_model, data, tmp_path):
    model = make_model()
    stages_of(tmp_path, model, data)
    assert "call" not in vars(model)
    assert not {"apply", "apply_gradients"} & set(vars(model.optimizer))


def test_a_fit_that_raises_leaves_nothing_either(data, tmp_path):
    class Broken(keras.layers.Layer):
        def call(self, x):
            raise RuntimeError("broken")

    model = keras.Sequential([keras.layers.Dense(1), Broken()])
    model.compile("sgd", "mse", run_eagerly=BACKEND != "jax")
    with pytest.raises(Exception, match="broken"):
        stages_of(tmp_path, model, data)
    assert "call" not in vars(model)
