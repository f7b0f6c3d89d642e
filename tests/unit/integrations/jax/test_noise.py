"""The gradient noise scale in JAX: the formula of PyTorch's, and what is known of made gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stepscope as ss
from stepscope import store
from stepscope.integrations.jax import noise_scale
from stepscope.record.statistics.table import noise_scale as by_formula

TAG = "gradients/noise_scale_examples"


def parts(rng, noise, count=4):
    """Gradients of parts of a batch: (3, 4, 0, ...) and noise of a variance whose trace is 100 * noise²."""
    signal = np.zeros(100)
    signal[:2] = 3.0, 4.0
    found = (signal + noise * rng.normal(size=(count, 100))).astype(np.float32)
    return {"a": jnp.asarray(found[:, :40]), "b": [jnp.asarray(found[:, 40:].reshape(count, 6, 10))]}


@pytest.mark.slow
def test_it_is_the_trace_of_the_noise_over_the_squared_gradient():
    rng, step = (
        np.random.default_rng(0),
        jax.jit(lambda found, state=None: noise_scale(found, state, examples=1)),
    )
    found, state = step(parts(rng, 0.5))
    for _ in range(400):
        found, state = step(parts(rng, 0.5), state)
    assert float(found[TAG]) == pytest.approx(100 * 0.25 / 25, rel=0.1)


@pytest.mark.slow
def test_one_step_is_that_of_the_formula():
    gradients = parts(np.random.default_rng(1), 0.3)
    rows = np.concatenate(
        [np.asarray(leaf, np.float64).reshape(4, -1) for leaf in jax.tree_util.tree_leaves(gradients)], 1
    )
    trace, squared = by_formula((rows**2).sum(1).mean(), (rows.mean(0) ** 2).sum(), 4)
    found, _ = noise_scale(gradients, examples=32)
    assert float(found[TAG]) == pytest.approx(32 * trace / squared, rel=1e-4)


@pytest.mark.slow
def test_along_an_axis_it_is_the_same():
    gradients = parts(np.random.default_rng(2), 0.3)
    found, state = noise_scale(gradients, examples=8)
    along, states = jax.vmap(lambda own: noise_scale(own, examples=8, axis_name="batch"), axis_name="batch")(
        gradients
    )
    assert np.allclose(along[TAG], float(found[TAG]), rtol=1e-4)
    assert np.allclose(states, np.asarray(state), rtol=1e-4)


def test_a_step_that_is_not_finite_counts_for_nothing():
    gradients = parts(np.random.default_rng(3), 0.3)
    found, state = noise_scale(gradients, examples=8)
    bad = {**gradients, "a": gradients["a"].at[0, 0].set(jnp.nan)}
    again, same = noise_scale(bad, state, examples=8)
    assert float(again[TAG]) == float(found[TAG])
    assert np.array_equal(same, state)


def test_nothing_is_said_before_the_gradient_stands_out_of_its_noise():
    opposite = jnp.array([[1.0, 2.0], [-1.0, -2.0]])
    found, _ = noise_scale({"w": opposite}, examples=1)
    assert np.isnan(float(found[TAG]))


@pytest.mark.parametrize(
    "gradients",
    [{"a": jnp.ones((1, 3))}, {"a": jnp.ones(())}, {"a": jnp.ones((2, 3)), "b": jnp.ones((3, 3))}, {}],
)
def test_parts_that_cannot_be_compared_are_refused(gradients):
    with pytest.raises(ValueError, match="leading axis of 2 or more parts"):
        noise_scale(gradients, examples=1)


def test_parts_have_examples():
    with pytest.raises(ValueError, match="at least 1"):
        noise_scale({"a": jnp.ones((2, 3))}, examples=0)


def test_it_is_recorded(tmp_path):
    rng, state = np.random.default_rng(4), None
    with ss.Run(tmp_path) as run:
        for _ in run.steps(range(5)):
            found, state = noise_scale(parts(rng, 0.3), state, examples=8)
            run.record(found)
    with store.open(tmp_path, cache=False) as log:
        [series] = log.runs()[0].columns(TAG)
    assert len(series.value) == 5
    assert np.isfinite(series.value).all()
