"""Stages of a step around a jitted function."""

import time

import numpy as np
import pytest

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.store.ranks import Ranks

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

from stepscope.integrations.jax import CompletionTimer, dispatched, wait  # noqa: E402

DELAY_S = 0.02


def late(x):
    time.sleep(DELAY_S)
    return x


@pytest.fixture
def run(tmp_path):
    with ss.Run(tmp_path, rank=0, world_size=2) as run:
        yield run


def stages(run):
    run.close()
    return Ranks(str(run.log_dir)).stages()


def test_data_dispatch_and_wait_sum_to_the_step(run):
    step = dispatched(jax.jit(lambda x: (x @ x).sum()), run)
    for x in run.steps([jnp.ones((8, 8))] * 5):
        loss = wait(step(x), run)
        assert float(loss) == 512
    table = stages(run)
    assert table.stages == ["data", "dispatch", "compile", "wait", "rest"]
    took = table.durations_s[:, 0]
    assert (took[:, [1, 3]] > 0).all()
    assert (took[:, 2] > 0).tolist() == [True, False, False, False, False]
    steps = Ranks(str(run.log_dir)).steps(0, attempt=1)
    assert took.sum(axis=1) == pytest.approx(steps.step_time_s, rel=1e-3)


def test_what_a_device_takes_is_waited_for_and_not_dispatched(run):
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    step = dispatched(jax.jit(lambda x: jax.pure_callback(late, shape, x)), run)
    for x in run.steps([jnp.float32(1.0)] * 4):
        wait(step(x), run)
    took = np.median(stages(run).durations_s[1:, 0], axis=0)
    assert took[1] + took[2] >= 0.9 * DELAY_S


def test_the_timer_that_blocks_the_loop_is_a_wait(run):
    step, timer = dispatched(jax.jit(lambda x: x + 1), run), CompletionTimer(run, block_every_n_steps=2)
    for x in run.steps([jnp.float32(1.0)] * 4):
        timer(step(x))
    table = stages(run)
    waits = table.durations_s[:, 0, table.stages.index("wait")]
    assert (waits[1::2] > 0).all()
    assert (waits[::2] == 0).all() or np.isnan(waits[0])


def test_the_function_stays_what_it_was(run):
    step = dispatched(jax.jit(lambda x: x + 1), run)
    assert step.lower(1.0).compile() is not None
    with pytest.raises(UsageError, match="not a function"):
        dispatched(None, run)
