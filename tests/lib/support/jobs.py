"""Jobs of several processes on this machine, and the files that ranks leave."""

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from stepscope.analyze.ranks.job import Job
from stepscope.events.framing import frame
from stepscope.events.telemetry import END, FACTS, FOLDER, ROWS, Name, TelemetryRow, encoded, encoded_facts
from stepscope.job import load_ranks
from support.ports import free_port
from support.programs import TORCH, Program

Rows = Sequence[tuple[int, TelemetryRow]]


def run_ranks(words: Iterable[object], ranks: int, *, timeout: float = 300, **variables: str) -> list[str]:
    """Run a program once per rank, as a launcher does; return what each printed.

    Args:
        words: The program and its arguments.
        ranks: World size.
        timeout: Seconds for each.
        variables: Further variables of the environment.
    """
    environment = {name: value for name, value in os.environ.items() if name != "STEPSCOPE_STRICT"} | {
        "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1", **variables,
    }  # fmt: skip
    processes = [
        Program(
            [*map(str, words)], modules=TORCH,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    try:
        printed = [process.communicate(timeout=timeout)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0] * ranks, "\n".join(printed)
    return printed


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


def write_rank(
    run: Path,
    rank: int,
    world_size: int,
    *parts: tuple[int, Rows] | Rows,
    host: str = "node",
    memory: tuple[float, float] = (3e9, 6e10),
    end: str | None = "finished",
    **facts: Any,
) -> Path:
    """Write the file of a rank as its process would have.

    Args:
        run: Directory of the run.
        rank: Its number.
        world_size: How many there are.
        parts: Rows with their steps, one record each, or a kind of record and its rows.
        host: Its machine.
        memory: Bytes of the process and of its device.
        end: How it ended; None if it did not say so.
        facts: What it says of itself, as ``stages`` and ``started``.
    """
    stages = len(facts.get("stages", ()))
    path = run / FOLDER / str(Name("rank", rank, world_size, 1, 0, host, 4000 + rank, 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [encoded_facts(FACTS, rank=rank, world_size=world_size, attempt=1, host=host, **facts)]
    for part in parts:
        kind, rows = part if isinstance(part[0], int) else (ROWS, part)
        records.append(encoded(kind, rows, memory, stages))
    if end is not None:
        records.append(encoded_facts(END, status=end, reason=None))
    path.write_bytes(b"".join(map(frame, records)))
    return path
