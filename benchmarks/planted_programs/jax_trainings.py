"""Trainings in JAX.

Called as ``python jax_trainings.py TRAINING PROGRAM DIRECTORY``, in an environment that
``planted.py`` makes. The table in ``programs.txt`` has all trainings and programs.
"""

from __future__ import annotations

import csv
import functools
import heapq
import itertools
import json
import logging
import pickle
import queue
import random
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx, serialization
from hook import profiler_hook
from jax.experimental import io_callback

import stepscope as ss

TANH_WIDTH = 512


@jax.jit
def train_step(weights: list[jax.Array], x: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    def loss(weights: list[jax.Array]) -> jax.Array:
        y = x
        for weight in weights:
            y = jnp.tanh(y @ weight)
        return jnp.mean(y**2)

    value, slopes = jax.value_and_grad(loss)(weights)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)], value


def tanh_ready(rows: int = 512) -> Iterator[np.ndarray]:
    data = np.ones((rows, TANH_WIDTH), np.float32)
    for _ in range(14):
        yield data


def slow() -> Iterator[np.ndarray]:
    for x in tanh_ready():
        time.sleep(0.06)  # PLANTED slow_loader
        yield x


def growing() -> Iterator[np.ndarray]:
    for n in range(9):
        yield np.ones((64 + n, TANH_WIDTH), np.float32)


def augment(x: np.ndarray) -> np.ndarray:
    return np.array(
        [[value * 0.5 + 0.1 for value in row] for row in x.tolist()], np.float32
    )  # PLANTED slow_transform


def one_by_one(weight: jax.Array) -> float:
    total = 0.0
    for n in range(150):
        total += float(weight[n, 0])  # PLANTED item_in_loop
    return total


def tanh_layers(name: str, directory: str) -> None:
    hook = profiler_hook(backend="jax")
    weights = [jnp.ones((TANH_WIDTH, TANH_WIDTH)) * 0.01 for _ in range(6)]
    data = {"slow_loader": slow, "recompilation": growing}.get(name, tanh_ready)()
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(data):
            if name == "slow_transform":
                x = augment(x)
            weights, value = train_step(weights, x)  # PLANTED recompilation
            if name == "item_in_loop":
                one_by_one(weights[0])
            if name == "healthy_value":
                float(value)
            jax.block_until_ready(weights)


GELU_WIDTH = 512

GeluWeights = list[jax.Array]


def loss_of(weights: GeluWeights, x: jax.Array) -> jax.Array:
    for weight in weights:
        x = jax.nn.gelu(x @ weight)
    return jnp.mean(x**2)


@jax.jit
def gelu_update(weights: GeluWeights, x: jax.Array) -> tuple[GeluWeights, jax.Array]:
    value, slopes = jax.value_and_grad(loss_of)(weights, x)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)], value


@partial(jax.jit, static_argnums=2)
def scaled(weights: GeluWeights, x: jax.Array, scale: float) -> jax.Array:
    return loss_of(weights, x) * scale


def slow_host(x: np.ndarray) -> np.ndarray:
    end = time.perf_counter() + 0.08
    while time.perf_counter() < end:  # PLANTED host_callback
        pass
    return np.asarray(x)


@jax.jit
def with_callback(weights: GeluWeights, x: jax.Array) -> jax.Array:
    return jax.pure_callback(slow_host, jax.ShapeDtypeStruct((), jnp.float32), loss_of(weights, x))


def gelu_layers(name: str, directory: str) -> None:
    hook = profiler_hook(backend="jax")
    weights = [jnp.ones((GELU_WIDTH, GELU_WIDTH)) * 0.01 for _ in range(6)]
    data = np.ones((512, GELU_WIDTH), np.float32)
    with ss.Run(directory, hooks=[hook]) as run:
        for n in run.steps(range(10)):
            weights, value = gelu_update(weights, data)
            if name == "static_scalar":
                scaled(weights, data, 0.5 + n).block_until_ready()  # PLANTED static_scalar
            elif name == "jit_in_loop":
                jax.jit(lambda w: loss_of(w, data))(weights).block_until_ready()  # PLANTED jit_in_loop
            elif name == "host_callback":
                with_callback(weights, data).block_until_ready()
            elif name == "host_norms":
                norms = [
                    np.linalg.svd(np.asarray(each), compute_uv=False) for each in weights
                ]  # PLANTED host_norms
                assert len(norms) == len(weights)
            jax.block_until_ready((weights, value))


SCANNED_ROWS, SCANNED_WIDTH, SCANNED_STEPS = 256, 512, 12

ScannedWeights = list[jax.Array]

seen: list[float] = []


def scanned_forward(weights: ScannedWeights, x: jax.Array) -> jax.Array:
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return x


def plain_step(weights: ScannedWeights, x: jax.Array) -> ScannedWeights:
    slopes = jax.grad(lambda w: jnp.mean(scanned_forward(w, x) ** 2))(weights)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)]


step = jax.jit(plain_step)


def remember(value: jax.Array) -> None:
    order = sorted(np.asarray(value).ravel().tolist())  # PLANTED debug_callback
    seen.append(order[0])


@jax.jit
def told_step(weights: ScannedWeights, x: jax.Array) -> ScannedWeights:
    jax.debug.callback(remember, scanned_forward(weights, x))
    return plain_step(weights, x)


def unpacked(slow: bool) -> Iterator[np.ndarray]:
    packed = zlib.compress(
        np.random.default_rng(0).integers(0, 9, (SCANNED_ROWS, SCANNED_WIDTH * 16)).astype("f4").tobytes(), 1
    )
    for _ in range(SCANNED_STEPS):
        if slow:
            raw = zlib.decompress(packed)  # PLANTED unpacking
            yield np.frombuffer(raw, np.float32).reshape(SCANNED_ROWS, -1)[:, :SCANNED_WIDTH]
        else:
            yield np.ones((SCANNED_ROWS, SCANNED_WIDTH), np.float32)


@jax.jit
def scanned(weights: ScannedWeights, x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda state, _: (scanned_forward(weights, state), None), x, None, length=4)[0].mean()


def scanned_layers(name: str, directory: str) -> None:
    weights = [jnp.ones((SCANNED_WIDTH, SCANNED_WIDTH)) * 0.01 for _ in range(5)]
    hook = profiler_hook(backend="jax")
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(unpacked(name == "unpacking"))):
            if name == "batch_sizes":
                weights = step(weights, x[: SCANNED_ROWS - 8 * n])  # PLANTED batch_sizes
            elif name == "forgot_jit":
                for _ in range(4):
                    weights = plain_step(weights, x[:8])  # PLANTED forgot_jit
            elif name == "debug_callback":
                weights = told_step(weights, x)
            elif name == "healthy_scan":
                run.scalar("mean", float(scanned(weights, x)))
            else:
                weights = step(weights, x)
            if name == "values_one_by_one":
                row = scanned_forward(weights, x[:1])[0]
                seen.append(max(float(row[k]) for k in range(200)))  # PLANTED values_one_by_one
            jax.block_until_ready(weights)
            if name == "healthy_metrics":
                run.scalar("norm", float(jnp.linalg.norm(weights[0])))


SILU_ROWS, SILU_WIDTH, SILU_STEPS = 192, 448, 12

SiluWeights = dict[str, jax.Array]

silu_optimizer = optax.adam(1e-4)


def model(weights: SiluWeights, x: jax.Array) -> jax.Array:
    for weight in weights.values():
        x = jax.nn.silu(x @ weight)
    return x


def loss(weights: SiluWeights, x: jax.Array) -> jax.Array:
    return jnp.mean((model(weights, x) - 1) ** 2)


@jax.jit
def silu_update(
    weights: SiluWeights, state: optax.OptState, x: jax.Array
) -> tuple[SiluWeights, optax.OptState]:
    changes, state = silu_optimizer.update(jax.grad(loss)(weights, x), state)
    return optax.apply_updates(weights, changes), state


def parsed() -> Iterator[np.ndarray]:
    lines = [" ".join(str(n * 0.25) for n in range(SILU_WIDTH))] * SILU_ROWS
    for _ in range(SILU_STEPS):
        yield np.array([[float(one) for one in line.split()] for line in lines], "f4")  # PLANTED parsed


def silu_plain() -> Iterator[np.ndarray]:
    for _ in range(SILU_STEPS):
        yield np.ones((SILU_ROWS, SILU_WIDTH), np.float32)


def silu_kept(value: np.ndarray) -> None:
    with Path(sys.argv[3], "values").open("w") as file:
        file.write("\n".join(repr(float(one)) for one in value.ravel()))  # PLANTED written_callback


@jax.jit
def watched(weights: SiluWeights, x: jax.Array) -> jax.Array:
    out = model(weights, x)
    io_callback(silu_kept, None, out, ordered=True)
    return out.mean()


def decomposed(weights: SiluWeights) -> list[np.ndarray]:
    return [np.linalg.eigvals(np.asarray(each)[:160, :160]) for each in weights.values()]  # PLANTED spectra


def unrolled(weights: SiluWeights, x: jax.Array) -> jax.Array:
    state = jnp.zeros(SILU_WIDTH)
    for row in range(160):
        state = jnp.tanh(state + x[row] * 0.5)  # PLANTED unrolled
    return state


def evaluate(weights: SiluWeights, held: list[np.ndarray]) -> float:
    return sum(float(jitted_loss(weights, each)) for each in held)  # PLANTED held_out


jitted_loss = jax.jit(loss)


def wait_for(lock: threading.Lock) -> None:
    with lock:  # PLANTED locked
        pass


def holding(lock: threading.Lock) -> None:
    while True:
        with lock:
            time.sleep(0.06)
        time.sleep(0.001)


@jax.jit
def accumulated(
    weights: SiluWeights, state: optax.OptState, x: jax.Array
) -> tuple[SiluWeights, optax.OptState]:
    parts = x.reshape(4, -1, SILU_WIDTH)
    slopes = jax.lax.map(lambda part: jax.grad(loss)(weights, part), parts)
    changes, state = silu_optimizer.update(jax.tree.map(lambda each: each.mean(0), slopes), state)
    return optax.apply_updates(weights, changes), state


def silu_layers(name: str, directory: str) -> None:
    weights = {str(n): jnp.eye(SILU_WIDTH) * 0.5 for n in range(5)}
    state = silu_optimizer.init(weights)
    lock = threading.Lock()
    if name == "locked":
        threading.Thread(target=holding, args=(lock,), daemon=True).start()
    held = [np.ones((SILU_ROWS * 4, SILU_WIDTH), np.float32) for _ in range(3)]
    hook = profiler_hook(backend="jax")
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(parsed() if name == "parsed" else silu_plain())):
            if name == "locked":  # before anything is dispatched that could run meanwhile
                wait_for(lock)
            if name == "healthy_parts":
                weights, state = accumulated(weights, state, x)
            else:
                weights, state = silu_update(weights, state, x)
            if name == "written_callback":
                watched(weights, x).block_until_ready()
            elif name == "spectra":
                decomposed(weights)
            elif name == "unrolled":
                for _ in range(2):
                    unrolled(weights, x).block_until_ready()
            elif name == "held_out":
                evaluate(weights, held)
            elif name == "new_keys":
                extra = {f"{n}-{k}": x[:8] for k in range(n + 1)}
                jax.jit(lambda w: jax.tree.map(jnp.tanh, w))(extra)  # PLANTED new_keys
            elif name == "saved_arrays":
                np.savez(f"{directory}/weights.npz", **{k: np.asarray(v) for k, v in weights.items()},
                         adam=np.zeros(4_000_000))  # PLANTED saved_arrays  # fmt: skip
            elif name == "leaf_norms":
                for _ in range(20):
                    [float(jnp.abs(each[0]).max()) for each in weights.values()]  # PLANTED leaf_norms
            elif name == "healthy_loss":
                run.scalar("loss", float(jitted_loss(weights, x)))
            jax.block_until_ready(weights)


FLAX_ROWS, FLAX_WIDTH, FLAX_STEPS = 160, 384, 12


class Net(nnx.Module):
    """A residual network."""

    def __init__(self, depth: int = 5) -> None:
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(FLAX_WIDTH, FLAX_WIDTH, rngs=rngs) for _ in range(depth)])
        self.norm = nnx.LayerNorm(FLAX_WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the last layer's values."""
        for layer in self.layers:
            x = x + nnx.gelu(layer(self.norm(x)))
        return x


def mean_error(net: Net, x: jax.Array) -> jax.Array:
    return jnp.mean(jnp.abs(net(x) - 1))


@nnx.jit
def flax_update(net: Net, optimizer: nnx.Optimizer, x: jax.Array) -> jax.Array:
    value, slopes = nnx.value_and_grad(mean_error)(net, x)
    optimizer.update(net, slopes)
    return value


@nnx.jit
def error(net: Net, x: jax.Array) -> jax.Array:
    return mean_error(net, x)


class Sentences:
    """Batches that are drawn word by word."""

    def __init__(self) -> None:
        self.vocabulary = [f"word{n}" for n in range(2000)]

    def __iter__(self) -> Iterator[np.ndarray]:
        index = {word: n for n, word in enumerate(self.vocabulary)}
        for _ in range(FLAX_STEPS):
            rows = [
                random.choices(self.vocabulary, k=FLAX_WIDTH) for _ in range(FLAX_ROWS)
            ]  # PLANTED sentences
            yield np.array([[index[word] for word in row] for row in rows], np.float32) / 2000


class Shuffled:
    """Batches of a table that is shuffled anew each time."""

    def __iter__(self) -> Iterator[np.ndarray]:
        table = np.ones((FLAX_ROWS * 60, FLAX_WIDTH), np.float32)
        for _ in range(FLAX_STEPS):
            yield table[np.random.permutation(len(table))][:FLAX_ROWS]  # PLANTED shuffled


def flax_ready() -> Iterator[np.ndarray]:
    yield from (np.ones((FLAX_ROWS, FLAX_WIDTH), np.float32) for _ in range(FLAX_STEPS))


def ranked(x: np.ndarray) -> np.ndarray:
    for _ in range(12):
        order = np.sort(x, axis=1)  # PLANTED pure_callback
    return order.astype(np.float32)


@jax.jit
def through_numpy(x: jax.Array) -> jax.Array:
    return jax.pure_callback(
        ranked, jax.ShapeDtypeStruct(x.shape, x.dtype), x * jnp.arange(FLAX_WIDTH) % 7
    ).mean()


def clipped(slopes: Any) -> Any:
    """Clip each leaf by hand, without ``jit``."""
    for _ in range(6):
        slopes = jax.tree.map(
            lambda g: g * jnp.minimum(1.0, 1.0 / (jnp.linalg.norm(g) + 1e-6)), slopes
        )  # PLANTED clipped
    return slopes


def dumped(net: Net, path: Path) -> None:
    state = jax.tree.map(np.asarray, nnx.to_pure_dict(nnx.state(net)))
    with path.open("wb") as file:
        for _ in range(6):
            pickle.dump(state, file)  # PLANTED dumped


def told(net: Net, path: Path) -> None:
    kernel = np.asarray(net.layers[0].kernel[...])
    path.write_text(json.dumps(kernel[:200].tolist()))  # PLANTED told


def recorded(seen: list[float], x: np.ndarray) -> None:
    for row in x:
        for value in row.tolist():
            seen.append(0.9 * seen[-1] + 0.1 * value if seen else value)  # PLANTED recorded


def validated(net: Net, held: list[np.ndarray]) -> float:
    total = 0.0
    for x in held:
        total += float(error(net, x))  # PLANTED validated
    return total


def flax_network(name: str, directory: str) -> None:
    net = Net()
    optimizer = nnx.Optimizer(net, optax.adamw(1e-4), wrt=nnx.Param)
    held = [np.ones((FLAX_ROWS * 4, FLAX_WIDTH), np.float32) for _ in range(3)]
    seen: list[float] = []
    data = {"sentences": Sentences, "shuffled": Shuffled}.get(name, flax_ready)()
    hook = profiler_hook(backend="jax")
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(data)):
            if name == "ragged":
                x = x[: FLAX_ROWS - 5 * n]
            loss = flax_update(net, optimizer, x)  # PLANTED ragged
            if name == "pure_callback":
                through_numpy(jnp.asarray(x)).block_until_ready()
            elif name == "clipped":
                clipped(nnx.to_pure_dict(nnx.state(net)))
            elif name == "dumped":
                dumped(net, Path(directory, "net.pickle"))
            elif name == "told":
                told(net, Path(directory, "kernel.json"))
            elif name == "recorded":
                recorded(seen, x)
            elif name == "validated":
                validated(net, held)
            elif name == "commanded":
                subprocess.run(
                    [sys.executable, "-S", "-c", "import time; time.sleep(0.08)"], check=True
                )  # PLANTED commanded
            elif name == "healthy_value":
                run.scalar("loss", float(loss))
            elif name == "healthy_seldom" and n % 10 == 9:
                validated(net, held)
            if name != "healthy_ahead":
                loss.block_until_ready()


SIZES, AUTOENCODER_STEPS = (256, 640, 640, 256), 12

AutoencoderWeights = list[dict[str, jax.Array]]

autoencoder_optimizer = optax.adamw(1e-3)


def autoencoder_made() -> AutoencoderWeights:
    keys = jax.random.split(jax.random.key(0), len(SIZES))
    shapes = zip(SIZES[:-1], SIZES[1:], strict=True)  # noqa: RUF007
    return [
        {"w": jax.random.normal(k, s) / s[0] ** 0.5, "b": jnp.zeros(s[1])}
        for k, s in zip(keys, shapes, strict=False)
    ]


def autoencoder_applied(weights: AutoencoderWeights, x: jax.Array) -> jax.Array:
    for layer in weights[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ weights[-1]["w"] + weights[-1]["b"]


def autoencoder_cost(weights: AutoencoderWeights, x: jax.Array) -> jax.Array:
    return jnp.square(autoencoder_applied(weights, x) - x).mean()


@jax.jit
def autoencoder_train(
    weights: AutoencoderWeights, state: optax.OptState, x: jax.Array
) -> tuple[AutoencoderWeights, optax.OptState, jax.Array]:
    value, slopes = jax.value_and_grad(autoencoder_cost)(weights, x)
    changes, state = autoencoder_optimizer.update(slopes, state, weights)
    return optax.apply_updates(weights, changes), state, value


@functools.partial(jax.jit, static_argnums=2)
def windowed(weights: AutoencoderWeights, x: jax.Array, length: int) -> jax.Array:
    return autoencoder_cost(weights, x[:, :length] @ jnp.ones((length, SIZES[0])))


reconstruct = jax.jit(autoencoder_applied)


def turned() -> Iterator[np.ndarray]:
    """Yield batches whose rows are rolled and mixed one by one."""
    for _ in range(AUTOENCODER_STEPS):
        rows = []
        for n in range(384):
            row = np.roll(np.random.rand(SIZES[0]).astype(np.float32), n)
            rows.append(np.interp(np.linspace(0, 255, 256), np.arange(256), row)[::-1])  # PLANTED turned
        yield np.stack(rows).astype(np.float32)


def autoencoder_ready() -> Iterator[np.ndarray]:
    batch = np.random.rand(384, SIZES[0]).astype(np.float32)
    for _ in range(AUTOENCODER_STEPS):
        yield batch


def routes(side: int = 70) -> int:
    """Walk a maze by Dijkstra's algorithm."""
    best, heap = {(0, 0): 0}, [(0, (0, 0))]
    while heap:
        paid, (a, b) = heapq.heappop(heap)
        for at in ((a + 1, b), (a, b + 1), (a - 1, b), (a, b - 1)):
            if 0 <= at[0] < side and 0 <= at[1] < side and paid + 1 < best.get(at, 10**9):
                best[at] = paid + 1
                heapq.heappush(heap, (paid + 1, at))  # PLANTED routes
    return len(best)


def fidelity(weights: AutoencoderWeights, held: list[np.ndarray]) -> float:
    errors = [jnp.abs(reconstruct(weights, x) - x).mean() for x in held]  # PLANTED fidelity
    return float(sum(errors) / len(errors))


def stored(weights: AutoencoderWeights, state: optax.OptState, path: Path) -> None:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((weights, state))]
    np.savez_compressed(path, *leaves)  # PLANTED stored


def tabled(x: np.ndarray, path: Path) -> None:
    with path.open("a", newline="") as file:
        csv.writer(file).writerows([f"{v:.4f}" for v in row] for row in x)  # PLANTED tabled


def autoencoder(name: str, directory: str) -> None:
    weights = autoencoder_made()
    state = autoencoder_optimizer.init(weights)
    held = [np.random.rand(1024, SIZES[0]).astype(np.float32) for _ in range(2)]
    hook = profiler_hook(backend="jax")
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(turned() if name == "turned" else autoencoder_ready())):
            weights, state, value = autoencoder_train(weights, state, x)
            jax.block_until_ready(value)
            if name == "routes":
                routes()
            elif name == "fidelity":
                fidelity(weights, held)
            elif name == "stored":
                stored(weights, state, Path(directory, "all.npz"))
            elif name == "tabled":
                tabled(x, Path(directory, "batch.csv"))
            elif name == "windows":
                windowed(weights, x, 200 - n).block_until_ready()  # PLANTED windows
            elif name == "polite":
                time.sleep(0.04)  # PLANTED polite
            elif name == "healthy_told":
                run.scalars({"loss": value, "rate": 1e-3})
            elif name == "healthy_checked":
                assert float(value) < 1e6


WIDE, THREE_ROWS, THREE_STEPS = 640, 384, 12

ThreeWeights = dict[str, jax.Array]

three_optimizer = optax.adam(1e-3)


def three_made() -> ThreeWeights:
    first, second, third = jax.random.split(jax.random.key(1), 3)
    return {
        "a": jax.random.normal(first, (256, WIDE)) / 16,
        "b": jax.random.normal(second, (WIDE, WIDE)) / 25,
        "c": jax.random.normal(third, (WIDE, 32)) / 25,
    }


def three_applied(weights: ThreeWeights, x: jax.Array) -> jax.Array:
    return jnp.tanh(jnp.tanh(x @ weights["a"]) @ weights["b"]) @ weights["c"]


def three_cost(weights: ThreeWeights, x: jax.Array) -> jax.Array:
    return jnp.square(three_applied(weights, x)).mean()


def three_stepped(
    weights: ThreeWeights, state: optax.OptState, x: jax.Array
) -> tuple[ThreeWeights, optax.OptState, jax.Array]:
    value, slopes = jax.value_and_grad(three_cost)(weights, x)
    changes, state = three_optimizer.update(slopes, state, weights)
    return optax.apply_updates(weights, changes), state, value


three_train = jax.jit(three_stepped)

saving = jax.jit(jax.grad(jax.checkpoint(three_cost)))

three_judge = jax.jit(lambda weights, x: jnp.argmax(three_applied(weights, x), 1))


@jax.jit
def in_parts(weights: ThreeWeights, x: jax.Array) -> jax.Array:
    parts = x.reshape(4, -1, 256)
    return jax.lax.scan(lambda total, part: (total + three_cost(weights, part), None), 0.0, parts)[0]


@jax.jit
def grown(weights: ThreeWeights, x: jax.Array) -> jax.Array:
    return three_cost(weights, jnp.pad(x, ((0, 0), (0, 256 - x.shape[1]))))


def three_ready() -> Iterator[np.ndarray]:
    batch = np.random.rand(THREE_ROWS, 256).astype(np.float32)
    for _ in range(THREE_STEPS):
        yield batch


def decoded() -> Iterator[np.ndarray]:
    """Yield batches that are stored as compressed text."""
    text = zlib.compress(json.dumps(np.random.rand(THREE_ROWS, 256).round(4).tolist()).encode())
    for _ in range(THREE_STEPS):
        yield np.array(json.loads(zlib.decompress(text)), np.float32)  # PLANTED decoded


def mixed(x: np.ndarray) -> np.ndarray:
    rows = np.empty_like(x)
    for n in range(len(x)):
        other, part = np.random.randint(len(x)), np.random.beta(0.4, 0.4)
        rows[n] = part * x[n] + (1 - part) * np.sort(x[other])[::-1]
        rows[n] = np.convolve(rows[n], [0.25, 0.5, 0.25], "same")  # PLANTED mixed
    return rows


def three_kept(weights: ThreeWeights, state: optax.OptState, path: Path) -> None:
    with path.open("wb") as file:
        pickle.dump(jax.device_get((weights, state)), file)  # PLANTED kept


def benchmark(weights: ThreeWeights, others: list[np.ndarray]) -> float:
    same = [np.asarray(three_judge(weights, x)) for x in others]  # PLANTED benchmark
    return float(np.mean([kinds.std() for kinds in same]))


def outputs_as_text(weights: ThreeWeights, x: np.ndarray, path: Path) -> None:
    with path.open("a") as file:
        for row in np.asarray(three_applied(weights, x)).tolist():
            file.write(" ".join(f"{value:.5f}" for value in row) + "\n")  # PLANTED outputs_as_text


def naive(weights: ThreeWeights, x: jax.Array) -> jax.Array:
    total = jnp.zeros(())
    for n in range(0, 256, 2):
        total = total + jnp.abs(x[:, n] - x[:, n + 1]).mean() * 0.1  # PLANTED naive
    return total


def ahead(source: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    held: queue.Queue[np.ndarray | None] = queue.Queue(4)

    def work() -> None:
        for each in source:
            held.put(each)
        held.put(None)

    threading.Thread(target=work, daemon=True).start()
    while (each := held.get()) is not None:
        yield each


def count(rows: list[int]) -> None:
    while True:
        rows[0] = sum(number % 2 for number in range(100_000))  # PLANTED counted_beside


def three_layers(name: str, directory: str) -> None:
    weights = three_made()
    state = three_optimizer.init(weights)
    others = [np.random.rand(1024, 256).astype(np.float32) for _ in range(4)]
    source = (
        decoded() if name == "decoded" else ahead(three_ready()) if name == "healthy_ahead" else three_ready()
    )
    told: list[float] = []
    bell = threading.Event()
    hook = profiler_hook(backend="jax")
    if name == "counted_beside":
        threading.Thread(target=count, args=([0],), daemon=True).start()
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(source)):
            if name == "mixed":
                x = mixed(x)
            weights, state, value = three_train(weights, state, x)
            if name == "longer":
                grown(weights, x[:, : 100 + 9 * n]).block_until_ready()  # PLANTED longer
            elif name == "kept":
                three_kept(weights, state, Path(directory, "all.pickle"))
            elif name == "benchmark":
                benchmark(weights, others)
            elif name == "outputs_as_text":
                outputs_as_text(weights, x, Path(directory, "outputs.txt"))
            elif name == "naive":
                naive(weights, x)
            elif name == "waiting":
                bell.wait(0.05)  # PLANTED waiting
            elif name in ("healthy_value", "counted_beside"):
                told.append(float(value))
            elif name == "healthy_waited":
                jax.block_until_ready(weights)
            elif name == "healthy_parts":
                in_parts(weights, x)
            elif name == "healthy_recomputed":
                saving(weights, x)
            elif name == "healthy_scalar":
                run.scalar("loss", value)
            elif name == "healthy_norm":
                told.append(optax.global_norm(weights))


CLASSIFIER_ROWS, CLASSIFIER_STEPS = 256, 12

ClassifierWeights = list[dict[str, jax.Array]]

classifier_optimizer = optax.adamw(1e-3)


def classifier_made() -> ClassifierWeights:
    sizes = [(128, 512), (512, 512), (512, 512), (512, 10)]
    keys = jax.random.split(jax.random.key(0), len(sizes))
    return [
        {"w": jax.random.normal(key, size) / size[0] ** 0.5, "b": jnp.zeros(size[1])}
        for key, size in zip(keys, sizes, strict=True)
    ]


def classifier_applied(weights: ClassifierWeights, x: jax.Array) -> jax.Array:
    for layer in weights[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x @ weights[-1]["w"] + weights[-1]["b"]


def classifier_cost(weights: ClassifierWeights, x: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(classifier_applied(weights, x), y).mean()


def classifier_stepped(
    weights: ClassifierWeights, state: Any, x: jax.Array, y: jax.Array
) -> tuple[ClassifierWeights, Any, jax.Array]:
    value, slopes = jax.value_and_grad(classifier_cost)(weights, x, y)
    changes, state = classifier_optimizer.update(slopes, state, weights)
    return optax.apply_updates(weights, changes), state, value


classifier_train = jax.jit(classifier_stepped)

classifier_judge = jax.jit(classifier_cost)


@functools.partial(jax.jit, static_argnames="rate")
def at_a_rate(weights: ClassifierWeights, slopes: ClassifierWeights, rate: float) -> ClassifierWeights:
    return jax.tree.map(lambda w, g: w - rate * g, weights, slopes)


def classifier_plain() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    x, y = np.random.rand(CLASSIFIER_ROWS, 128).astype(np.float32), np.random.randint(0, 10, CLASSIFIER_ROWS)
    for _ in range(CLASSIFIER_STEPS):
        yield x, y


def bootstrapped() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield batches whose rows are drawn and jittered one by one."""
    everything = np.random.rand(5000, 128)
    for _ in range(CLASSIFIER_STEPS):
        rows = []
        for _ in range(CLASSIFIER_ROWS):
            row = everything[np.random.choice(5000, p=np.full(5000, 1 / 5000))]  # PLANTED bootstrapped
            rows.append(row + np.random.normal(0, 0.1, 128))
        yield np.array(rows, np.float32), np.random.randint(0, 10, CLASSIFIER_ROWS)


def whitened(x: np.ndarray) -> np.ndarray:
    """Bring a batch to unit covariance, slowly."""
    for _ in range(4):
        values, vectors = np.linalg.eigh(np.cov(x.T) + 1e-3 * np.eye(128))
        x = x @ vectors / np.sqrt(values)  # PLANTED whitened
    return x.astype(np.float32)


def noted(weights: ClassifierWeights, path: Path) -> None:
    """Write all weights of the last layer as text."""
    with path.open("a") as file:
        for row in np.asarray(weights[2]["w"]):
            file.write(",".join(map(str, row.tolist())) + "\n")  # PLANTED noted


def archived(weights: ClassifierWeights, state: Any, path: Path) -> None:
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves((weights, state))]
    np.savez(path, *arrays)  # PLANTED archived


def squashed(x: np.ndarray) -> np.ndarray:
    found = np.array(x)
    for n in range(len(found)):
        found[n] = np.sort(found[n]) * np.median(found[n])  # PLANTED called_back
    return found


@jax.jit
def through_python(x: jax.Array) -> jax.Array:
    return jax.pure_callback(squashed, jax.ShapeDtypeStruct(x.shape, x.dtype), x).sum()


def classifier(name: str, directory: str) -> None:
    weights = classifier_made()
    state = classifier_optimizer.init(weights)
    others = [next(classifier_plain()) for _ in range(6)]
    told: list[float] = []
    hook = profiler_hook(backend="jax")
    with ss.Run(directory, hooks=[hook]) as run:
        for n, (x, y) in enumerate(
            run.steps(bootstrapped() if name == "bootstrapped" else classifier_plain())
        ):
            if name == "whitened":
                x = whitened(x)
            weights, state, value = classifier_train(weights, state, x, y)
            if name == "warm_up":
                weights = at_a_rate(weights, weights, 1e-6 * (n + 1))  # PLANTED warm_up
            elif name == "noted":
                noted(weights, Path(directory, "weights.csv"))
            elif name == "kept":
                archived(weights, state, Path(directory, "kept.npz"))
            elif name == "judged":
                for a, b in others:
                    told.append(float(classifier_judge(weights, a, b)))  # PLANTED judged
            elif name == "paced":
                time.sleep(0.04)  # PLANTED paced
            elif name == "called_back":
                through_python(jnp.asarray(x)).block_until_ready()
            elif name == "unjitted":
                for _ in range(3):
                    jax.grad(classifier_cost)(weights, x, y)  # PLANTED unjitted
            elif name == "healthy_value":
                told.append(float(value))
            elif name == "healthy_recorded":
                run.scalar("train/loss", value)
            elif name == "healthy_norm" and n % 5 == 0:
                told.append(float(optax.global_norm(weights)))


# Scripts of many fields, each of which is given a run.

FIELDS_STEPS = 12

Tree = Any

fields_optimizer = optax.adamw(1e-3)


def dense(*sizes: int, key: int = 0) -> Tree:
    keys = jax.random.split(jax.random.key(key), len(sizes))
    return {
        f"layer{n}": {"w": jax.random.normal(keys[n], (a, b)) / a**0.5, "b": jnp.zeros(b)}
        for n, (a, b) in enumerate(itertools.pairwise(sizes))
    }


def fields_forward(weights: Tree, x: jax.Array) -> jax.Array:
    for n in range(len(weights)):
        layer = weights[f"layer{n}"]
        x = x @ layer["w"] + layer["b"]
        x = jax.nn.silu(x) if n + 1 < len(weights) else x
    return x


def wrong(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(fields_forward(weights, x), y).mean()


@jax.jit
def learn(weights: Tree, state: Any, x: jax.Array, y: jax.Array) -> tuple[Tree, Any, jax.Array]:
    value, slopes = jax.value_and_grad(wrong)(weights, x, y)
    changes, state = fields_optimizer.update(slopes, state, weights)
    return optax.apply_updates(weights, changes), state, value


def examples(rows: int, wide: int, kinds: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, wide)).astype(np.float32), rng.integers(0, kinds, rows)


# --- causes ---------------------------------------------------------------------------------------------


def scenes(rows: int = 64) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pictures from above, each turned by another angle."""
    from scipy import ndimage

    rng = np.random.default_rng(0)
    world = rng.random((400, 400)).astype(np.float32)
    for _ in range(FIELDS_STEPS):
        batch = np.empty((rows, 32 * 32), np.float32)
        for n in range(rows):
            row, column = rng.integers(0, 330, 2)
            part = world[row : row + 64, column : column + 64]
            batch[n] = ndimage.rotate(part, rng.uniform(0, 360), reshape=False)[
                16:48, 16:48
            ].ravel()  # PLANTED satellites
        yield batch, rng.integers(0, 10, rows)


def satellites(out: Path, run: ss.Run) -> None:
    weights = dense(1024, 1024, 1024, 10)
    state = fields_optimizer.init(weights)
    for x, y in run.steps(scenes()):
        weights, state, value = learn(weights, state, x, y)
        value.block_until_ready()


def orbits(out: Path, run: ss.Run) -> None:
    """Planets are moved by a learned force, one small step after another."""
    weights = dense(6, 64, 6)
    place, speed = jnp.ones((128, 6)), jnp.zeros((128, 6))

    def apart(weights: Tree) -> jax.Array:
        x, v = place, speed
        for _ in range(16):
            v = v + 0.01 * (jnp.tanh(x @ weights["layer0"]["w"]) @ weights["layer1"]["w"])  # PLANTED orbits
            x = x + 0.01 * v
        return jnp.mean((x - 0.9) ** 2)

    for _ in run.steps(range(FIELDS_STEPS)):
        slopes = jax.grad(apart)(weights)
        weights = jax.tree.map(lambda w, g: w - 0.01 * g, weights, slopes)
        jax.block_until_ready(weights)


def filtered(out: Path, run: ss.Run) -> None:
    """A filter over time is written as a function within the loop."""
    weights = dense(64, 512, 512, 10)
    state = fields_optimizer.init(weights)
    x, y = examples(256, 64)
    for n in run.steps(range(FIELDS_STEPS)):
        keep = 0.9 + 0.005 * n

        def smooth(before: jax.Array, now: jax.Array, keep: float = keep) -> tuple[jax.Array, jax.Array]:
            after = keep * before + (1 - keep) * now
            return after, after

        _, inputs = jax.lax.scan(smooth, jnp.zeros(64), x)  # PLANTED filtered
        weights, state, value = learn(weights, state, inputs, y)
        value.block_until_ready()


def simulated(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Return what follows, as a simulator in Python would say."""
    after = np.array(states)
    for n in range(len(states)):
        after[n] += np.convolve(
            np.tanh(states[n] + actions[n]), np.hanning(9) / 4, "same"
        )  # PLANTED simulator
    return after


@jax.jit
def followed(weights: Tree, states: jax.Array) -> jax.Array:
    actions = jnp.tanh(fields_forward(weights, states))
    shape = jax.ShapeDtypeStruct(states.shape, states.dtype)
    return jax.experimental.io_callback(simulated, shape, states, actions, ordered=True)


def simulator(out: Path, run: ss.Run) -> None:
    """A world outside of JAX is asked within a compiled function."""
    weights = dense(32, 512, 512, 32)
    state = fields_optimizer.init(weights)
    states, y = examples(160, 32)
    for _ in run.steps(range(FIELDS_STEPS)):
        states = followed(weights, jnp.clip(states, -1, 1))
        weights, state, value = learn(weights, state, states, y)
        value.block_until_ready()


def serialised(out: Path, run: ss.Run) -> None:
    """Weights and what the optimizer remembers become one file after every step."""
    weights = dense(256, 768, 768, 10)
    state = fields_optimizer.init(weights)
    x, y = examples(128, 256)
    for _ in run.steps(range(FIELDS_STEPS)):
        weights, state, _ = learn(weights, state, x, y)
        (out / "state.msgpack").write_bytes(serialization.to_bytes([weights, state]))  # PLANTED serialised


guesses = jax.jit(lambda weights, x: fields_forward(weights, x).argmax(1))


def counted(out: Path, run: ss.Run) -> None:
    """Guesses are compared with the truth one after another."""
    weights = dense(128, 768, 768, 10)
    state = fields_optimizer.init(weights)
    x, y = examples(200, 128)
    truth = jnp.asarray(y)
    for _ in run.steps(range(FIELDS_STEPS)):
        weights, state, _ = learn(weights, state, x, y)
        right, guess = 0, guesses(weights, x)
        for n in range(200):
            right += int(guess[n] == truth[n])  # PLANTED counted
        run.scalar("right", right)


@jax.jit
def sloped(weights: Tree, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Tree]:
    return jax.value_and_grad(wrong)(weights, x, y)


def outside(out: Path, run: ss.Run) -> None:
    """The gradient is compiled, what becomes of it is not."""
    weights = dense(64, *[96] * 24, 10)
    state = fields_optimizer.init(weights)
    x, y = examples(256, 64)
    for _ in run.steps(range(FIELDS_STEPS)):
        value, slopes = sloped(weights, x, y)
        changes, state = fields_optimizer.update(slopes, state, weights)  # PLANTED outside
        weights = optax.apply_updates(weights, changes)
        value.block_until_ready()


def spelled(out: Path, run: ss.Run) -> None:
    """All that a layer gives is spelled out in the log."""
    log = logging.getLogger("spelled")
    log.addHandler(logging.FileHandler(out / "values.log"))
    log.propagate = False
    weights = dense(128, 768, 768, 10)
    state = fields_optimizer.init(weights)
    x, y = examples(256, 128)
    hidden = jax.jit(lambda weights, x: jax.nn.silu(x @ weights["layer0"]["w"])[:, :40])
    for n in run.steps(range(FIELDS_STEPS)):
        weights, state, value = learn(weights, state, x, y)
        values = np.asarray(hidden(weights, x))
        log.warning(
            "step %d, loss %.4f: %s", n, value, np.array2string(values, threshold=sys.maxsize)
        )  # PLANTED spelled


def heard(chances: np.ndarray) -> list[str]:
    """Return the likeliest letters of each, repeated ones and blanks left out."""
    texts = []
    for rows in chances.tolist():
        text, before = "", 0
        for row in rows:
            letter = max(range(len(row)), key=row.__getitem__)  # PLANTED dictation
            text, before = text + ("" if letter in (0, before) else chr(96 + letter)), letter
        texts.append(text)
    return texts


def dictation(out: Path, run: ss.Run) -> None:
    """Speech, whose letters are found in Python at every step."""
    weights = dense(80, 256, 256, 27)
    state = fields_optimizer.init(weights)
    x, y = examples(1600, 80, 27)
    letters = jax.jit(fields_forward)
    for _ in run.steps(range(FIELDS_STEPS)):
        weights, state, _ = learn(weights, state, x, y)
        texts = heard(np.tile(np.asarray(letters(weights, x)).reshape(32, 50, 27), (3, 1, 1)))
        run.scalar("letters", sum(map(len, texts)))


# --- nothing planted ------------------------------------------------------------------------------------


def healthy_sequence(out: Path, run: ss.Run) -> None:
    """A recurrent network over time, compiled as a whole, whose buffers are used again."""
    weights = {"x": jax.random.normal(jax.random.key(0), (32, 256)) / 6, "h": jnp.eye(256), **dense(256, 8)}
    state = fields_optimizer.init(weights)

    def apart(weights: Tree, x: jax.Array) -> jax.Array:
        def move(h: jax.Array, now: jax.Array) -> tuple[jax.Array, None]:
            return jnp.tanh(now @ weights["x"] + h @ weights["h"]), None

        h, _ = jax.lax.scan(move, jnp.zeros((len(x), 256)), x.swapaxes(0, 1))
        return jnp.mean((h @ weights["layer0"]["w"] - 1) ** 2)

    def step(weights: Tree, state: Any, x: jax.Array) -> tuple[Tree, Any, jax.Array]:
        value, slopes = jax.value_and_grad(apart)(weights, x)
        changes, state = fields_optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, changes), state, value

    quick, x = jax.jit(step, donate_argnums=(0, 1)), np.ones((64, 60, 32), np.float32)
    for _ in run.steps(range(FIELDS_STEPS)):
        weights, state, value = quick(weights, state, x)
        value.block_until_ready()


def healthy_ensemble(out: Path, run: ss.Run) -> None:
    """Several networks at once, by ``vmap``; each one's loss is recorded as a mean."""
    weights = jax.vmap(lambda n: jax.tree.map(lambda w: w + 0.01 * n, dense(128, 384, 384, 10)))(
        jnp.arange(6)
    )
    state = jax.vmap(fields_optimizer.init)(weights)
    together = jax.jit(jax.vmap(learn, in_axes=(0, 0, None, None)))
    x, y = examples(256, 128)
    for _ in run.steps(range(FIELDS_STEPS)):
        weights, state, values = together(weights, state, x, y)
        run.scalar("loss", values.mean())


def healthy_pictures(out: Path, run: ss.Run) -> None:
    """Convolutions; the next batch is on its way while one is learned."""
    kernels = [jax.random.normal(jax.random.key(n), (3, 3, a, 32)) / 12 for n, a in enumerate((3, 32))]
    weights = {"kernels": kernels, "head": dense(32, 10)}
    state = fields_optimizer.init(weights)

    def apart(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        for kernel in weights["kernels"]:
            x = jax.nn.relu(jax.lax.conv_general_dilated(
                x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ))  # fmt: skip
        logits = fields_forward(weights["head"], x.mean((1, 2)))
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(weights: Tree, state: Any, x: jax.Array, y: jax.Array) -> tuple[Tree, Any, jax.Array]:
        value, slopes = jax.value_and_grad(apart)(weights, x, y)
        changes, state = fields_optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, changes), state, value

    stored, told = np.random.default_rng(0).random((64, 48, 48, 3), np.float32), []
    ahead = jax.device_put(stored)
    for _ in run.steps(range(FIELDS_STEPS)):
        now, ahead = ahead, jax.device_put(stored)
        weights, state, value = step(weights, state, now, np.zeros(64, np.int32))
        told.append(float(value))


def script(name: str, directory: str) -> None:
    with ss.Run(directory, hooks=[profiler_hook(backend="jax")]) as run:
        globals()[name](Path(directory), run)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], sys.argv[3])
