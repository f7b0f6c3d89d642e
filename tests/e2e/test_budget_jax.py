"""The time budget of two processes of ``jax.distributed``: both stretch at the same step, and none waits."""

import json
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.ports import free_port
from support.programs import JAX, Program

import stepscope as ss

pytest.importorskip("jax")
pytestmark = [pytest.mark.slow, pytest.mark.timing]
HEAD = """
import json, os, sys, time
import jax, jax.numpy as jnp, numpy as np
import stepscope as ss
from stepscope.integrations.jax import watch

out, port, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
hook = ss.GradientHook(every_n_steps=2, dense_steps=0, histograms_every=0, max_overhead=0.05)
"""
TOGETHER = (
    HEAD
    + """
from functools import partial
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), "data")
params = jax.device_put({"w": np.ones((4, 2), "f4"), "v": np.ones(3, "f4")}, NamedSharding(mesh, P()))
batch = jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), np.ones((3, 4), "f4"))

with ss.Run(f"{out}/run", hooks=[hook]) as run:
    watched = watch(run)

    @partial(jax.jit, static_argnames="level")
    def train(params, batch, level):
        gradients = jax.grad(lambda p: jnp.mean((batch @ p["w"]) ** 2) + (p["v"] ** 2).sum())(params)
        measured = watched.measure(level, gradients=gradients, weights=params)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), measured

    levels = []
    for step in run.steps(range(300)):
        levels.append(watched.level(step))
        if rank == 1 and levels[-1] != "norm":
            time.sleep(0.05)  # what a sample costs here
        elif rank == 0 and step % 64 == 20:
            time.sleep(0.1)  # the one that decides is late
        params, measured = train(params, batch, levels[-1])
        watched.record(measured, step)
        time.sleep(0.002)
    found = {"levels": levels, "stretches": watched._sampling._stretches, "problems": dict(run.problems)}
open(f"{out}/{rank}.json", "w").write(json.dumps(found))
jax.distributed.shutdown()
"""
)
DYING = (
    HEAD
    + """
took = []
with ss.Run(f"{out}/run", hooks=[hook]) as run:
    watched = watch(run)
    for step in run.steps(range(400)):
        begun = time.perf_counter()
        level = watched.level(step)
        took.append(time.perf_counter() - begun)
        watched.record(watched.measure(level, gradients=jnp.ones(3)), step)
        if rank == 1 and step == 20:  # before the second decision, with a part in the first
            os._exit(9)
        time.sleep(0.001)
open(f"{out}/{rank}.json", "w").write(json.dumps(max(took)))
os._exit(0)  # no farewell that waits for the dead
"""
)
KERAS = """
import json, sys
import jax, numpy as np

out, port, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
import keras
import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback, measured

keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
keras.utils.set_random_seed(0)
options = dict(every_n_steps=2, dense_steps=0, histograms_every=8, max_overhead=0.02, rotate=2)
gradients, activations = ss.GradientHook(**options), ss.ActivationHook(**options)
layers = [keras.layers.Dense(4, activation="relu", name="hidden"), keras.layers.Dense(1, name="out")]
model = keras.Sequential([keras.Input((3,)), *layers], name="net")
model.compile(measured(keras.optimizers.SGD(0.01), gradients), "mse")
x = np.random.default_rng(0).normal(size=(64, 3)).astype("f4")
with ss.Run(f"{out}/run", hooks=[activations]) as run:
    callback = StepscopeCallback(run)
    model.fit(x, x.sum(1, keepdims=True), batch_size=8, epochs=20, verbose=0, callbacks=[callback])
    stretches = [hook.parts[0]._sampling._stretches for hook in (gradients, activations)]
    found = {"stretches": stretches, "problems": dict(run.problems)}
open(f"{out}/{rank}.json", "w").write(json.dumps(found))
jax.distributed.shutdown()
"""


def job(folder: Path, script: str) -> list[Program]:
    (folder / "train.py").write_text(script)
    environment = {**os.environ, "STEPSCOPE_STRICT": "1", "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax"}
    environment.pop("XLA_FLAGS", None)
    command = [str(folder / "train.py"), str(folder), str(free_port())]
    processes = [
        Program([*command, str(rank)], modules=JAX, env=environment, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    errors = [process.communicate(timeout=180)[1] for process in processes]
    assert processes[0].returncode == 0, "\n".join(errors)
    return processes


def test_both_processes_stretch_at_the_same_step(tmp_path: Path) -> None:
    assert job(tmp_path, TOGETHER)[1].returncode == 0
    one, two = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert one["stretches"] == two["stretches"]
    assert one["levels"] == two["levels"]
    assert not any(one["problems"].values())
    assert not any(two["problems"].values())
    assert max(factor for _, factor in one["stretches"]) >= 4  # 50 ms a sample, some ms a step
    with ss.open(tmp_path / "run", cache=False) as log:
        steps = log.run(".").series("gradients/w/norm")["step"].tolist()
    assert steps == [step for step, level in enumerate(one["levels"]) if level != "norm"]
    assert len(steps) < 300 / 2 / 2


def test_fit_of_keras_in_both_processes(tmp_path: Path) -> None:
    if find_spec("keras") is None:
        pytest.skip("keras is not installed")
    assert job(tmp_path, KERAS)[1].returncode == 0
    one, two = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert one == two
    assert not any(one["problems"].values())
    assert (
        max(factor for _, factor in one["stretches"][0]) > 1
    )  # a sample costs more than a 25th of such a small step
    with ss.open(tmp_path / "run", cache=False) as log:
        run = log.run(".")
        steps = [
            run.series(f"gradients/net/hidden/{name}/std")["step"].tolist() for name in ("kernel", "bias")
        ]
        layers = [run.series(f"activations/net/{name}/std")["step"].tolist() for name in ("hidden", "out")]
    assert steps[0][0] == layers[0][0] == 0
    assert steps[1][0] == layers[1][0] == 2
    assert not set(layers[0]) & set(layers[1])


def test_a_process_goes_on_alone_without_waiting_for_a_dead_one(tmp_path: Path) -> None:
    assert job(tmp_path, DYING)[1].returncode == 9
    assert json.loads((tmp_path / "0.json").read_text()) < 2.0
