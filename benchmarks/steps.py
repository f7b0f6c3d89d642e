"""Training steps to measure with, and clocks for a machine that is shared; measures nothing itself."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Step = Callable[[], object]


def torch_mlp() -> Step:
    """Four layers of 512, a batch of 256."""
    import torch
    from torch import nn

    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())))
    return torch_step(model, torch.randn(256, 512))


def torch_transformer() -> Step:
    """Four layers of 128, four heads, 8 sequences of 64."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    return torch_step(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(8, 64, 128))


def torch_step(model: Any, data: Any) -> Step:
    """Forward, backward, AdamW; on CUDA where there is a device.

    A goal of noise keeps gradients from vanishing: numbers next to zero take many times longer.
    """
    import torch

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    keep_memory()
    if torch.cuda.is_available():
        model, data = model.cuda(), data.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=torch.cuda.is_available())
    with torch.no_grad():
        goal = torch.randn_like(model(data))

    def step() -> None:
        optimizer.zero_grad()
        loss = (model(data) - goal).pow(2).mean()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def keep_memory() -> None:
    """Have the C library keep what is freed, or what others freed before would say how fast a step is."""
    most = 1 << 30
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-1, most)  # M_TRIM_THRESHOLD
        mallopt(-3, most)  # M_MMAP_THRESHOLD


def jax_mlp() -> Step:
    """Four layers of 512, a batch of 256."""
    import jax
    import jax.numpy as jnp

    def loss(weights: list[jax.Array], data: jax.Array) -> jax.Array:
        for number, weight in enumerate(weights):
            with jax.named_scope(f"layer{number}"):
                data = jnp.tanh(data @ weight)
        return (data**2).mean()

    return jax_step(loss, [jnp.eye(512) for _ in range(4)], jnp.ones((256, 512)))


def jax_transformer() -> Step:
    """Four blocks of attention over 128, 8 sequences of 64."""
    import jax
    import jax.numpy as jnp

    def loss(weights: list[jax.Array], data: jax.Array) -> jax.Array:
        for number, weight in enumerate(weights):
            with jax.named_scope(f"block{number}"):
                query, key, value = jnp.split(data @ weight, 3, axis=-1)
                attention = jax.nn.softmax(query @ key.swapaxes(-1, -2) / 11.3)
                data = data + attention @ value
        return (data**2).mean()

    return jax_step(loss, [jnp.ones((128, 384)) * 0.01 for _ in range(4)], jnp.ones((8, 64, 128)))


def jax_step(loss: Callable[..., object], weights: object, data: object) -> Step:
    """Gradient and descent in one compiled function."""
    import jax

    @jax.jit
    def update(weights: object) -> object:
        gradient = jax.grad(loss)(weights, data)
        return jax.tree.map(lambda one, two: one - 0.01 * two, weights, gradient)

    state = [weights]

    def step() -> None:
        state[0] = jax.block_until_ready(update(state[0]))

    return step


STEPS = {
    "torch-mlp": torch_mlp,
    "torch-transformer": torch_transformer,
    "jax-mlp": jax_mlp,
    "jax-transformer": jax_transformer,
}


def go_first() -> bool:
    """Have this process served before others, in a session of its own; whether that was allowed."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    # Processes of one session share what the session gets, so a priority must be the session's.
    if os.fork():
        _, status = os.wait()
        sys.exit(os.waitstatus_to_exitcode(status))
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # end with the parent
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-20")
        return True
    return False


def warm(step: Step, seconds: float = 1.0) -> float:
    """Run steps until their time has settled; return the median in seconds."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 10 or time.perf_counter() < end:
        begun = time.perf_counter()
        step()
        found.append(time.perf_counter() - begun)
    return statistics.median(found[len(found) // 2 :])


class Watch:
    """Time of this thread in seconds, less the time that it waited for a core which others had."""

    def __init__(self) -> None:
        try:
            self._file: Any = Path("/proc/thread-self/schedstat").open("rb", buffering=0)  # noqa: SIM115
            self._file.read()
        except OSError:
            self._file = None

    def waited_s(self) -> float:
        """Return the seconds that this thread has waited for a core, 0 where the system does not tell."""
        if self._file is None:
            return 0.0
        self._file.seek(0)
        return int(self._file.read().split()[1]) * 1e-9

    def now(self) -> float:
        """Return the time."""
        return time.perf_counter() - self.waited_s()


def interval(found: Sequence[float], of: Callable[[Sequence[float]], float] = statistics.median) -> str:
    """Return what 90 % of resampled measurements say, as "0.997 to 1.002"."""
    draw = random.Random(0)
    seen = sorted(of(draw.choices(found, k=len(found))) for _ in range(400))
    return f"{seen[20]:.4f} to {seen[379]:.4f}"


def turns(count: int) -> Iterable[bool]:
    """Return turns in the order ABBA, so that neither side always follows the other."""
    for number in range(count):
        yield from ((False, True) if number % 2 == 0 else (True, False))
