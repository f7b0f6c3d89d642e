"""Sharpness in JAX, of quadratics whose eigenvalues are known."""

import jax
import jax.numpy as jnp
import pytest

from stepscope.integrations.jax.curvature import sharpness


@pytest.mark.parametrize("scales", [(9.0, 1.0, 0.1), (-4.0, 2.0, 1.0)])
def test_sharpness_is_the_largest_eigenvalue(scales):
    parameters = {"a": jnp.ones(2), "b": jnp.ones(1)}

    def loss(tree):
        return 0.5 * (
            scales[0] * tree["a"][0] ** 2 + scales[1] * tree["a"][1] ** 2 + scales[2] * tree["b"][0] ** 2
        )

    value, vector = jax.jit(lambda p: sharpness(loss, p, jax.random.key(0), iterations=30))(parameters)
    assert float(value) == pytest.approx(scales[0], rel=1e-5)
    assert abs(float(vector["a"][0])) == pytest.approx(abs(scales[0]), rel=1e-4)
