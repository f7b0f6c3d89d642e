"""Gradients in every kind of loop, against what they are by hand: exact, or declared, and never wrong.

``benchmarks/loops.py`` prints the same as a table. Keras is in ``tests/keras``, once per backend.
"""

import os
import subprocess
import sys

import pytest
from support import loops
from support.ports import free_port
from support.programs import TORCH, Program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
DECLARED = {("ddp_groups", each) for each in ("per layer", "update", "histogram")}
"""While ranks agree on parameters that changed, layers are not measured, and the run states it."""


def start(words, environment, **streams):
    return Program(words, modules=TORCH, env=environment, **streams)


@pytest.fixture(scope="module", params=["alone", "ranks", "trainers", "jax"])
def job(request, tmp_path_factory):
    where, out = request.param, tmp_path_factory.mktemp("loops")
    if where == "jax":
        pytest.importorskip("optax")
    if where == "trainers":
        for library in ("lightning", "accelerate", "transformers"):
            pytest.importorskip(library)
    ranks = 2 if where == "ranks" else 1
    environment = {name: value for name, value in os.environ.items() if name != "STEPSCOPE_STRICT"}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), "HF_HUB_OFFLINE": "1"}
    if ranks > 1:
        environment |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    words = [loops.__file__, str(out), *loops.names_of(where)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    if where == "jax":
        processes = [subprocess.Popen([sys.executable, *words], env=environment, **streams)]
    else:
        processes = [
            start(words, environment | ({"RANK": str(rank)} if ranks > 1 else {}), **streams)
            for rank in range(ranks)
        ]
    try:
        output = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return where, out, output


def test_what_is_recorded_is_what_the_optimizer_used(job):
    where, out, output = job
    found = {name: loops.verdicts_of(out / name) for name in loops.names_of(where)}
    wrong = {
        (name, statistic): verdict
        for name, verdicts in found.items()
        for statistic, verdict in verdicts.items()
        if verdict != "exact" and not ((name, statistic) in DECLARED and verdict.startswith("declared"))
    }
    assert not wrong, "\n".join(output)


def test_few_cells_are_declared():
    assert len(DECLARED) <= 0.1 * len(loops.LOOPS) * len(loops.STATISTICS)


def test_the_check_sees_what_is_wrong(tmp_path):
    """A recording at the step before, one that is a little off, and one that lacks a step are all wrong."""
    import numpy as np

    import stepscope as ss

    truth = loops.Truth()
    for step in range(3):
        gradient = np.array([3.0, 4.0 + step], "f4")
        truth.norm(step, [gradient])
        truth.gradients(step, {"layer": gradient})
        truth.updates(step, {"layer": gradient})
    truth.save(tmp_path)
    with ss.Run(tmp_path) as run:
        for step in range(3):
            norm = float(np.hypot(3.0, 4.0 + step))
            run.scalar("gradients/norm", norm * (1 + 3e-6 * (step == 1)), step)
            if step < 2:
                run.scalar("gradients/layer/norm", norm, step)
            run.scalar("updates/layer/norm", norm, step)
    verdicts = loops.check(tmp_path)
    assert verdicts["norm"].startswith("wrong: gradients/norm at 1")
    assert verdicts["per layer"] == "wrong: gradients/layer/norm has no point at 2"
    assert verdicts["update"] == "exact"
    assert verdicts["histogram"].startswith("wrong: no histogram")
