"""A log directory that has something for every page."""

import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import stepscope as ss
from stepscope.events.kinds.graph import Node, NodeCost
from stepscope.events.telemetry import TelemetryRow
from support.jobs import write_rank
from support.recordings import recorded
from support.records import write_series

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
    write_series(directory, {"train/loss": [1.0]}, start=START)
    for rank in range(ranks):
        rows = []
        for step in range(STEPS):
            late = step >= since
            total = (0.15 if late else 0.1) + noise_s * noise.random()
            forward = 0.1 if late and rank == slow else 0.05
            row = TelemetryRow(START + 0.1 * step, total, 0.0, 1.0, has_loss=True, ended=True)
            row.spent = (0.0, forward, total - forward)
            rows.append((step, row))
        write_rank(
            directory, rank, ranks, rows, host="node0", role="worker" if rank else "chief", started=START,
            stages=["forward", "backward"], stage_order=[1, 2],
        )  # fmt: skip


LONG = "lr0.0003-batch128-warmup2000-weight_decay0.01"
"""A run with something for each page of records, and names that no narrow column holds."""


def write_records(directory: Path) -> None:
    """Write a run that recorded one of every kind of summary, and a profile with memory in two captures."""
    numbers = np.random.default_rng(0)
    config = {
        "optimizer": {"learning_rate_of_the_embeddings": 3e-4, "betas": [0.9, 0.999]},
        "data": {"tokenizer_with_byte_fallback": True, "path": "/data/shards/validation/part-00001.parquet"},
        "learning_rate_schedule": "cosine_with_linear_warmup",
    }
    with ss.Run(directory, config=config) as run:
        for step in run.steps(range(12)):
            at = int(step)
            run.scalar("train/loss", 1 / (at + 1))
            run.histogram("gradients/encoder.layer.0.attention.query.weight", numbers.normal(size=50))
            run.histogram("weights/encoder.layer.0.attention.query.weight", numbers.normal(size=50))
            run.image("reconstruction", numbers.random((16, 16, 3)))
            run.text("samples/greedy_decoding", f"step {at}")
        labels = numbers.random(100) < 0.5
        scores = np.clip(labels * 0.4 + 0.6 * numbers.random(100), 0, 1)
        run.pr_curve("eval/precision_recall", labels, scores, 5, num_thresholds=21)
        run.audio("voice", np.sin(np.arange(4000) / 9).astype("f4")[:, None] * 0.5, 5, sample_rate=8000)
        run.embedding("hidden", numbers.normal(size=(30, 4)), 5, labels=[str(at % 3) for at in range(30)])
        run.mesh("square", [[0, 0, 0], [1, 0, 0], [1, 1, 0]], 5, faces=[[0, 1, 2]])
    (directory / "profiles").mkdir()
    for at in (1, 2):
        made = json.dumps(stepped_trace("void gemm_kernel_with_a_long_name<float, 128, 64>", slow=at))
        (directory / "profiles" / f"{at}.pt.trace.json.gz").write_bytes(gzip.compress(made.encode()))


def stepped_trace(kernel: str, *, slow: int) -> dict[str, Any]:
    """Three steps with an operator, a kernel of known intensity and a level of memory, as Kineto has them."""
    events: list[dict[str, Any]] = []
    for step in range(3):
        start = 1000 * step
        dims = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"], "External id": step + 1}
        launch = {"device": 0, "stream": 7, "correlation": step + 1, "External id": step + 1}
        level = {"Total Allocated": 64 << step, "Total Reserved": 1024, "Device Type": 1, "Device Id": 0}
        memory = {**level, "Addr": step + 1, "Bytes": 64}
        host, device = {"ph": "X", "pid": 1, "tid": 1}, {"ph": "X", "pid": 0, "tid": 7}
        call = {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": launch}
        work = {"args": launch}
        instant = {"ph": "i", "s": "t", "pid": 1, "tid": 1, "cat": "cpu_instant_event", "name": "[memory]"}
        events += [
            {**host, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": start, "dur": 900},
            {**host, "cat": "cpu_op", "name": "aten::mm", "ts": start + 10, "dur": 200, "args": dims},
            {**call, "ts": start + 20, "dur": 9},
            {**device, "cat": "kernel", "name": kernel, "ts": start + 60, "dur": 100 * slow + step, **work},
            {**instant, "ts": start + 15, "args": memory},
        ]
    device = {"id": 0, "name": "Tesla V100-SXM2-16GB", "computeMajor": 7, "computeMinor": 0, "numSms": 80}
    return {"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}
