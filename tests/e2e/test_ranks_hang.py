"""A real job of which one rank never comes to a collective: who is stuck where."""

import os

import pytest
from support.ports import free_port
from support.programs import TORCH, Program
from support.waiting import until

from stepscope.job import load_ranks
from stepscope.serve.job_report import text_of
from stepscope.store.ranks import Ranks

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
RANKS, STUCK = 4, 2
TRAIN = f"""
import sys, threading
import torch
import torch.distributed as dist
import stepscope as ss

log_dir, rank, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{{port}}", rank=rank, world_size={RANKS})


def read_the_shard():
    threading.Event().wait()


with ss.Run(log_dir, rank=rank, world_size={RANKS}, hooks=[ss.HangHook(timeout_s=2.0)]) as run:
    for step in run.steps(range(10)):
        if rank == {STUCK} and step == 5:
            with run.stage("reading"):
                read_the_shard()
        dist.all_reduce(torch.ones(4))
"""


def settled(job):
    """Return what is told once no rank is in a step of before; nobody else is ever likely meanwhile.

    Of two ranks that called different collectives either may be wrong, as long as the others are not known.
    """
    found = load_ranks(job)
    suspects = found.hang.suspects if found.hang is not None else ()
    assert {suspect.rank for suspect in suspects if suspect.confidence > 0.5} <= {STUCK}
    there = suspects and not found.hang.notes and {each.step for each in found.stuck} == {5}
    return found if there else None


SWAPPED = f"""
import sys
import torch
import torch.distributed as dist
import stepscope as ss

log_dir, rank, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{{port}}", rank=rank, world_size={RANKS})


def sum_losses():
    dist.all_reduce(torch.ones(4))


def gather_counts():
    dist.all_gather([torch.ones(2) for _ in range({RANKS})], torch.ones(2))


with ss.Run(log_dir, rank=rank, world_size={RANKS}, hooks=[ss.HangHook(timeout_s=2.0)]) as run:
    for step in run.steps(range(10)):
        calls = [sum_losses, gather_counts]
        for call in reversed(calls) if rank == {STUCK} and step == 5 else calls:
            call()
"""


def told(program, job):
    """Run a job until its dumps tell of a step that does not end."""
    port = free_port()
    processes = [
        Program(
            ["-c", program, str(job), str(rank), str(port)],
            modules=TORCH,
            env={**os.environ, "TORCH_FR_BUFFER_SIZE": "100"},
        )
        for rank in range(RANKS)
    ]
    try:
        until(lambda: len(Ranks(str(job)).stalled()) == RANKS, "the stacks of all ranks", 120)
        return until(lambda: settled(job), "dumps that were all taken since the call that waits", 120)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_rank_that_calls_collectives_in_another_order_is_told(tmp_path):
    found = told(SWAPPED, tmp_path / "job")
    text = text_of(found)
    assert text[0].startswith(f"the job waits for rank {STUCK}: called another collective")
    [suspect] = found.hang.suspects
    assert (suspect.rank, suspect.reason) == (STUCK, "called another collective")
    [evidence] = [line for line in text if "collective 11" in line]  # the eleventh, of two in each step
    assert "ranks 0, 1 and 3 called all_reduce of 4 Float" in evidence
    assert f"rank {STUCK} called all_gather of 2 Float" in evidence


def test_who_is_stuck_where_is_told(tmp_path):
    found = told(TRAIN, tmp_path / "job")
    assert [(each.rank, each.elsewhere) for each in found.stuck] == [
        (rank, rank == STUCK) for rank in range(RANKS)
    ]
    stuck = found.stuck[STUCK]
    assert (stuck.step, stuck.stage) == (5, "reading")
    assert any(frame["function"] == "read_the_shard" for frame in stuck.threads[0]["frames"])
    text = text_of(found)
    assert text[0] == "the job waits for rank 2: did not join (ranks 0, 1 and 3 wait)"
    [suspect] = found.hang.suspects
    assert (suspect.rank, suspect.reason) == (STUCK, "did not join")
    assert found.data()["suspects"][0]["rank"] == STUCK
    assert any("reading" in line and line.split()[0] == "2" for line in text)
