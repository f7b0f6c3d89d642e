"""The wide-and-deep model in JAX, by one process or several of ``jax.distributed``.

One machine:    ``python examples/birthweight/jax_train.py runs/births``
Five processes: ``python examples/birthweight/jax_train.py runs/births --processes 5``
Under Slurm, Kubernetes or Open MPI start it once per process, with ``--processes 0``: JAX finds the others.
Then:           ``stepscope serve runs``, ``stepscope advise runs``, ``stepscope ranks runs/births``
"""

from __future__ import annotations

import multiprocessing
import socket
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from births import BUCKETS, WIDE, births, features
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from options import hooks, parser

import stepscope as ss
from stepscope.integrations.jax import watch


def parameters() -> Any:
    keys = jax.random.split(jax.random.key(0), 4)
    sizes = [(5, 64), (64, 32), (32, 1)]
    deep = [
        {"w": jax.random.normal(key, size) / size[0] ** 0.5, "b": jnp.zeros(size[1])}
        for key, size in zip(keys, sizes, strict=False)
    ]
    embedding = jax.random.normal(keys[3], (BUCKETS, 3)) / 10
    return {"wide": jnp.zeros((WIDE, 1)), "embedding": embedding, "deep": dict(zip("abc", deep, strict=True))}


def predict(params: Any, wide: Any, crossed: Any, numbers: Any) -> tuple[Any, dict[str, Any]]:
    """Return the weights, and the activations by layer."""
    value, seen = jnp.concatenate([params["embedding"][crossed], numbers], 1), {}
    for name in "ab":
        seen[f"deep/{name}"] = value = jax.nn.relu(
            value @ params["deep"][name]["w"] + params["deep"][name]["b"]
        )
    deep = value @ params["deep"]["c"]["w"] + params["deep"]["c"]["b"]
    return params["wide"][wide].sum(1) + deep, seen


def loss_of(params: Any, batch: Any) -> tuple[Any, dict[str, Any]]:
    predicted, seen = predict(params, *batch[:-1])
    return jnp.mean((predicted - batch[-1]) ** 2), seen


def data(count: int, seed: int) -> list[np.ndarray]:
    columns, weight = births(count, seed)
    wide, crossed, numbers = features(columns)
    return [wide.astype("int32"), crossed.astype("int32"), numbers, weight]


def main(directory: str, steps: int, batch: int, profile: str) -> None:
    mesh = Mesh(np.array(jax.devices()), "data")
    everywhere, split = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("data",)))
    optimizer = optax.adagrad(0.05)
    params = jax.jit(parameters, out_shardings=everywhere)()
    state = jax.jit(optimizer.init, out_shardings=everywhere)(params)
    train, unseen = data(20_000, 1 + jax.process_index()), data(2_000, 0)
    evaluate = jax.jit(lambda params, batch: loss_of(params, batch)[0], out_shardings=everywhere)
    random = np.random.default_rng(jax.process_index())
    config = {"batch": batch, "processes": jax.process_count()}
    more = [ss.GradientHook(every_n_steps=50), ss.ActivationHook(every_n_steps=50)]

    with ss.Run(directory, config=config, hooks=[*hooks(profile), *more], total_steps=steps) as run:
        watched = watch(run)

        @partial(jax.jit, static_argnames="level")
        def train_step(params: Any, state: Any, batch: Any, level: str) -> Any:
            (loss, seen), gradients = jax.value_and_grad(loss_of, has_aux=True)(params, batch)
            updates, state = optimizer.update(gradients, state, params)
            measured = watched.measure(
                level, gradients=gradients, weights=params, updates=updates, activations=seen
            )
            return optax.apply_updates(params, updates), state, loss, measured

        for step in run.steps(range(steps)):
            chosen = random.integers(0, len(train[-1]), batch)
            mine = [jax.make_array_from_process_local_data(split, column[chosen]) for column in train]
            params, state, loss, measured = train_step(params, state, mine, watched.level(step))
            watched.record(measured, step)
            run.count(examples=batch)
            run.scalar("train/loss", loss)
            if step % 100 == 99 or step == steps - 1:
                run.scalar("eval/loss", evaluate(params, unseen))


def process(address: str, count: int, number: int, **arguments: Any) -> None:
    jax.distributed.initialize(address, count, number)
    main(**arguments)
    jax.distributed.shutdown()


def several(count: int, **arguments: Any) -> None:
    """Run so many processes on this machine, and fail where one does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    spawn = multiprocessing.get_context("spawn")
    started = [
        spawn.Process(target=process, args=(address, count, number), kwargs=arguments)
        for number in range(count)
    ]
    for child in started:
        child.start()
    for child in started:
        child.join()
    raise SystemExit(max(abs(process.exitcode or 0) for process in started))


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument(
        "--processes", type=int, default=1, help="0: those of the cluster, as JAX finds them"
    )
    arguments = vars(options.parse_args())
    count = arguments.pop("processes")
    if count == 0:
        jax.distributed.initialize()
    if count > 1:
        several(count, **arguments)
    main(**arguments)
