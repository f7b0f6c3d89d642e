"""Cost of ``stepscope run`` to the training's thread: its processor time per step, beside the bare script.

``python benchmarks/run_cost.py [--pairs 10]``. Runs alternate in pairs, each in a process of its own; a step
takes some milliseconds, or as little as PyTorch allows. Also the start of a program that trains nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
width, steps = int(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32 * steps, width)), 32)
times = []
begun = time.thread_time()
for (x,) in data:
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    now = time.thread_time()
    times.append(now - begun)
    begun = now
times = times[steps // 5:]
print(sum(times) / len(times))
"""
SIZES = {"a step of 5 ms and more": (1024, 400), "a step as short as PyTorch's": (8, 4000)}


def per_step(script: str, size: tuple[int, int], *, with_us: bool, folder: str) -> float:
    """Return seconds of processor time per step."""
    words = [sys.executable, script, *map(str, size)]
    ours = [sys.executable, "-m", "stepscope", "run", "--no-card", "--dir", folder, "--"]
    ended = subprocess.run(
        [*ours, *words] if with_us else words, capture_output=True, text=True, check=True, cwd=folder
    )
    return float(ended.stdout)


def start(*, with_us: bool, folder: str) -> float:
    """Return seconds until a program that trains nothing has ended, from within ``stepscope run``."""
    environ = {**os.environ}
    if with_us:
        from stepscope.cli.run import PATH

        environ |= {"PYTHONPATH": str(PATH), "STEPSCOPE_RUN_SESSION": folder, "STEPSCOPE_RUN_DIR": folder}
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=environ, check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Print medians over the pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        script = str(Path(folder, "train.py"))
        Path(script).write_text(SCRIPT, encoding="utf-8")
        for name, size in SIZES.items():
            pairs = [
                [per_step(script, size, with_us=ours, folder=folder) for ours in (False, True)]
                for _ in range(arguments.pairs)
            ]
            bare = statistics.median(pair[0] for pair in pairs)
            more = statistics.median(pair[1] - pair[0] for pair in pairs)
            found[name] = {"bare_us": 1e6 * bare, "more_us": 1e6 * more, "ratio": more / bare}
            print(name, json.dumps(found[name]), flush=True)
        starts = [
            start(with_us=True, folder=folder) - start(with_us=False, folder=folder)
            for _ in range(3 * arguments.pairs)
        ]
        print("a start without training", json.dumps({"more_ms": 1e3 * statistics.median(starts)}))


if __name__ == "__main__":
    main()
