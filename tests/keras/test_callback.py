"""What the callback records of fit, evaluate and predict; the oracle is what Keras tells other callbacks."""

import json
import time
import warnings

import keras
import numpy as np
import pytest
from support import hooks

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.integrations.keras import StepscopeCallback
from stepscope.integrations.keras.batches import TrainFunction
from stepscope.integrations.keras.callback import POOL, InOrder, batches_to_profile, numbers
from stepscope.store.charts import charts

pytestmark = [  # Keras's own
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*shuffle=True.*was passed"),
    pytest.mark.filterwarnings("ignore:Your input ran out of data"),
]
BACKEND = keras.backend.backend()
KERAS3 = not keras.__version__.startswith("2.")
BATCHES = 5
"""Of an epoch: 40 examples by 8."""


class Seen(keras.callbacks.Callback):
    """What Keras tells any callback."""

    def __init__(self):
        super().__init__()
        self.batches, self.epochs, self.tests = [], [], []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(dict(logs))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(dict(logs))

    def on_test_end(self, logs=None):
        self.tests.append(dict(logs))


def fit(model, data, *callbacks, epochs=2, **options):
    options.setdefault("validation_data", data)
    return model.fit(*data, batch_size=8, epochs=epochs, verbose=0, callbacks=list(callbacks), **options)


def test_metrics_are_those_of_keras(make_model, data, callback, recorded):
    model, seen = make_model(), Seen()
    fit(model, data, callback(), seen)
    found = recorded()
    assert found.state == "finished"
    for name in ("loss", "mae"):
        assert found.steps[f"train/{name}"] == list(range(2 * BATCHES))
        assert found.values[f"train/{name}"] == pytest.approx([logs[name] for logs in seen.batches], rel=1e-6)
        assert found.steps[f"eval/{name}"] == [BATCHES - 1, 2 * BATCHES - 1]
        validated = [logs[f"val_{name}"] for logs in seen.epochs]
        assert found.values[f"eval/{name}"] == pytest.approx(validated, rel=1e-6)
    assert found.values["epoch"] == [1, 2]
    assert found.info.total_steps == 2 * BATCHES
    config = found.info.config
    assert (config["optimizer"], config["parameters"], config["epochs"]) == ("SGD", 21, 2)
    assert config["learning_rate"] == pytest.approx(0.01)


def test_a_model_without_weights_before_its_first_batch_is_recorded_whole(data, callback, recorded):
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = data
    model.fit(x, y, batch_size=8, epochs=1, verbose=0, callbacks=[callback()])
    found = recorded()
    assert found.info.config["parameters"] == 4 * x.shape[1] + 4 + 4 + 1
    assert found.steps["train/loss"] == list(range(5))


def test_train_and_eval_share_a_chart(make_model, data, callback, tmp_path):
    fit(make_model(), data, callback())
    with ss.open(tmp_path, cache=False) as log:
        overlays = [chart for chart in charts(log) if len(chart.lines) > 1]
    lines = {chart.title: [(line.tag, line.split) for line in chart.lines] for chart in overlays}
    assert lines["loss"] == [("train/loss", "train"), ("eval/loss", "eval")]
    assert lines["mae"] == [("train/mae", "train"), ("eval/mae", "eval")]


@pytest.mark.parametrize(
    ("update_freq", "steps"), [("epoch", [4, 9]), ("batch", list(range(10))), (4, [0, 4, 8, 9])]
)
def test_how_often_metrics_are_recorded(make_model, data, callback, recorded, update_freq, steps):
    """Those of the last batch of an epoch always are: they are the epoch's."""
    history = fit(make_model(), data, callback(update_freq=update_freq)).history
    found = recorded()
    assert found.steps["train/loss"] == steps
    last = dict(zip(found.steps["train/loss"], found.values["train/loss"], strict=True))
    assert [last[4], last[9]] == pytest.approx(history["loss"], rel=1e-6)


class Slow(keras.utils.PyDataset if KERAS3 else keras.utils.Sequence):
    """Batches that take 20 ms to come."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(0.02)
        return np.ones((8, 3), "float32"), np.ones((8, 1), "float32")


def test_steps_and_the_wait_for_data(make_model, callback, recorded):
    model = make_model()
    run_of = callback()
    model.fit(Slow(), epochs=2, verbose=0, callbacks=[run_of])
    found = recorded()
    assert found.steps["speed/step_time_ms"] == list(range(8))
    if BACKEND == "tensorflow":
        assert "speed/data_wait_ms" not in found.tags, "data is fetched within the step's own graph"
        return
    assert found.steps["speed/data_wait_ms"] == list(range(8))
    waits, times = found.values["speed/data_wait_ms"], found.values["speed/step_time_ms"]
    assert all(wait <= whole for wait, whole in zip(waits, times, strict=True))
    assert sum(waits) > 8 * 15


@pytest.mark.parametrize(
    ("update_freq", "steps"), [("batch", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]), (2, [0, 2, 6, 8])]
)
def test_the_loss_of_each_batch_beside_the_running_mean(make_model, callback, recorded, update_freq, steps):
    random = np.random.default_rng(3)
    x, y = random.normal(size=(42, 3)).astype("f4"), random.normal(size=(42, 1)).astype("f4")
    model = make_model()
    model.optimizer.learning_rate.assign(0.0)  # so that each batch has the same loss in every epoch
    error = (np.asarray(model.predict(x, verbose=0)) - y) ** 2
    own = [error[at : at + 8].mean() for at in range(0, 42, 8)]
    fit(
        model, (x, y), callback(batch_loss=True, update_freq=update_freq), validation_data=None, shuffle=False
    )
    found = recorded()
    assert found.steps["train/batch_loss"] == steps
    if update_freq == "batch":
        assert found.values["train/batch_loss"] == pytest.approx([own[step % 6] for step in steps], rel=1e-4)
        assert found.values["train/loss"][3] == pytest.approx(np.mean(own[:4]), rel=1e-4)


def test_examples_are_counted(make_model, data, tmp_path):
    if BACKEND == "tensorflow":
        pytest.skip("data is fetched within the step's own graph")
    with ss.Run(tmp_path) as run:
        fit(make_model(), data, StepscopeCallback(run))
        assert run.examples == 2 * 40


def test_each_fit_is_an_attempt_that_counts_on(make_model, data, callback, recorded):
    model, ours = make_model(), callback()
    fit(model, data, ours, epochs=1)
    fit(model, data, ours, epochs=1)
    found = recorded()
    assert found.steps["train/loss"] == list(range(10))
    assert found.attempts["train/loss"] == [1] * 5 + [2] * 5
    assert found.state == "finished"
    assert not isinstance(model.train_function, TrainFunction)


def test_a_run_of_the_user_takes_several_fits(make_model, data, tmp_path, recorded):
    model = make_model()
    with ss.Run(tmp_path) as run:
        fit(model, data, StepscopeCallback(run), epochs=1)
        assert run.state == "recording"
        fit(model, data, StepscopeCallback(run), epochs=1)
        run.scalar("mine", 1.0)
    found = recorded()
    assert found.steps["train/loss"] == list(range(10))
    assert set(found.attempts["train/loss"]) == {1}
    assert found.steps["mine"] == [9]


def test_a_trained_model_goes_on_from_its_updates(make_model, data, callback, recorded):
    model = make_model()
    fit(model, data, epochs=2)
    fit(model, data, callback(), epochs=1)
    assert recorded().steps["train/loss"] == list(range(10, 15))


@pytest.mark.parametrize("own", [True, False], ids=["directory", "run"])
def test_weights_alone_go_on_from_the_first_epoch_that_is_named(make_model, data, tmp_path, recorded, own):
    """The optimizer begins anew: only initial_epoch says where the training is."""
    fit(make_model(), data, StepscopeCallback(tmp_path / "run"), epochs=2)
    last = {}
    for epochs in ({"initial_epoch": 2, "epochs": 4}, {"initial_epoch": 4, "epochs": 5}):
        run = None if own else ss.Run(tmp_path / "run")
        fit(make_model(), data, StepscopeCallback(run or tmp_path / "run"), **epochs)
        if run is not None:
            run.close()
        last = recorded(tmp_path / "run")
    assert last.steps["train/loss"] == [*range(25)]
    assert last.attempts["train/loss"] == [1] * 10 + [2] * 10 + [3] * 5
    assert last.info.total_steps == 25


def test_a_number_that_the_user_gives_counts_first(make_model, data, callback, recorded):
    restart = callback(start_step=100)
    fit(make_model(), data, restart, initial_epoch=2, epochs=3)
    assert recorded().steps["train/loss"] == [*range(100, 105)]
    fit(make_model(), data, restart, initial_epoch=3, epochs=4)
    assert recorded().steps["train/loss"] == [*range(100, 110)]


def test_where_nothing_says_how_far_a_training_is_the_run_says_so(make_model, data, callback, recorded):
    def generator():
        while True:
            yield data[0][:8], data[1][:8]

    model = make_model()
    with pytest.warns(RuntimeWarning, match="fit\\(\\) begins at epoch 3, and neither"):
        model.fit(
            generator(), steps_per_epoch=None, initial_epoch=2, epochs=3, verbose=0,
            callbacks=[callback(), Stops()],
        )  # fmt: skip
    assert recorded().steps["train/loss"][0] == 0


class Stops(keras.callbacks.Callback):
    """Ends an epoch of endless data."""

    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = True


def test_evaluate_and_predict(make_model, data, callback, recorded):
    model, ours, seen = make_model(), callback(), Seen()
    fit(model, data, ours)
    model.evaluate(*data, verbose=0, callbacks=[ours, seen])
    model.predict(data[0], verbose=0, callbacks=[ours])
    found = recorded()
    assert found.steps["test/loss"] == [9]
    assert found.values["test/loss"] == pytest.approx([seen.tests[0]["loss"]], rel=1e-6)
    assert len(found.values["speed/time_in_evaluation_s"]) == 3
    assert found.steps["speed/time_in_prediction_s"] == [9]
    assert found.state == "finished"


def test_data_of_unknown_length(make_model, callback, recorded):
    def batches():
        for _ in range(3):
            yield np.ones((8, 3), "float32"), np.ones((8, 1), "float32")

    make_model().fit(batches(), epochs=1, verbose=0, callbacks=[callback()])
    found = recorded()
    assert found.steps["train/loss"] == found.steps["speed/step_time_ms"] == [0, 1, 2]
    assert found.state == "finished"


@pytest.mark.skipif(BACKEND == "torch", reason="Keras has none on torch")
def test_several_batches_per_execution(make_model, data, callback, recorded):
    model = make_model(steps_per_execution=2)
    fit(model, data, callback())
    found = recorded()
    assert found.steps["speed/step_time_ms"][:3] == [0, 2, 4]
    assert found.steps["train/loss"][:3] == [0, 2, 4]


def test_learning_rate_of_a_schedule(make_model, data, callback, recorded):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)
    fit(make_model(keras.optimizers.SGD(schedule)), data, callback(), epochs=5)
    found = recorded()
    rates = dict(zip(found.steps["optimizer/lr"], found.values["optimizer/lr"], strict=True))
    assert {0, 10, 20, 24} <= rates.keys()
    # At the end of an epoch its update is done; before, the next is still to come.
    for step, rate in rates.items():
        assert rate == pytest.approx(float(schedule(step + (step % BATCHES == BATCHES - 1))), rel=1e-5), step


def test_a_request_to_stop_stops_fit(make_model, data, tmp_path, recorded):
    history = fit(make_model(), data, StepscopeCallback(tmp_path, hooks=[hooks.Stops(after=6)]), epochs=9)
    assert len(history.history["loss"]) == 2
    found = recorded()
    assert found.steps["train/loss"][-1] == 6
    assert (found.state, found.info.reason) == ("finished", "enough")


def test_an_exception_in_a_batch_fails_the_run(data, callback, recorded):
    calls = []

    def loss(truth, predicted):
        calls.append(1)
        if len(calls) > 4:
            raise OSError("the disk is gone")
        return keras.losses.mean_squared_error(truth, predicted)

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", loss, run_eagerly=True)
    with pytest.raises(Exception, match="the disk is gone"):
        fit(model, data, callback(), validation_data=None)
    found = recorded()
    assert found.state == "failed"
    assert "the disk is gone" in found.info.reason
    assert 1 <= len(found.steps["train/loss"]) < 2 * BATCHES


def test_a_fit_that_was_left_is_failed_by_the_next(make_model, data, callback, recorded, tmp_path):
    class Breaks(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise RuntimeError("elsewhere")

    model, ours = make_model(), callback()
    with pytest.raises(RuntimeError, match="elsewhere"):
        fit(model, data, ours, Breaks())
    fit(model, data, ours, epochs=1)
    found = recorded()
    assert found.attempts["train/loss"] == [1] * 5 + [2] * 5
    assert found.steps["train/loss"] == list(range(10))
    assert found.state == "finished"


def test_what_is_wrong_here_does_not_stop_the_training(make_model, data, callback, monkeypatch, recorded):
    monkeypatch.setenv("STEPSCOPE_STRICT", "0")
    monkeypatch.setattr("stepscope.integrations.keras.callback.readings", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        history = fit(make_model(), data, callback())
    assert len(history.history["loss"]) == 2


def test_a_callback_that_fails_at_every_batch_says_so_at_once_and_in_the_run(
    make_model, data, tmp_path, monkeypatch
):
    monkeypatch.setenv("STEPSCOPE_STRICT", "0")
    monkeypatch.setattr("stepscope.integrations.keras.callback.readings", lambda *_: int("MirroredVariable"))
    told = []
    monkeypatch.setattr("warnings.showwarning", lambda message, *_: told.append((str(message), len(done))))
    done = []
    ends = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: done.append(batch))
    run = ss.Run(tmp_path / "run")
    with warnings.catch_warnings(), run:
        warnings.simplefilter("default")
        fit(make_model(), data, ends, StepscopeCallback(run), epochs=3)
    [(text, when)] = [each for each in told if "training goes on" in each[0]]
    assert "MirroredVariable" in text
    assert when <= 1, "at the first batch, not at the end"
    assert run.problems["callback"] >= 3
    with ss.open(tmp_path, cache=False) as log:
        [problem] = [each for each in log.run("run").problems if each.kind == "failed"]
    assert problem.text == f"a callback failed {run.problems['callback']} times"


def test_a_worker_that_is_not_the_chief_writes_no_events(make_model, data, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    fit(make_model(), data, StepscopeCallback(tmp_path / "run", histogram_freq=1))
    assert not list(tmp_path.glob("**/*tfevents*"))


@pytest.mark.skipif(not KERAS3, reason="of Keras 3")
def test_nothing_waits_for_it(make_model, callback):
    """Keras calls back without waiting for the device where every callback says it may."""
    dispatch = keras.callbacks.CallbackList([callback()])._async_train
    assert dispatch == keras.callbacks.CallbackList([])._async_train


def test_a_loop_of_the_users_own(make_model, data, callback, recorded):
    model = make_model()
    callbacks = keras.callbacks.CallbackList([callback()], model=model, epochs=1, steps=BATCHES)
    callbacks.on_train_begin()
    callbacks.on_epoch_begin(0)
    losses = []
    for batch in range(BATCHES):
        callbacks.on_train_batch_begin(batch)
        rows = slice(8 * batch, 8 * batch + 8)
        logs = model.train_on_batch(data[0][rows], data[1][rows], return_dict=True)
        losses.append(float(logs["loss"]))
        callbacks.on_train_batch_end(batch, logs)
    callbacks.on_epoch_end(0, logs)
    callbacks.on_train_end()
    found = recorded()
    assert found.values["train/loss"] == pytest.approx(losses, rel=1e-6)
    assert len(found.values["speed/step_time_ms"]) == BATCHES


def test_results_that_threads_bring_in_another_order_are_recorded_in_that_of_the_batches(
    make_model, callback, recorded
):
    """Keras 3 gives ends of batches to a pool of threads, and waits for all of them before an epoch ends."""
    watched = callback(batch_loss=True)
    watched.set_model(make_model())
    watched.set_params({"epochs": 1, "steps": 4})
    watched.on_train_begin()
    watched.on_epoch_begin(0)
    means = [4.0, 3.0, 2.0, 2.0]
    for batch in range(4):
        watched.on_train_batch_begin(batch)
    for batch in (1, 0, 3, 2):
        watched.on_train_batch_end(batch, {"loss": means[batch]})
    watched.on_epoch_end(0, {"loss": means[-1]})
    watched.on_train_end()
    found = recorded()
    assert found.values["train/loss"] == pytest.approx(means)
    assert found.values["train/batch_loss"] == pytest.approx([4.0, 2.0, 0.0])


def test_a_batch_that_never_ends_holds_up_no_other(make_model, callback, recorded):
    watched = callback()
    watched.set_model(make_model())
    watched.set_params({"epochs": 1, "steps": 3})
    watched.on_train_begin()
    watched.on_epoch_begin(0)
    for batch in range(3):
        watched.on_train_batch_begin(batch)
    for batch in (1, 2):
        watched.on_train_batch_end(batch, {"loss": float(batch)})
    watched.on_epoch_end(0, {"loss": 2.0})
    watched.on_train_end()
    assert recorded().values["train/loss"] == [1.0, 2.0]


def test_a_batch_is_waited_for_while_as_many_begin_as_a_pool_has_threads():
    recorded = []
    ended = InOrder(lambda batch, logs: recorded.append(batch))
    for batch in range(POOL):
        ended.begin(batch)
        if batch:
            ended.end(batch, {})
    assert recorded == []
    ended.begin(POOL)
    assert recorded == list(range(1, POOL))
    ended.end(0, {})
    ended.end(POOL, {})
    assert recorded == [*range(1, POOL), 0, POOL]


def test_results_that_come_after_a_later_batchs_take_no_step_back(make_model, callback, recorded):
    watched = callback(batch_loss=True)
    watched.set_model(make_model())
    watched.set_params({"epochs": 1, "steps": 3})
    watched.on_train_begin()
    watched.on_epoch_begin(0)
    for batch, mean in ((1, 3.0), (0, 4.0), (2, 2.0)):  # a loop that does not say when they begin
        watched.on_train_batch_end(batch, {"loss": mean})
    watched.on_epoch_end(0, {"loss": 2.0})
    watched.on_train_end()
    found = recorded()
    assert sorted(found.values["train/loss"]) == [2.0, 3.0, 4.0]
    assert found.values["train/batch_loss"] == [3.0]


def test_the_only_batch_of_the_first_epoch_has_its_values(make_model, callback, recorded):
    watched = callback(update_freq="epoch")
    watched.set_model(make_model())
    watched.set_params({"epochs": 1, "steps": 1})
    watched.on_train_begin()
    watched.on_epoch_begin(0)
    watched.on_train_batch_begin(0)
    watched.on_train_batch_end(0, {"loss": 4.0})
    watched.on_epoch_end(0, {"loss": 4.0})
    watched.on_train_end()
    assert recorded().values["train/loss"] == [4.0]


@pytest.mark.parametrize(
    ("given", "found"), [(0, (0, 0)), (3, (3, 3)), ((3, 5), (3, 5)), ("3,5", (3, 5)), ("3", (3, 3))]
)
def test_batches_to_profile(given, found):
    assert batches_to_profile(given) == found


def test_a_profile_of_two_batches(make_model, data, tmp_path):
    fit(make_model(), data, StepscopeCallback(tmp_path, profile_batch=(3, 4)), validation_data=None)
    with ss.open(tmp_path, cache=False) as log:
        [pointer] = [record for record in log.run(".").records() if record.tag == "stepscope/profile"]
        assert pointer.count == 1
    facts = [json.loads(path.read_text()) for path in (tmp_path / "profiles").glob("*.json")]
    assert [list(fact["steps"]) for fact in facts if "steps" in fact] == [[2, 3]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"update_freq": "often"},
            "update_freq must be 'batch', 'epoch' or a number of batches, got 'often'",
        ),
        ({"update_freq": 0}, "update_freq must be"),
        ({"histogram_freq": -1}, "histogram_freq must be a number of epochs, got -1"),
        ({"profile_batch": (3, 2)}, "profile_batch must be a batch, or the first and the last, got"),
        ({"profile_batch": "x"}, "profile_batch must be"),
        ({"embeddings_freq": "1"}, "embeddings_freq must be a number of epochs"),
    ],
)
def test_arguments_that_cannot_be_right(callback, options, text):
    with pytest.raises(UsageError, match=text):
        callback(**options)


def test_a_run_takes_no_options_beside_it(tmp_path):
    with ss.Run(tmp_path) as run, pytest.raises(UsageError, match="takes no options, got config"):
        StepscopeCallback(run, config={"lr": 1})


def test_a_metric_with_parts_has_the_names_that_keras_shows():
    """A loop of the model's own may return the compiled metrics together, as one."""
    together = {"loss": 0.5, "compile_metrics": {"mae": 0.25, "mse": 0.125}}
    assert numbers(together) == [("loss", 0.5), ("mae", 0.25), ("mse", 0.125)]
    assert numbers({"a": {"mae": 1.0}, "b": {"mae": 2.0}}) == [("a/mae", 1.0), ("b/mae", 2.0)]
    assert numbers(None) == []
