"""EarlyStoppingHook, told by the writer's thread, which the tests play; Keras' callback is the oracle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stepscope as ss
from stepscope.errors import UsageError

NAN = float("nan")


def stopped_at(fake, values, **options):
    """Number of the value after which the run wants to stop, None where it never does."""
    run = fake(hooks=[ss.EarlyStoppingHook("eval/loss", **options)])
    for number, value in enumerate(values):
        run.scalar("eval/loss", value, number)
        run.turn()
        if run.should_stop:
            return number
    return None


def test_it_stops_after_so_many_values_without_improvement(fake):
    assert stopped_at(fake, [3, 2, 2.5, 1, 1, 1.5, 9, 0], patience=3) == 6
    assert stopped_at(fake, [3, 2, 1, 0], patience=1) is None


def test_more_may_be_better(fake):
    assert stopped_at(fake, [0.1, 0.5, 0.4, 0.3, 0.9], patience=2, mode="max") == 3


def test_an_improvement_must_be_large_enough(fake):
    assert stopped_at(fake, [3, 2.95, 2.92, 2.7], patience=2, min_delta=0.1) == 2
    assert stopped_at(fake, [3, 2.95, 2.85, 2.7], patience=2, min_delta=0.1) is None


def test_nan_is_no_improvement(fake):
    assert stopped_at(fake, [1, NAN, NAN, 0], patience=2) == 2
    assert stopped_at(fake, [NAN, 2, 1], patience=2) is None


def test_a_baseline_must_be_reached(fake):
    assert stopped_at(fake, [5, 4, 3], patience=3, baseline=2) == 2
    assert stopped_at(fake, [5, 4, 1], patience=3, baseline=2) is None


def test_patience_in_steps(fake):
    run = fake(hooks=[ss.EarlyStoppingHook("eval/loss", patience_steps=100)])
    for step, value in [(0, 3.0), (50, 2.0), (149, 2.0), (150, 2.0)]:
        assert not run.should_stop
        run.scalar("eval/loss", value, step)
        run.turn()
    assert run.should_stop


def test_early_steps_are_only_remembered(fake):
    assert stopped_at(fake, [1, 2, 2, 2, 2, 2], patience=2, min_steps=4) == 4


def test_the_reason_names_the_best(fake):
    run = fake(hooks=[hook := ss.EarlyStoppingHook("eval/loss", 1)])
    run.scalar("eval/loss", 0.25, 10)
    run.scalar("eval/loss", 0.5, 20)
    run.turn()
    assert run.stop_reason == (
        "eval/loss has not improved for 1 value, at step 20; the best is 0.25 at step 10"
    )
    assert (hook.best, hook.best_step) == (0.25, 10)


def test_the_training_ends_at_the_next_boundary(fake):
    run = fake(hooks=[ss.EarlyStoppingHook("loss", 2)])
    for _ in run.steps(range(50)):
        run.scalar("loss", 1.0)
        run.turn()
    assert run.current_step == 2


def test_a_metric_that_never_came_is_told(real):
    run = real(hooks=[ss.EarlyStoppingHook("eval/los", 2)])
    for _ in run.steps(range(2)):
        run.scalar("eval/loss", 1.0)
    with pytest.warns(RuntimeWarning, match="waited for 'eval/los', which was never logged"):
        run.close()


def test_one_that_came_last_is_heard(real):
    with real(hooks=[hook := ss.EarlyStoppingHook("eval/loss", 2)]) as run:
        list(run.steps(range(2)))
        run.scalar("eval/loss", 1.0)
    assert hook.best == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either patience or patience_steps, got neither"),
        ({"patience": 1, "patience_steps": 1}, "got both"),
        ({"patience": -1}, "patience must be an integer, 0 or more"),
        ({"patience": 1, "mode": "auto"}, "mode must be 'min' or 'max'"),
        ({"patience": 1, "min_delta": -1}, "min_delta must be 0 or more"),
        ({"patience": 1, "min_delta": NAN}, "min_delta must be 0 or more"),
    ],
)
def test_arguments_that_cannot_be_right(arguments, message):
    with pytest.raises(UsageError, match=message):
        ss.EarlyStoppingHook("loss", **arguments)


def test_the_metric_is_a_tag():
    with pytest.raises(UsageError, match="metric must be a tag"):
        ss.EarlyStoppingHook(["loss"], 1)


class Recorded:
    """What the hook needs of a run."""

    def __init__(self):
        self.stopped = False

    def request_stop(self, reason, *, alone):
        self.stopped = True


@pytest.fixture(scope="module")
def keras():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_BACKEND", "torch")
        yield pytest.importorskip("keras")


def by_keras(keras, values, patience, min_delta, mode):
    callback = keras.callbacks.EarlyStopping(
        "m", patience=patience, min_delta=min_delta, mode=mode, verbose=0
    )
    callback.set_model(type("Model", (), {"stop_training": False})())
    callback.on_train_begin()
    for epoch, value in enumerate(values):
        callback.on_epoch_end(epoch, {"m": value})
        if callback.model.stop_training:
            return epoch
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.integers(-3, 3).map(float), max_size=12),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.5, 1.0, 1.5]),
    st.sampled_from(["min", "max"]),
)
def test_it_stops_where_keras_does(keras, values, patience, min_delta, mode):
    import numpy as np

    hook = ss.EarlyStoppingHook("m", patience, min_delta=min_delta, mode=mode)
    hook._run = Recorded()
    found = None
    for number, value in enumerate(values):
        hook._take("m", np.array([number]), np.array([value]), np.array([0.0]))
        if hook._run.stopped:
            found = number
            break
    assert found == by_keras(keras, values, patience, min_delta, mode)
