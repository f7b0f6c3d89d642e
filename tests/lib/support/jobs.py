"""Jobs of several processes on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from stepscope.analyze.ranks.job import Job
from stepscope.job import load_ranks
from support.ports import free_port
from support.programs import TORCH, Program


def train_ranks(program: str, directory: Path, ranks: int, *words: str) -> Job:
    """Run a program once per rank and return what the ranks left.

    It gets the run's directory, its rank, a free port and further words.
    """
    port = str(free_port())
    processes = [
        Program(
            ["-c", program, str(directory), str(rank), port, *words],
            modules=TORCH,
            env={**os.environ, "STEPSCOPE_STRICT": "1", "OMP_NUM_THREADS": "1"},
        )
        for rank in range(ranks)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0] * ranks
    return load_ranks(directory)
