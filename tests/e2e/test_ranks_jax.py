"""Two processes of ``jax.distributed`` on the CPU: one chief, a file per rank, whenever the Run is made."""

import os
import subprocess
from pathlib import Path

import pytest
from support.ports import free_port
from support.programs import JAX, Program

import stepscope as ss
from stepscope.events.telemetry import parse_name

pytest.importorskip("jax")
pytestmark = pytest.mark.slow
TRAIN = """
import sys
import jax
import jax.numpy as jnp
import stepscope as ss

early, late, port, rank = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
before = ss.Run(early, flush_secs=0.1)
assert before.role.source == "single process", before.role   # and asking did not start the backend
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
after = ss.Run(late, flush_secs=0.1)
assert (after.role.rank, after.role.world_size, after.role.source) == (rank, 2, "jax.distributed"), after.role
for run in (before, after):
    for step in run.steps(range(4)):
        run.scalar("train/loss", jnp.float32(10 * rank + step) + 0)
    assert run.flush()
    assert (run.role.rank, run.role.world_size, run.role.writes) == (rank, 2, rank == 0), run.role
    run.close()
jax.distributed.shutdown()
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jax")
    (folder / "train.py").write_text(TRAIN)
    environment = {**os.environ, "STEPSCOPE_STRICT": "1", "JAX_PLATFORMS": "cpu"}
    logs = folder / "logs"
    command = [str(folder / "train.py"), str(logs / "early"), str(logs / "late")]
    port = str(free_port())
    processes = [
        Program([*command, port, str(rank)], modules=JAX, env=environment, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
    return logs


@pytest.mark.parametrize("name", ["early", "late"])
def test_one_chief_and_a_file_per_rank(logs: Path, name):
    assert len(list((logs / name).glob("*tfevents*"))) == 1
    names = [parse_name(path.name) for path in (logs / name / "ranks").iterdir()]
    assert sorted((each.rank, each.size, each.attempt) for each in names) == [(0, 2, 1), (1, 2, 1)]


@pytest.mark.parametrize("name", ["early", "late"])
def test_each_rank_wrote_its_own_numbers(logs: Path, name):
    with ss.open(logs, cache=False) as log:
        run = log.run(name)
        (series,) = run.columns("train/loss")
        assert series.value.tolist() == [0, 1, 2, 3]
        for rank in range(2):
            steps = run.ranks.steps(rank)
            assert steps.loss.tolist() == [10 * rank + step for step in range(4)]
            assert (steps.step_time_s > 0).all()
        assert [member.state for member in run.ranks.members()] == ["finished", "finished"]
        assert {member.facts["source"] for member in run.ranks.members()} == {"jax.distributed"}
