"""Gradients, weights and updates as Keras's optimizers have them, against the same training in numpy."""

from itertools import count

import keras
import numpy as np
import pytest
from support.records import histograms

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.integrations.keras import StepscopeCallback, measured
from stepscope.record.edges import counts, rows
from stepscope.record.statistics.sampling import ReadyPace

pytestmark = [  # Keras's own
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*shuffle=True.*was passed"),
]
BACKEND = keras.backend.backend()
KERAS3 = not keras.__version__.startswith("2.")
HOME = "net/" if KERAS3 else ""
"""Before a variable's name: Keras 3 has the model's there."""
NAMES = tuple(HOME + name for name in ("hidden/kernel", "hidden/bias", "out/kernel", "out/bias"))
RATE = 0.1


class Reference:
    """The model of ``make_model``, trained by plain descent in float64 on whole batches."""

    def __init__(self, model, data):
        self.weights = [np.asarray(each, "f8") for each in model.get_weights()]
        self.x, self.y = (np.asarray(each, "f8") for each in data)

    def gradients(self, part=slice(None)):
        kernel, bias, out, out_bias = self.weights
        x, y = self.x[part], self.y[part]
        before = x @ kernel + bias
        hidden = np.maximum(before, 0)
        error = 2 * (hidden @ out + out_bias - y) / len(x)
        back = (error @ out.T) * (before > 0)
        return [x.T @ back, back.sum(0), hidden.T @ error, error.sum(0)]

    def step(self, gradients):
        self.weights = [old - RATE * each for old, each in zip(self.weights, gradients, strict=True)]


def norm(arrays):
    return np.sqrt(sum((each**2).sum() for each in arrays))


def statistics(array):
    return {
        "norm": np.linalg.norm(array),
        "mean": array.mean(),
        "std": array.std(),
        "min": array.min(),
        "max": array.max(),
        "zero_ratio": (array == 0).mean(),
        "nonfinite_count": 0,
    }


def sgd(**options):
    return keras.optimizers.SGD(RATE, **options)


def fit(model, data, path, *, epochs, batch_size=40, **options):
    callback = StepscopeCallback(path)
    model.fit(
        *data, batch_size=batch_size, epochs=epochs, verbose=0, shuffle=False, callbacks=[callback], **options
    )


def at(found, tag, step):
    return found.values[tag][found.steps[tag].index(step)]


def hook(**options):
    options.setdefault("max_overhead", None)
    return ss.GradientHook(**{"every_n_steps": 3, "dense_steps": 0, "histograms_every": 0, **options})


def test_all_statistics(make_model, data, tmp_path, recorded):
    model = make_model(measured(sgd(), hook()))
    reference = Reference(model, data)
    fit(model, data, tmp_path, epochs=8)
    found = recorded()
    assert found.steps["gradients/norm"] == list(range(8))
    assert found.steps[f"gradients/{NAMES[0]}/mean"] == [0, 3, 6]
    for step in range(8):
        gradients = reference.gradients()
        assert at(found, "gradients/norm", step) == pytest.approx(norm(gradients), rel=1e-5)
        assert at(found, "gradients/nonfinite_count", step) == 0
        if step % 3 == 0:
            kinds = {
                "gradients": gradients,
                "weights": reference.weights,
                "updates": [-RATE * each for each in gradients],
            }
            for kind, arrays in kinds.items():
                for name, array in zip(NAMES, arrays, strict=True):
                    for word, expected in statistics(array).items():
                        value = at(found, f"{kind}/{name}/{word}", step)
                        most = 1e-3 * norm([array]) + 2e-6 if word == "std" else 2e-6  # float32 sums
                        assert value == pytest.approx(expected, rel=2e-4, abs=most), (kind, name, word)
            for name, weight, update in zip(NAMES, reference.weights, kinds["updates"], strict=True):
                if norm([weight]):
                    ratio = at(found, f"updates/{name}/weight_ratio", step)
                    assert ratio == pytest.approx(norm([update]) / norm([weight]), rel=2e-4)
            assert at(found, "weights/norm", step) == pytest.approx(norm(reference.weights), rel=1e-5)
            ratio = norm(kinds["updates"]) / norm(reference.weights)
            assert at(found, "updates/weight_ratio", step) == pytest.approx(ratio, rel=2e-4)
        reference.step(gradients)
    trained = [np.asarray(each) for each in model.get_weights()]
    for mine, theirs in zip(reference.weights, trained, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)


def test_histograms_are_exact(make_model, data, tmp_path):
    model = make_model(measured(sgd(), hook(histograms_every=6)))
    first = [np.asarray(each) for each in model.get_weights()]
    fit(model, data, tmp_path, epochs=7)
    found = histograms(tmp_path)
    steps = {step for tag, step in found if tag == f"gradients/{NAMES[0]}/histogram"}
    assert steps == {0, 6}
    for name, weight in zip(NAMES, first, strict=True):
        np.testing.assert_array_equal(found[f"weights/{name}/histogram", 0], rows(counts(weight)))
    for kind in ("gradients", "updates"):
        assert found[f"{kind}/{NAMES[0]}/histogram", 6][:, 2].sum() == 12


def test_clipping_gives_both_norms(make_model, data, tmp_path, recorded):
    most = 0.5
    model = make_model(measured(sgd(global_clipnorm=most), hook()))
    reference = Reference(model, data)
    fit(model, data, tmp_path, epochs=4)
    found = recorded()
    for step in range(4):
        gradients = reference.gradients()
        before = norm(gradients)
        scale = min(1, most / before)
        assert at(found, "gradients/norm", step) == pytest.approx(before, rel=1e-5)
        assert at(found, "gradients/clipped_norm", step) == pytest.approx(before * scale, rel=1e-5)
        reference.step([each * scale for each in gradients])


@pytest.mark.skipif(not KERAS3, reason="Keras 2 does not accumulate")
def test_accumulated_gradients_are_measured_once(make_model, data, tmp_path, recorded):
    model = make_model(measured(sgd(gradient_accumulation_steps=2), hook(every_n_steps=1)))
    reference = Reference(model, data)
    fit(model, data, tmp_path, epochs=2, batch_size=20)
    found = recorded()
    assert found.steps["gradients/norm"] == [1, 3]
    assert found.steps[f"gradients/{NAMES[3]}/mean"] == [1, 3]
    for step in (1, 3):
        gradients = reference.gradients()  # the mean over both halves
        assert at(found, "gradients/norm", step) == pytest.approx(norm(gradients), rel=1e-5)
        reference.step(gradients)


def test_layers_and_levels(make_model, data, tmp_path, recorded):
    only = hook(layers="kernel$", of=("gradients",), norm_every_step=False, stats=("norm",))
    fit(make_model(measured(sgd(), only)), data, tmp_path, epochs=5)
    tags = {tag for tag in recorded().tags if tag.startswith(("gradients/", "weights/", "updates/"))}
    assert tags >= {f"gradients/{NAMES[0]}/norm", f"gradients/{NAMES[2]}/norm"}
    assert not any("bias" in tag or tag.startswith(("weights", "updates")) for tag in tags)
    assert recorded().steps["gradients/norm"] == [0, 3]


def test_what_is_not_finite(make_model, data, tmp_path, recorded):
    x, y = data
    y = y.copy()
    y[0] = np.nan
    fit(make_model(measured(sgd(), hook())), (x, y), tmp_path, epochs=1)
    found = recorded()
    assert np.isnan(at(found, "gradients/norm", 0))
    assert at(found, f"gradients/{NAMES[3]}/nonfinite_count", 0) == 1
    assert at(found, "gradients/nonfinite_count", 0) > 0


def test_a_second_fit_goes_on(make_model, data, tmp_path, recorded):
    model = make_model(measured(sgd(), hook()))
    fit(model, data, tmp_path, epochs=2)
    fit(model, data, tmp_path, epochs=2)
    assert recorded().steps["gradients/norm"] == [0, 1, 2, 3]


@pytest.mark.skipif(not KERAS3, reason="Keras 2 makes other files")
def test_it_is_saved_as_what_it_was(make_model, data, tmp_path):
    model = make_model(measured(keras.optimizers.Adam(RATE), hook()))
    fit(model, data, tmp_path / "run", epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    plain = make_model(keras.optimizers.Adam(RATE))
    assert type(loaded.optimizer) is type(plain.optimizer)
    plain.fit(*data, batch_size=40, epochs=1, verbose=0)
    assert len(loaded.optimizer.variables) == len(plain.optimizer.variables)
    mine = [np.asarray(keras.ops.convert_to_numpy(each)) for each in loaded.optimizer.variables]
    ours = [each for each in model.optimizer.variables if "stepscope" not in each.name]
    for one, two in zip(mine, ours, strict=True):
        np.testing.assert_array_equal(one, np.asarray(keras.ops.convert_to_numpy(two)))


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(UsageError, match="not an optimizer of Keras: int"):
        measured(3)


@pytest.mark.skipif(not KERAS3, reason="Keras 2 scales otherwise")
def test_scaled_losses_are_unscaled(make_model, data, tmp_path, recorded):
    scaled = keras.optimizers.LossScaleOptimizer(measured(sgd(), hook()), initial_scale=64.0)
    model = make_model(scaled)
    reference = Reference(model, data)
    fit(model, data, tmp_path, epochs=2)
    for step in range(2):
        gradients = reference.gradients()
        assert at(recorded(), "gradients/norm", step) == pytest.approx(norm(gradients), rel=1e-5)
        reference.step(gradients)
    assert recorded().steps[f"gradients/{NAMES[0]}/mean"] == [0]


def test_parameters_take_turns_and_the_norm_is_of_all(make_model, data, tmp_path, recorded):
    model = make_model(measured(sgd(), hook(rotate=2, histograms_every=6)))
    reference = Reference(model, data)
    fit(model, data, tmp_path, epochs=8)
    found, counted = recorded(), histograms(tmp_path)
    assert found.steps["gradients/norm"] == list(range(8))
    assert "weights/norm" not in found.tags
    assert "updates/weight_ratio" not in found.tags
    for step in range(8):
        gradients = reference.gradients()
        assert at(found, "gradients/norm", step) == pytest.approx(norm(gradients), rel=1e-5)
        for row, (name, gradient, weight) in enumerate(zip(NAMES, gradients, reference.weights, strict=True)):
            due = step in ((0, 6) if row % 2 == 0 else (3,))
            arrays = {"gradients": gradient, "weights": weight, "updates": -RATE * gradient}
            for kind, array in arrays.items():
                assert (step in found.steps[f"{kind}/{name}/std"]) == due, (kind, name, step)
                if due:
                    value = at(found, f"{kind}/{name}/norm", step)
                    assert value == pytest.approx(norm([array]), rel=2e-4, abs=2e-6)
        reference.step(gradients)
    kinds = {(tag.split("/", 1)[1], step) for tag, step in counted}
    assert kinds == {(f"{name}/histogram", step) for name in NAMES[::2] for step in (0, 6)}


def drained(hook):
    """A callback that waits for what is measured, after each epoch."""
    return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: hook.parts[0]._rounds.drain(20))


@pytest.mark.skipif(BACKEND == "torch", reason="torch's own tests")
@pytest.mark.parametrize("rotate", [1, 2])
def test_the_budget_bounds_samples(make_model, data, tmp_path, recorded, monkeypatch, rotate):
    monkeypatch.setattr(ReadyPace, "step_seconds", 0.1)
    monkeypatch.setattr(ReadyPace, "sample_seconds", 0.1)
    bounded = hook(every_n_steps=2, max_overhead=0.1, rotate=rotate)
    model, callback = make_model(measured(sgd(), bounded)), StepscopeCallback(tmp_path)
    model.fit(*data, batch_size=40, epochs=40, verbose=0, callbacks=[callback, drained(bounded)])
    # A sample costs a step, one in ten may be one: the distance is 2 times the next power of two.
    steps = [step for name in NAMES[:rotate] for step in recorded().steps[f"gradients/{name}/std"]]
    assert sorted(steps) == [0, 2, 16, 32]


@pytest.mark.skipif(BACKEND == "torch", reason="torch's own tests")
@pytest.mark.parametrize("every_step", [True, False])
def test_steps_are_timed_beside_samples(make_model, data, tmp_path, every_step, monkeypatch):
    """Steps that all take the same stretch no distance, whatever else the machine does."""
    monkeypatch.setattr(ReadyPace.__init__, "__defaults__", (count().__next__,))
    timed = hook(every_n_steps=4, max_overhead=1.0, norm_every_step=every_step)
    model = make_model(measured(sgd(), timed))
    with ss.Run(tmp_path) as run:
        callbacks = [StepscopeCallback(run), drained(timed)]
        model.fit(*data, batch_size=40, epochs=24, verbose=0, callbacks=callbacks)
        [meter] = timed.parts
        kinds = {kind: len(found) for kind, found in meter._pace._kinds.items()}
        assert meter._pace.step_seconds > 0
    assert kinds["full"] == 5  # the first compiles
    assert kinds["norm"] >= 5
