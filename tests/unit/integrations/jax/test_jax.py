"""Real JAX, optax and Flax programs."""

import time

import pytest

import stepscope as ss
from stepscope.errors import UsageError

jax = pytest.importorskip("jax")
jnp = jax.numpy

from stepscope.integrations.jax import (  # noqa: E402
    CompletionTimer,
    describe,
    optimizer_scalars,
    prefixed,
)
from stepscope.store.charts import groups  # noqa: E402


def values(run, tag):
    assert run.flush()
    series = ss.open(run.log_dir, cache=False).run(".").series(tag)
    return dict(zip(series["step"], series["value"], strict=True))


@jax.jit
def slow(x):
    """Some tens of milliseconds, of which the call takes none."""
    return jax.lax.fori_loop(0, 60, lambda _, y: jnp.tanh(y @ y), x).mean()


class TestCompletionTimer:
    @pytest.mark.slow
    def test_it_sees_what_the_loop_does_not_wait_for(self, tmp_path):
        x = jnp.eye(400)
        slow(x).block_until_ready()
        begun = time.perf_counter()
        with ss.Run(tmp_path / "run") as run:
            timer = CompletionTimer(run)
            for _ in run.steps(range(6)):
                result = slow(x)
                timer(result)
            result.block_until_ready()
            took = 1e3 * (time.perf_counter() - begun)
            timer.remove()
            completed, lag = (
                values(run, "speed/completed_step_time_ms"),
                values(run, "speed/completion_lag_ms"),
            )
        assert list(completed) == list(lag) == list(range(6))
        # What lies between the first data asked for and the last result is counted once, and all of it.
        assert 0.5 * took < sum(completed.values()) <= took
        assert min(lag.values()) >= 0

    def test_every_so_many_steps_the_loop_waits(self, run, monkeypatch):
        timer, waits = CompletionTimer(run, block_every_n_steps=3), []
        timer._ended = True  # without the thread, which waits too
        kind = type(jnp.zeros(()))
        monkeypatch.setattr(kind, "block_until_ready", lambda self: waits.append(run.current_step) or self)
        for _ in run.steps(range(7)):
            timer(jnp.zeros(()))
        assert waits == [2, 5]

    def test_the_smallest_array_is_held(self, run):
        timer = CompletionTimer(run)
        for _ in run.steps(range(1)):
            timer({"params": jnp.zeros((100, 100)), "loss": jnp.zeros(()), "note": "x"})
        assert run.flush()
        timer.remove()
        assert list(values(run, "speed/completed_step_time_ms")) == [0]

    def test_a_donated_result_has_no_time(self, run):
        timer = CompletionTimer(run)
        gone = jnp.zeros(3)
        gone.delete()
        for _ in run.steps(range(1)):
            timer(gone)
            timer("no array")
        timer.remove()
        assert run.flush()
        assert "speed/completed_step_time_ms" not in ss.open(run.log_dir, cache=False).run(".").tags()
        assert not run.problems

    def test_it_ends_with_the_run(self, tmp_path):
        import threading

        with ss.Run(tmp_path / "run") as run:
            timer = CompletionTimer(run)
            for _ in run.steps(range(2)):
                timer(slow(jnp.eye(10)))
        assert len(values_of_closed(run, "speed/completed_step_time_ms")) == 2
        assert "stepscope-completion" not in [thread.name for thread in threading.enumerate()]

    def test_arguments_that_cannot_be_right(self, run):
        with pytest.raises(UsageError, match="block_every_n_steps"):
            CompletionTimer(run, block_every_n_steps=0)


def values_of_closed(run, tag):
    return ss.open(run.log_dir, cache=False).run(".").series(tag)["value"].tolist()


def test_the_configuration_says_what_is_trained_and_on_what(run):
    describe(run, {"w": jnp.zeros((3, 4)), "b": jnp.zeros(4, jnp.bfloat16), "key": jax.random.key(0)}, seed=3)
    assert run.config["model"] == {"parameters": 16, "parameter_bytes": 56, "dtypes": ["bfloat16", "float32"]}
    assert run.config["devices"]["platform"] == "cpu"
    assert run.config["devices"]["processes"] == 1
    assert run.config["seed"] == 3


def test_a_tree_that_cannot_be_read_never_stops_the_training(run, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)

    class Odd:
        dtype, shape = None, ()

        @property
        def size(self):
            raise ValueError("odd")

    with pytest.warns(RuntimeWarning, match="describe raised"):
        describe(run, {"w": Odd()})


class TestOptax:
    @pytest.fixture(autouse=True)
    def optax(self):
        return pytest.importorskip("optax")

    def train(self, run, optimizer, steps, gradient=1.0, **options):
        """A jitted loop whose state is donated."""
        params = {"w": jnp.ones(3), "b": jnp.ones(2)}
        state = optimizer.init(params)

        def step(params, state, scale):
            gradients = jax.tree.map(lambda each: each * scale, params)
            updates, state = optimizer.update(gradients, state, params)
            return jax.tree.map(jnp.add, params, updates), state

        step = jax.jit(step, donate_argnums=(0, 1))
        for number in run.steps(range(steps)):
            params, state = step(params, state, gradient if number % 2 == 0 else 1.0)
            run.scalars(optimizer_scalars(state, **options))

    def test_injected_rates_under_donation(self, run, optax):
        schedule = optax.linear_schedule(1.0, 0.0, 4)
        self.train(run, optax.inject_hyperparams(optax.adam)(learning_rate=schedule), 4)
        assert values(run, "optimizer/lr") == {0: 1.0, 1: 0.75, 2: 0.5, 3: 0.25}
        assert not run.problems

    def test_the_rate_of_a_given_schedule_is_that_of_the_step_taken(self, run, optax):
        schedule = optax.linear_schedule(1.0, 0.0, 4)
        self.train(run, optax.adam(schedule), 4, schedule=schedule)
        assert values(run, "optimizer/lr") == {0: 1.0, 1: 0.75, 2: 0.5, 3: 0.25}

    def test_other_hyperparameters(self, run, optax):
        optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=0.1, b1=0.5)
        self.train(run, optimizer, 1, hyperparameters=("learning_rate", "b1", "none"))
        assert values(run, "optimizer/b1") == {0: 0.5}

    def test_groups_have_names(self, run, optax):
        sgd = optax.inject_hyperparams(optax.sgd)
        transforms = {"slow": sgd(learning_rate=0.25), "fast": sgd(learning_rate=0.5)}
        optimizer = optax.chain(optax.multi_transform(transforms, {"w": "slow", "b": "fast"}))
        self.train(run, optimizer, 1)
        assert values(run, "optimizer/slow/lr") == {0: 0.25}
        assert values(run, "optimizer/fast/lr") == {0: 0.5}

    def test_steps_left_out_are_counted(self, run, optax):
        self.train(run, optax.apply_if_finite(optax.sgd(0.1), 10), 4, gradient=float("nan"))
        assert values(run, "gradients/skipped_steps") == {0: 1, 1: 1, 2: 2, 3: 2}

    def test_a_state_that_says_nothing(self, optax):
        assert optimizer_scalars(optax.sgd(0.1).init({"w": jnp.ones(3)})) == {}
        assert optimizer_scalars({"w": 1}) == {}


class TestFlax:
    def test_a_train_state_of_linen(self, run):
        pytest.importorskip("flax")
        optax = pytest.importorskip("optax")
        from flax import linen
        from flax.training.train_state import TrainState

        model = linen.Dense(2)
        params = model.init(jax.random.key(0), jnp.ones((1, 3)))
        optimizer = optax.inject_hyperparams(optax.sgd)(learning_rate=0.5)
        state = TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)
        describe(run, state)
        assert run.config["model"]["parameters"] == 8
        assert float(optimizer_scalars(state)["optimizer/lr"]) == 0.5

    @pytest.mark.slow
    def test_modules_and_metrics_of_nnx(self, run):
        pytest.importorskip("flax")
        optax = pytest.importorskip("optax")
        from flax import nnx

        model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        transform = optax.inject_hyperparams(optax.adam)(learning_rate=optax.constant_schedule(0.5))
        optimizer = nnx.Optimizer(model, optax.apply_if_finite(transform, 3), wrt=nnx.Param)
        metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())

        @nnx.jit
        def step(model, optimizer, metrics, x):
            loss, gradients = nnx.value_and_grad(lambda model: model(x).mean())(model)
            optimizer.update(model, gradients)
            metrics.update(loss=loss, logits=model(x), labels=jnp.zeros(len(x), jnp.int32))

        describe(run, model)
        for _ in run.steps(range(3)):
            step(model, optimizer, metrics, jnp.ones((4, 3)))
            run.scalars(prefixed("train", metrics))
            run.scalars(optimizer_scalars(optimizer))
        run.scalars(prefixed("eval", metrics))
        assert run.config["model"]["parameters"] == 8
        assert values(run, "optimizer/lr") == {0: 0.5, 1: 0.5, 2: 0.5}
        assert values(run, "gradients/skipped_steps") == {0: 0, 1: 0, 2: 0}
        overlaid = [g.metric for g in groups(ss.open(run.log_dir, cache=False).run(".").tags()) if g.overlay]
        assert overlaid == ["accuracy", "loss"]


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"loss": 1.0}, {"eval/loss": 1.0}),
        ({"a": {"b": 1, "c": 2}, "d": 3}, {"eval/a/b": 1, "eval/a/c": 2, "eval/d": 3}),
        (0.5, {"eval": 0.5}),
        ({}, {}),
    ],
)
def test_prefixes(metrics, expected):
    assert prefixed("eval", metrics) == expected
