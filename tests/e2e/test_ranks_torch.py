"""Real processes of torch.distributed: which files exist, who wrote what, and what happens when one dies."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import programs
from support.ports import free_port

import stepscope as ss
from stepscope.events.telemetry import parse_name
from stepscope.store.ranks import Ranks

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
STEPS = 12
TRAIN = """
import os, signal, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import stepscope as ss

log_dir, dies = sys.argv[1], sys.argv[2:] == ["dies"]
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
# torchrun keeps its store over a restart, and with it the addresses of ranks that are gone.
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
store = dist.TCPStore(*address, is_master=sys.argv[2:] == ["serves"] and os.environ["RANK"] == "0")
place = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
dist.init_process_group("gloo", store=dist.PrefixStore(restart, store), **place)
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with ss.Run(log_dir, flush_secs=0.2) as run:
    for step in run.steps(range(12)):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.scalar("train/loss", float(100 * rank + step))
        run.scalar("real/loss", loss)
        if rank == 1 and step == 3:
            run.scalar("odd", float("nan"))
        if dies and restart == "0" and step == 5:
            run.flush()
            dist.barrier()
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
dist.destroy_process_group()
"""


def torchrun(folder: Path, *arguments: str, ranks: int, restarts: int) -> subprocess.CompletedProcess[str]:
    """Run the training in several processes, by torchrun."""
    script = folder / "train.py"
    script.write_text(TRAIN)
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
    launcher += [f"--max-restarts={restarts}", f"--master-port={free_port()}", "--monitor-interval=0.1"]
    environment = {**os.environ, "STEPSCOPE_STRICT": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*launcher, str(script), *arguments],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def event_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*tfevents*"))


def infos(run) -> list[tuple[int | None, int | None, int | None]]:
    return [(s.said.attempt, s.said.rank, s.said.world_size) for w in run.writers for s in w.sources]


def ranks_of(folder: Path, ranks: int) -> list[programs.Program]:
    """Start the training once per rank, with the variables that torchrun gives them: it imports for each."""
    everywhere = {
        "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()), "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
        "STEPSCOPE_STRICT": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    return [
        programs.Program(
            ["-c", TRAIN, str(folder), "serves"], modules=programs.TORCH, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **everywhere, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddp")
    started = ranks_of(folder / "logs" / "job", ranks=4)
    said = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, "\n".join(said)
    spoken = [line for line in "\n".join(said).splitlines() if "stepscope:" in line]
    assert ["values that rank 1 logs are not recorded, 'train/loss' first" in line for line in spoken] == [
        True
    ]
    return folder / "logs"


def test_the_chief_alone_writes_events_and_each_rank_its_own_file(folder):
    (file,) = event_files(folder)
    assert file.parent == folder / "job"
    names = [parse_name(path.name) for path in (folder / "job" / "ranks").iterdir()]
    assert sorted((n.kind, n.rank, n.size, n.attempt, n.restarts) for n in names) == [
        ("rank", rank, 4, 1, 0) for rank in range(4)
    ]
    assert len({name.pid for name in names}) == 4
    assert sorted(path.name for path in (folder / "job").iterdir()) == [
        file.name.replace("tfevents", "stepscope"), file.name, "ranks"
    ]  # fmt: skip


def test_what_the_ranks_logged_beside_the_chief_is_counted(folder):
    members = Ranks(str(folder / "job")).members()
    assert [member.facts.get("unrecorded") for member in members] == [None, 25, 24, 24]


def test_each_rank_wrote_its_own_numbers(folder):
    with ss.open(folder, cache=False) as log:
        ranks = log.run("job").ranks
        for rank in range(4):
            steps = ranks.steps(rank)
            assert steps.step.tolist() == list(range(STEPS))
            assert steps.loss.tolist() == [100 * rank + step for step in range(STEPS)]
            assert steps.nonfinite_count.tolist() == [float(rank == 1 and s == 3) for s in range(STEPS)]
            assert np.all(steps.step_time_s > 0)
            assert np.all(steps.data_wait_s >= 0)
            assert np.all(steps.resident_bytes > 1e7)
            assert np.all(np.isnan(steps.device_bytes))
        members = ranks.members()
    assert [(m.label, m.role, m.state, m.attempts) for m in members] == [
        (f"rank {rank}", "chief" if rank == 0 else "worker", "finished", (1,)) for rank in range(4)
    ]
    assert [member.facts["source"] for member in members] == ["torch.distributed"] * 4
    assert [member.facts["local_rank"] for member in members] == [0, 1, 2, 3]
    assert [member.facts["loss"] for member in members] == ["train/loss"] * 4


def test_the_run_is_the_chiefs(folder):
    with ss.open(folder, cache=False) as log:
        (run,) = log.runs()
        (series,) = run.columns("train/loss")
        assert series.writer == "rank 0"
        assert series.value.tolist() == list(range(STEPS))
        assert infos(run) == [(1, 0, 4)]


def test_tensorboard_lists_one_run(folder):
    tensorboard = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_multiplexer")
    found = tensorboard.EventMultiplexer()
    found.AddRunsFromDirectory(str(folder))
    assert list(found.Runs()) == ["job"]


def test_ls_has_a_line_for_each_rank(folder):
    command = [sys.executable, "-m", "stepscope", "ls", "--ranks", "--json", "--no-cache", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (run,) = json.loads(done.stdout)["runs"]
    assert [(rank["label"], rank["step"], rank["nonfinite"]) for rank in run["ranks"]] == [
        ("rank 0", 11, 0), ("rank 1", 11, 1), ("rank 2", 11, 0), ("rank 3", 11, 0)
    ]  # fmt: skip


def test_a_killed_rank_blocks_nobody_and_the_restart_is_a_second_attempt(tmp_path):
    done = torchrun(tmp_path, str(tmp_path / "logs" / "job"), "dies", ranks=2, restarts=1)
    assert done.returncode == 0, done.stderr
    files = [parse_name(path.name) for path in (tmp_path / "logs" / "job" / "ranks").iterdir()]
    assert sorted((n.attempt, n.restarts, n.rank) for n in files) == [
        (attempt, attempt - 1, rank) for attempt in (1, 2) for rank in range(2)
    ]
    with ss.open(tmp_path / "logs", cache=False) as log:
        run = log.run("job")
        assert run.ranks.attempts() == [1, 2]
        for rank in range(2):
            first, second = (run.ranks.steps(rank, attempt=attempt) for attempt in (1, 2))
            # Everything that was flushed before the kill is there; the running step has no time yet.
            assert first.step.tolist()[:5] == [0, 1, 2, 3, 4]
            assert second.loss.tolist() == [100 * rank + step for step in range(STEPS)]
        (writer,) = run.writers
        assert (writer.id, [attempt.number for attempt in writer.attempts]) == ("rank 0", [1, 2])
        assert [info[0] for info in infos(run)] == [1, 2]
        assert [member.attempts for member in run.ranks.members()] == [(1, 2)] * 2


JOINS = """
import sys
import torch.distributed as dist
import stepscope as ss

log_dir, rank, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
run = ss.Run(log_dir, flush_secs=0.1)          # before anybody could know the rank
assert run.role.world_size == 1
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
for step in run.steps(range(5)):
    run.scalar("loss", float(10 * rank + step))
assert run.flush()
assert (run.role.rank, run.role.world_size, run.role.writes) == (rank, 2, rank == 0), run.role
run.close()
dist.barrier()
dist.destroy_process_group()
"""


def test_a_run_made_before_the_process_group_still_has_one_chief(tmp_path):
    port = str(free_port())
    started = [
        programs.Program(
            ["-c", JOINS, str(tmp_path / "logs" / "job"), str(rank), port], modules=programs.TORCH,
            env={**os.environ, "STEPSCOPE_STRICT": "1", "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)
    assert len(event_files(tmp_path / "logs")) == 1
    with ss.open(tmp_path / "logs", cache=False) as log:
        run = log.run("job")
        (series,) = run.columns("loss")
        assert series.value.tolist() == [0, 1, 2, 3, 4]
        for rank in range(2):
            assert run.ranks.steps(rank).loss.tolist() == [10 * rank + step for step in range(5)]


OWN = """
import os, sys
import torch
import torch.distributed as dist
import stepscope as ss

dist.init_process_group("gloo")
rank = dist.get_rank()
with ss.Run(sys.argv[1]) as run:
    for step in run.steps(range(6)):
        tokens = torch.tensor(float(100 * rank + step))
        run.scalar("data/tokens", tokens, rank="own")
        mean = tokens.clone()
        dist.all_reduce(mean)
        run.scalar("data/mean_tokens", mean / dist.get_world_size())
dist.destroy_process_group()
"""


def test_torchrun_keeps_the_values_that_each_rank_was_asked_to_keep(tmp_path):
    script = tmp_path / "own.py"
    script.write_text(OWN)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=3", f"--master-port={free_port()}"]
    ended = subprocess.run(
        [sys.executable, *launcher, str(script), str(tmp_path / "job")],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("are not recorded, 'data/mean_tokens' first") == 1
    ranks = Ranks(str(tmp_path / "job"))
    (tokens,) = ranks.values()
    assert (tokens.tag, tokens.step, tokens.ranks, tokens.mean) == ("data/tokens", 5, 3, 105)
    assert (tokens.minimum_rank, tokens.maximum_rank, tokens.maximum) == ("rank 0", "rank 2", 205)
    assert ranks.grid("value/data/tokens").mean.tolist() == [
        [100 * rank + step for step in range(6)] for rank in range(3)
    ]
    run = ss.open(tmp_path, cache=False).run("job")
    assert run.columns("data/mean_tokens")[0].value.tolist() == [100 + step for step in range(6)]


SPAWNS = """
import multiprocessing, sys
import stepscope as ss

def work(rank, folder):
    with ss.Run(folder, rank=rank, world_size=3, values="all") as run:
        for step in run.steps(range(4)):
            run.scalar("loss", float(10 * rank + step))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    started = [context.Process(target=work, args=(rank, sys.argv[1])) for rank in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    sys.exit(sum(process.exitcode for process in started))
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_of_multiprocessing_keep_what_they_log(tmp_path, method):
    script = tmp_path / "spawns.py"
    script.write_text(SPAWNS)
    words = [sys.executable, str(script), str(tmp_path / "job"), method]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    (loss,) = Ranks(str(tmp_path / "job")).values()
    assert (loss.step, loss.minimum, loss.minimum_rank, loss.maximum, loss.maximum_rank) == (
        3, 3, "rank 0", 23, "rank 2"
    )  # fmt: skip
