"""Real processes in the environments of launchers, and ranks that are killed: who wrote what."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.programs import RECORDING, Program

import stepscope as ss
from stepscope.events.telemetry import parse_name

TRAIN = """
import sys
import stepscope as ss
with ss.Run(sys.argv[1], flush_secs=0.1) as run:
    for step in run.steps(range(5)):
        run.scalar("loss", float(100 * run.role.rank + step))
"""
CLUSTER = {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}


def tf(kind, index=0):
    return {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": kind, "index": index}})}


def counted(rank, size, **more):
    """Variables of the ranks 0 … of a launcher."""
    return lambda number, many: {rank: str(number), size: str(many), **more}


def slurm(number, many):
    step = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(many)}
    return {**step, "SLURM_PROCID": str(number), "SLURM_NTASKS": str(many), "SLURM_LOCALID": "0"}


LAUNCHERS = {
    "torchrun": counted("RANK", "WORLD_SIZE", TORCHELASTIC_RUN_ID="x", TORCHELASTIC_RESTART_COUNT="0"),
    "Slurm": slurm,
    "Open MPI": counted("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "PMI": counted("PMI_RANK", "PMI_SIZE"),
    "PMIx": counted("PMIX_RANK", "PMIX_SIZE"),
    "MVAPICH": counted("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    "LSF": counted("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    "Horovod": counted("HOROVOD_RANK", "HOROVOD_SIZE"),
    "Kubeflow": counted("PET_NODE_RANK", "PET_NNODES", PET_NPROC_PER_NODE="1"),
    "TPU pod": lambda number, many: {
        "TPU_WORKER_ID": str(number),
        "TPU_WORKER_HOSTNAMES": ",".join("a" * many),
    },
    "indexed Job": counted("JOB_COMPLETION_INDEX", "NUM_PROCESSES", MASTER_ADDR="job-0"),
}


def start(program: str, log_dir: Path, environ: dict[str, str], **options) -> Program:
    """Start a program under the variables of a launcher, which a run reads when it begins."""
    return Program(
        ["-c", program, str(log_dir)], modules=RECORDING, own=environ,
        env={**os.environ, "STEPSCOPE_STRICT": "1", **environ}, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def end(processes: list[Program]) -> None:
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(errors)


def written(folder: Path) -> list[str]:
    """Every file: where it lies, and whether it holds events or is a rank's."""
    found = []
    for path in folder.rglob("*"):
        name = parse_name(path.name)
        if path.is_file():
            word = name.label if name else "events" if path.name.startswith("events.out.") else path.name
            found.append(f"{path.parent.relative_to(folder)}/{word}")
    return sorted(set(found))


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_processes_of_each_launcher(tmp_path, launcher):
    end([start(TRAIN, tmp_path / "job", LAUNCHERS[launcher](rank, 2)) for rank in range(2)])
    assert written(tmp_path) == ["job/events", "job/ranks/rank 0", "job/ranks/rank 1"]
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("job")
        (series,) = run.columns("loss")
        assert (series.writer, series.value.tolist()) == ("rank 0", [0, 1, 2, 3, 4])
        assert run.ranks.steps(1).loss.tolist() == [100, 101, 102, 103, 104]
        assert {member.facts["source"] for member in run.ranks.members()} == {launcher}


def test_a_cluster_of_tensorflow(tmp_path):
    tasks = [tf("chief"), tf("worker"), tf("ps"), tf("evaluator")]
    end([start(TRAIN, tmp_path / "job", task) for task in tasks])
    assert written(tmp_path) == [
        "job/eval/events", "job/events", "job/ranks/ps 0", "job/ranks/rank 0", "job/ranks/rank 1"
    ]  # fmt: skip
    with ss.open(tmp_path, cache=False) as log:
        assert [(run.name, run.split, run.info.role) for run in log.runs()] == [
            ("job", None, "chief"), ("job/eval", "eval", "evaluator")
        ]  # fmt: skip
        assert [member.role for member in log.run("job").ranks.members()] == ["chief", "worker", "ps"]


WAITS = """
import sys
import stepscope as ss
run = ss.Run(sys.argv[1], flush_secs=0.1)
for step in run.steps(range(8)):
    run.scalar("loss", float(step))
    if step == 4:
        assert run.flush()
        print("ready", flush=True)
        sys.stdin.readline()
run.close()
"""


def test_a_rank_that_is_killed_keeps_what_it_wrote_and_blocks_nobody(tmp_path):
    environ = [{"RANK": str(rank), "WORLD_SIZE": "3"} for rank in range(3)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [start(WAITS, tmp_path / "job", each, **pipes) for each in environ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    killed = processes[1]
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    for process in (processes[0], processes[2]):
        _, errors = process.communicate("go on\n", timeout=60)
        assert process.returncode == 0, errors
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("job")
        states = {member.label: (member.state, member.digest.last_step) for member in run.ranks.members()}
        assert states == {"rank 0": ("finished", 7), "rank 1": ("stalled", 3), "rank 2": ("finished", 7)}
        assert run.ranks.steps(1).loss.tolist() == [0, 1, 2, 3]
        assert run.state == "finished"


def test_a_chief_that_is_killed_blocks_nobody(tmp_path):
    environ = [{"RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    chief, worker = (start(WAITS, tmp_path / "job", each, **pipes) for each in environ)
    for process in (chief, worker):
        assert process.stdout.readline() == "ready\n"
    chief.send_signal(signal.SIGKILL)
    chief.communicate()
    _, errors = worker.communicate("go on\n", timeout=60)
    assert worker.returncode == 0, errors
    end([start(TRAIN, tmp_path / "job", each) for each in environ])  # the job is started again
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("job")
        assert run.ranks.attempts() == [1, 2]
        assert [member.attempts for member in run.ranks.members()] == [(1, 2)] * 2
        (writer,) = run.writers
        assert [attempt.number for attempt in writer.attempts] == [1, 2]
