"""What the layers of a Keras model put out in training, against the same forward pass in numpy."""

import keras
import numpy as np
import pytest

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback
from stepscope.record.statistics.sampling import ReadyPace

pytestmark = [  # Keras's own
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*shuffle=True.*was passed"),
]


def model_of(optimizer="sgd"):
    parts = [
        keras.layers.Dense(4, name="plain"),
        keras.layers.ReLU(name="relu"),
        keras.layers.Dense(3, activation="tanh", name="tanh"),
        keras.layers.Dense(2, activation="sigmoid", name="sigmoid"),
        keras.layers.Dense(1, name="out"),
    ]
    model = keras.Sequential([keras.Input((3,)), *parts], name="net")
    model.compile(optimizer, "mse")
    return model


def outputs(model, x):
    """What each layer puts out, by name."""
    w = [np.asarray(each, "f8") for each in model.get_weights()]
    plain = x @ w[0] + w[1]
    relu = np.maximum(plain, 0)
    tanh = np.tanh(relu @ w[2] + w[3])
    sigmoid = 1 / (1 + np.exp(-(tanh @ w[4] + w[5])))
    return {"plain": plain, "relu": relu, "tanh": tanh, "sigmoid": sigmoid, "out": sigmoid @ w[6] + w[7]}


def hook(**options):
    return ss.ActivationHook(**{"every_n_steps": 2, "dense_steps": 0, "max_overhead": None, **options})


def fit(model, data, path, hooks, *, epochs, **options):
    with ss.Run(path, hooks=hooks) as run:
        callback = StepscopeCallback(run)
        model.fit(
            *data, batch_size=40, epochs=epochs, verbose=0, shuffle=False, callbacks=[callback], **options
        )
    return run


def test_layers_are_measured_as_they_are_in_training(data, tmp_path, recorded):
    model = model_of()
    first = outputs(model, data[0])
    run = fit(model, data, tmp_path, [hook(saturated=0.2)], epochs=5)
    found = recorded()
    assert found.steps["activations/net/plain/mean"] == [0, 2, 4]
    for name, array in first.items():
        expected = {
            "mean": array.mean(),
            "std": array.std(),
            "min": array.min(),
            "max": array.max(),
            "fraction_of_zero_values": (array == 0).mean(),
            "nonfinite_count": 0,
        }
        for word, value in expected.items():
            mine = found.values[f"activations/net/{name}/{word}"][0]
            assert mine == pytest.approx(value, rel=2e-4, abs=2e-6), (name, word)
    share = found.values["activations/net/tanh/saturation_ratio"][0]
    assert share == pytest.approx((abs(first["tanh"]) >= 0.2).mean(), abs=1e-6)
    share = found.values["activations/net/sigmoid/saturation_ratio"][0]
    assert share == pytest.approx((abs(2 * first["sigmoid"] - 1) >= 0.2).mean(), abs=1e-6)
    assert "activations/net/plain/dead_ratio" not in found.tags
    assert "activations/net/plain/saturation_ratio" not in found.tags
    assert {name: count for name, count in run.problems.items() if count} == {}


def test_units_that_are_silent_for_the_window_are_dead(data, tmp_path, recorded):
    model = model_of("adam")
    weights = model.get_weights()
    weights[1] = np.array([-100.0, 0.0, -100.0, 100.0], "f4")  # two of the four units never fire
    model.set_weights(weights)
    fit(model, data, tmp_path, [hook(every_n_steps=1, window=3)], epochs=5)
    found = recorded()
    assert found.steps["activations/net/relu/dead_ratio"][0] >= 2  # not recorded before it can be known
    assert set(found.values["activations/net/relu/dead_ratio"]) == {0.5}


def test_a_look_that_fails_does_not_stop_the_training(data, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "0")
    monkeypatch.setattr("stepscope.integrations.keras.statistics.first_array", lambda result: 1 / 0)
    with pytest.warns(RuntimeWarning, match="measuring a layer raised ZeroDivisionError"):
        run = fit(model_of(), data, tmp_path, [hook(every_n_steps=1)], epochs=2)
    assert run.problems["callback"] >= 1


def test_chosen_layers_and_histograms(data, tmp_path, recorded):
    model = model_of()
    first = outputs(model, data[0])["tanh"]
    fit(model, data, tmp_path, [hook(layers="tanh", histograms_every=2)], epochs=2)
    assert {tag.split("/")[2] for tag in recorded().tags if tag.startswith("activations/")} == {"tanh"}
    with ss.open(tmp_path, cache=False) as log:
        [series] = log.run(".").record("activations/net/tanh/histogram")
        [made] = [series[at] for at in range(len(series))]
    assert made[:, 2].sum() == pytest.approx(first.size)


def test_it_is_what_it_was_afterwards_and_evaluation_is_not_measured(data, tmp_path, recorded):
    model = model_of()
    plain = model_of()
    plain.set_weights(model.get_weights())
    fit(model, data, tmp_path, [hook(every_n_steps=1)], epochs=3, validation_data=data)
    plain.fit(*data, batch_size=40, epochs=3, verbose=0, shuffle=False)
    for mine, theirs in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert recorded().steps["activations/net/out/mean"] == [0, 1, 2]
    assert not any("call" in layer.__dict__ for layer in model.layers)
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    assert len(restored.get_weights()) == len(plain.get_weights())


def test_gradients_and_activations_in_one_fit_and_in_the_next(data, tmp_path, recorded):
    from stepscope.integrations.keras import measured

    gradients = ss.GradientHook(every_n_steps=1, dense_steps=0, max_overhead=None)
    model = model_of(measured(keras.optimizers.SGD(0.1), gradients))
    fit(model, data, tmp_path / "a", [hook(every_n_steps=1)], epochs=2)
    fit(model, data, tmp_path / "b", [hook(every_n_steps=1)], epochs=2)
    for name in ("a", "b"):
        found = recorded(tmp_path / name)
        assert len(found.steps["gradients/norm"]) == 2, name
        assert len(found.steps["activations/net/relu/std"]) == 2, name


def test_layers_take_turns(data, tmp_path, recorded):
    model = model_of()
    first = outputs(model, data[0])
    fit(model, data, tmp_path, [hook(rotate=2, window=1)], epochs=7)
    found = recorded()
    for row, (name, array) in enumerate(first.items()):
        assert found.steps[f"activations/net/{name}/std"] == ([0, 4] if row % 2 == 0 else [2, 6]), name
        if row % 2 == 0:
            mine = found.values[f"activations/net/{name}/mean"][0]
            assert mine == pytest.approx(array.mean(), rel=2e-4, abs=2e-6)
    later = keras.backend.backend() == "torch"  # there the first sample only tells how many units there are
    assert found.steps["activations/net/relu/dead_ratio"] == [2, 6][later:]
    assert found.steps["activations/net/tanh/saturation_ratio"] == [0, 4]


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="torch's own tests")
def test_the_budget_bounds_samples(data, tmp_path, recorded, monkeypatch):
    monkeypatch.setattr(ReadyPace, "step_seconds", 0.1)
    monkeypatch.setattr(ReadyPace, "sample_seconds", 0.1)
    bounded, model = hook(max_overhead=0.1), model_of()
    drain = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: bounded.parts[0]._rounds.drain(20))
    with ss.Run(tmp_path, hooks=[bounded]) as run:
        callbacks = [StepscopeCallback(run), drain]
        model.fit(*data, batch_size=40, epochs=40, verbose=0, callbacks=callbacks)
    # A sample costs a step, one in ten may be one: the distance is 2 times the next power of two.
    assert recorded().steps["activations/net/relu/std"] == [0, 2, 16, 32]


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="torch's own tests")
def test_steps_are_timed_beside_samples(data, tmp_path):
    timed, model = hook(every_n_steps=4, max_overhead=1.0), model_of()
    with ss.Run(tmp_path, hooks=[timed]) as run:
        model.fit(*data, batch_size=40, epochs=24, verbose=0, callbacks=[StepscopeCallback(run)])
        [meter] = timed.parts
        meter._rounds.drain(20)
        kinds = {kind: len(found) for kind, found in meter._pace._kinds.items()}
        assert meter._pace.step_seconds > 0
    assert kinds["full"] >= 4  # the first compiles, and one has histograms
    assert kinds["norm"] >= 5
