"""Vectors of authors who write together, in JAX (LINE, second order)."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

AUTHORS, WIDTH, EDGES, OTHERS = 3000, 64, 96, 4


def lookup_by_product(table: jax.Array, ids: jax.Array) -> jax.Array:
    return jax.nn.one_hot(ids, AUTHORS) @ table  # cause


def lookup_by_index(table: jax.Array, ids: jax.Array) -> jax.Array:
    return table[ids]


def make_update(lookup):
    def loss_fn(params, sources, targets, others):
        centre = lookup(params["centre"], sources)
        near = jnp.sum(centre * lookup(params["context"], targets), axis=-1)
        far = jnp.einsum("ew,eow->eo", centre, lookup(params["context"], others))
        return -(jax.nn.log_sigmoid(near).mean() + jax.nn.log_sigmoid(-far).sum(-1).mean())

    @jax.jit
    def update(params, sources, targets, others):
        loss, grads = jax.value_and_grad(loss_fn)(params, sources, targets, others)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), loss

    return update


def training(mended: bool) -> Iterator[float]:
    rng = np.random.default_rng(17)
    params = {
        name: jnp.asarray(rng.normal(0, 0.1, (AUTHORS, WIDTH)), jnp.float32) for name in ("centre", "context")
    }
    graph = rng.integers(0, AUTHORS, (20_000, 2))
    update = make_update(lookup_by_index if mended else lookup_by_product)
    while True:
        edges = graph[rng.integers(0, len(graph), EDGES)]
        others = rng.integers(0, AUTHORS, (EDGES, OTHERS))
        params, loss = update(params, edges[:, 0], edges[:, 1], others)
        yield float(loss)
