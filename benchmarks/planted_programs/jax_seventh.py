"""Trainings in JAX, a seventh set judged at first sight: ``python jax_seventh.py NAME DIRECTORY``.

Each function is the script of another field, which is given a run. What is planted stands in the line that
says so.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization

import stepscope as ss

SCRIPTS: dict[str, Callable[[Path, ss.Run], None]] = {}
STEPS = 12
Tree = Any
optimizer = optax.adamw(1e-3)


def script(function: Callable[[Path, ss.Run], None]) -> Callable[[Path, ss.Run], None]:
    SCRIPTS[function.__name__] = function
    return function


def dense(*sizes: int, key: int = 0) -> Tree:
    keys = jax.random.split(jax.random.key(key), len(sizes))
    return {
        f"layer{n}": {"w": jax.random.normal(keys[n], (a, b)) / a**0.5, "b": jnp.zeros(b)}
        for n, (a, b) in enumerate(itertools.pairwise(sizes))
    }


def forward(weights: Tree, x: jax.Array) -> jax.Array:
    for n in range(len(weights)):
        layer = weights[f"layer{n}"]
        x = x @ layer["w"] + layer["b"]
        x = jax.nn.silu(x) if n + 1 < len(weights) else x
    return x


def wrong(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(forward(weights, x), y).mean()


@jax.jit
def learn(weights: Tree, state: Any, x: jax.Array, y: jax.Array) -> tuple[Tree, Any, jax.Array]:
    value, slopes = jax.value_and_grad(wrong)(weights, x, y)
    changes, state = optimizer.update(slopes, state, weights)
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
    for _ in range(STEPS):
        batch = np.empty((rows, 32 * 32), np.float32)
        for n in range(rows):
            row, column = rng.integers(0, 330, 2)
            part = world[row : row + 64, column : column + 64]
            batch[n] = ndimage.rotate(part, rng.uniform(0, 360), reshape=False)[
                16:48, 16:48
            ].ravel()  # PLANTED satellites
        yield batch, rng.integers(0, 10, rows)


@script
def satellites(out: Path, run: ss.Run) -> None:
    weights = dense(1024, 1024, 1024, 10)
    state = optimizer.init(weights)
    for x, y in run.steps(scenes()):
        weights, state, value = learn(weights, state, x, y)
        value.block_until_ready()


@script
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

    for _ in run.steps(range(STEPS)):
        slopes = jax.grad(apart)(weights)
        weights = jax.tree.map(lambda w, g: w - 0.01 * g, weights, slopes)
        jax.block_until_ready(weights)


@script
def filtered(out: Path, run: ss.Run) -> None:
    """A filter over time is written as a function within the loop."""
    weights = dense(64, 512, 512, 10)
    state = optimizer.init(weights)
    x, y = examples(256, 64)
    for n in run.steps(range(STEPS)):
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
    actions = jnp.tanh(forward(weights, states))
    shape = jax.ShapeDtypeStruct(states.shape, states.dtype)
    return jax.experimental.io_callback(simulated, shape, states, actions, ordered=True)


@script
def simulator(out: Path, run: ss.Run) -> None:
    """A world outside of JAX is asked within a compiled function."""
    weights = dense(32, 512, 512, 32)
    state = optimizer.init(weights)
    states, y = examples(160, 32)
    for _ in run.steps(range(STEPS)):
        states = followed(weights, jnp.clip(states, -1, 1))
        weights, state, value = learn(weights, state, states, y)
        value.block_until_ready()


@script
def serialised(out: Path, run: ss.Run) -> None:
    """Weights and what the optimizer remembers become one file after every step."""
    weights = dense(256, 768, 768, 10)
    state = optimizer.init(weights)
    x, y = examples(128, 256)
    for _ in run.steps(range(STEPS)):
        weights, state, _ = learn(weights, state, x, y)
        (out / "state.msgpack").write_bytes(serialization.to_bytes([weights, state]))  # PLANTED serialised


guesses = jax.jit(lambda weights, x: forward(weights, x).argmax(1))


@script
def counted(out: Path, run: ss.Run) -> None:
    """Guesses are compared with the truth one after another."""
    weights = dense(128, 768, 768, 10)
    state = optimizer.init(weights)
    x, y = examples(200, 128)
    truth = jnp.asarray(y)
    for _ in run.steps(range(STEPS)):
        weights, state, _ = learn(weights, state, x, y)
        right, guess = 0, guesses(weights, x)
        for n in range(200):
            right += int(guess[n] == truth[n])  # PLANTED counted
        run.scalar("right", right)


@jax.jit
def sloped(weights: Tree, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Tree]:
    return jax.value_and_grad(wrong)(weights, x, y)


@script
def outside(out: Path, run: ss.Run) -> None:
    """The gradient is compiled, what becomes of it is not."""
    weights = dense(64, *[96] * 24, 10)
    state = optimizer.init(weights)
    x, y = examples(256, 64)
    for _ in run.steps(range(STEPS)):
        value, slopes = sloped(weights, x, y)
        changes, state = optimizer.update(slopes, state, weights)  # PLANTED outside
        weights = optax.apply_updates(weights, changes)
        value.block_until_ready()


@script
def spelled(out: Path, run: ss.Run) -> None:
    """All that a layer gives is spelled out in the log."""
    log = logging.getLogger("spelled")
    log.addHandler(logging.FileHandler(out / "values.log"))
    log.propagate = False
    weights = dense(128, 768, 768, 10)
    state = optimizer.init(weights)
    x, y = examples(256, 128)
    hidden = jax.jit(lambda weights, x: jax.nn.silu(x @ weights["layer0"]["w"])[:, :40])
    for n in run.steps(range(STEPS)):
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


@script
def dictation(out: Path, run: ss.Run) -> None:
    """Speech, whose letters are found in Python at every step."""
    weights = dense(80, 256, 256, 27)
    state = optimizer.init(weights)
    x, y = examples(1600, 80, 27)
    letters = jax.jit(forward)
    for _ in run.steps(range(STEPS)):
        weights, state, _ = learn(weights, state, x, y)
        texts = heard(np.tile(np.asarray(letters(weights, x)).reshape(32, 50, 27), (3, 1, 1)))
        run.scalar("letters", sum(map(len, texts)))


# --- nothing planted ------------------------------------------------------------------------------------


@script
def healthy_sequence(out: Path, run: ss.Run) -> None:
    """A recurrent network over time, compiled as a whole, whose buffers are used again."""
    weights = {"x": jax.random.normal(jax.random.key(0), (32, 256)) / 6, "h": jnp.eye(256), **dense(256, 8)}
    state = optimizer.init(weights)

    def apart(weights: Tree, x: jax.Array) -> jax.Array:
        def move(h: jax.Array, now: jax.Array) -> tuple[jax.Array, None]:
            return jnp.tanh(now @ weights["x"] + h @ weights["h"]), None

        h, _ = jax.lax.scan(move, jnp.zeros((len(x), 256)), x.swapaxes(0, 1))
        return jnp.mean((h @ weights["layer0"]["w"] - 1) ** 2)

    def step(weights: Tree, state: Any, x: jax.Array) -> tuple[Tree, Any, jax.Array]:
        value, slopes = jax.value_and_grad(apart)(weights, x)
        changes, state = optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, changes), state, value

    quick, x = jax.jit(step, donate_argnums=(0, 1)), np.ones((64, 60, 32), np.float32)
    for _ in run.steps(range(STEPS)):
        weights, state, value = quick(weights, state, x)
        value.block_until_ready()


@script
def healthy_ensemble(out: Path, run: ss.Run) -> None:
    """Several networks at once, by ``vmap``; each one's loss is recorded as a mean."""
    weights = jax.vmap(lambda n: jax.tree.map(lambda w: w + 0.01 * n, dense(128, 384, 384, 10)))(
        jnp.arange(6)
    )
    state = jax.vmap(optimizer.init)(weights)
    together = jax.jit(jax.vmap(learn, in_axes=(0, 0, None, None)))
    x, y = examples(256, 128)
    for _ in run.steps(range(STEPS)):
        weights, state, values = together(weights, state, x, y)
        run.scalar("loss", values.mean())


@script
def healthy_pictures(out: Path, run: ss.Run) -> None:
    """Convolutions; the next batch is on its way while one is learned."""
    kernels = [jax.random.normal(jax.random.key(n), (3, 3, a, 32)) / 12 for n, a in enumerate((3, 32))]
    weights = {"kernels": kernels, "head": dense(32, 10)}
    state = optimizer.init(weights)

    def apart(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        for kernel in weights["kernels"]:
            x = jax.nn.relu(jax.lax.conv_general_dilated(
                x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ))  # fmt: skip
        logits = forward(weights["head"], x.mean((1, 2)))
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(weights: Tree, state: Any, x: jax.Array, y: jax.Array) -> tuple[Tree, Any, jax.Array]:
        value, slopes = jax.value_and_grad(apart)(weights, x, y)
        changes, state = optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, changes), state, value

    stored, told = np.random.default_rng(0).random((64, 48, 48, 3), np.float32), []
    ahead = jax.device_put(stored)
    for _ in run.steps(range(STEPS)):
        now, ahead = ahead, jax.device_put(stored)
        weights, state, value = step(weights, state, now, np.zeros(64, np.int32))
        told.append(float(value))


if __name__ == "__main__":
    directory = Path(sys.argv[2])
    hook = ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False)
    with ss.Run(directory, hooks=[hook]) as opened:
        SCRIPTS[sys.argv[1]](directory, opened)
