"""A log directory that has something for every page."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import stepscope as ss
from stepscope.events import EventWriter
from stepscope.events.framing import frame
from stepscope.events.kinds.graph import Node, NodeCost
from stepscope.events.telemetry import END, FACTS, FOLDER, SCHEMA, STAGED, Name
from stepscope.record.telemetry import TelemetryRow, as_json, encoded
from support.recordings import recorded

START, RANKS, STEPS, SLOW, SINCE = 1.7e9, 4, 120, 2, 60
PROFILE = "a100_ddp_rank0of2.json.gz"
"""Its profile, in the directory itself."""


def write_all(log_dir: Path) -> None:
    """Write two runs, one with a graph, a profile, and ``job``, four ranks of which one is slow."""
    nodes, costs, last = [Node("x", "Input")], [], "x"
    for layer in range(12):
        name = f"net/layer{layer % 4}/linear_{layer}"
        nodes.append(Node(name, "linear", [last], [(8, 8)]))
        costs.append(NodeCost(name, 0, 10 + layer, 256))
        last = name
    for name, scale in (("a", 1.0), ("b", 1.5)):
        with ss.Run(log_dir / name, config={"lr": scale}) as run:
            for step in range(200):
                for tag in ("train/loss", "eval/loss", "train/accuracy", "grad_norm", "memory_bytes"):
                    run.scalar(tag, scale * (1 + 1 / (1 + step)), step)
            if name == "a":
                run.graph(nodes, costs=costs, tag="step 1", step=0)
    staged(log_dir / "job")
    shutil.copy(recorded(f"traces/kineto/{PROFILE}"), log_dir)


def staged(
    directory: Path, *, ranks: int = RANKS, slow: int = SLOW, since: int = SINCE, noise_s: float = 0.001
) -> None:
    """Ranks that record their stages, one of which is late from a step on, and a log of the job."""
    noise = random.Random(4)
    (directory / FOLDER).mkdir(parents=True)
    writer = EventWriter(directory, clock=lambda: START)
    writer.scalar("train/loss", 1.0, 0, START)
    writer.close()
    for rank in range(ranks):
        stages = {"stages": ["forward", "backward"], "stage_order": [1, 2]}
        facts = as_json(
            rank=rank, world_size=ranks, role="worker" if rank else "chief", attempt=1, host="node0",
            started=START, **stages,
        )  # fmt: skip
        rows = []
        for step in range(STEPS):
            late = step >= since
            total = (0.15 if late else 0.1) + noise_s * noise.random()
            forward = 0.1 if late and rank == slow else 0.05
            row = TelemetryRow(START + 0.1 * step, total, 0.0, 1.0, has_loss=True, ended=True)
            row.spent = (0.0, forward, total - forward)
            rows.append((step, row))
        parts = [
            frame(bytes([FACTS, SCHEMA]) + facts),
            frame(encoded(STAGED, rows, (3e9, 6e10), 2)),
            frame(bytes([END, SCHEMA]) + as_json(status="finished", reason=None)),
        ]
        name = Name("rank", rank, ranks, 1, 0, "node0", 4000 + rank, 0)
        (directory / FOLDER / str(name)).write_bytes(b"".join(parts))
