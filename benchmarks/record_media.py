"""What logging images and histograms costs the training thread, beside torch's ``SummaryWriter``.

``python benchmarks/record_media.py [--count N] [--rounds N]``. So many images of 224 x 224 and as many
histograms of a million floats, tensors on the CPU, one of each a step. Each tool runs in a process of its
own, in turns: a run of Stepscope, Stepscope's ``compat.SummaryWriter``, and ``torch.utils.tensorboard``.
``wall`` is what passes during the calls in the caller's thread, ``cpu`` the processor time of that thread,
which holds also on a machine with more to do than it has cores; so does the median of ``wall``, while its
mean counts the calls during which the system gave the core to somebody else. Between steps there is a pause
in which the interpreter is free, as while a device computes. Total is from the first call until the file
holds everything, which is checked with TensorBoard's own reader; and so is that values changed in place right
after the call were recorded as they had been.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
TOOLS = ("stepscope", "compat", "torch")
WANTED = 10


def main() -> None:
    """Run every tool in turns and print medians and ratios; exit 1 where the ratio is too small."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=100, help="images, and histograms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pace", type=float, default=0.05, help="seconds between steps")
    parser.add_argument("--tool", choices=TOOLS, help="measure one tool here and print JSON")
    arguments = parser.parse_args()
    if arguments.tool:
        print(json.dumps(measure(arguments.tool, arguments.count, arguments.pace)))
        return
    found: dict[str, list[dict[str, float]]] = {tool: [] for tool in TOOLS}
    for _ in range(arguments.rounds):
        for tool in TOOLS:
            found[tool].append(in_a_process(tool, arguments.count, arguments.pace))
    ratios = {}
    for what in found["torch"][0]:
        medians = {tool: statistics.median(one[what] for one in found[tool]) for tool in TOOLS}
        ratios[what] = {tool: medians["torch"] / medians[tool] for tool in TOOLS[:2]}
        print(f"{what}:", ", ".join(f"{tool} {value:.3f}" for tool, value in medians.items()))
        print("   torch /", ", ".join(f"{tool} {value:.1f}" for tool, value in ratios[what].items()))
    clock = "cpu" if os.getloadavg()[0] > (os.cpu_count() or 1) else "wall"
    least = min(value for what in ("image", "histogram") for value in ratios[f"{what}_{clock}_ms"].values())
    sys.exit(0 if least >= WANTED else f"{least:.1f} by {clock} time, wanted {WANTED}")


def in_a_process(tool: str, count: int, pace: float) -> dict[str, float]:
    command = [sys.executable, __file__, "--tool", tool, "--count", str(count), "--pace", str(pace)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer.splitlines()[-1])
    return found


def measure(tool: str, count: int, pace: float) -> dict[str, float]:
    """Return milliseconds a call of one tool in this process."""
    import torch

    # Shades with some noise, as a photograph has.
    scene = torch.linspace(0, 0.9, 224).expand(3, 224, 224) + 0.1 * torch.rand(3, 224, 224)
    image, values = scene.clone(), torch.randn(1_000_000)
    times: dict[str, list[tuple[float, float]]] = {"image": [], "histogram": []}
    with tempfile.TemporaryDirectory() as directory:
        log_image, log_histogram, close = open_tool(tool, directory)
        log_image("warm", image, 0)
        log_histogram("warm", values, 0)
        time.sleep(1.0)
        begun = time.perf_counter()
        for step in range(count):
            torch.mul(scene, (step + 1) / count, out=image)
            values.normal_(step)
            for kind, log, value in (("image", log_image, image), ("histogram", log_histogram, values)):
                wall, cpu = time.perf_counter(), time.thread_time()
                log(kind, value, step)
                times[kind].append((time.perf_counter() - wall, time.thread_time() - cpu))
            time.sleep(pace)
        close()
        total = time.perf_counter() - begun
        check(Path(directory), count)
    found = {"total_s": total}
    for kind, pairs in times.items():
        walls, cpus = zip(*pairs, strict=True)
        found |= {
            f"{kind}_wall_ms": 1e3 * statistics.mean(walls),
            f"{kind}_median_wall_ms": 1e3 * statistics.median(walls),
            f"{kind}_cpu_ms": 1e3 * statistics.mean(cpus),
        }
    return found


def open_tool(tool: str, directory: str) -> tuple[Any, Any, Any]:
    if tool == "stepscope":
        import stepscope as ss

        run = ss.Run(directory, max_summary_bytes=1 << 30)
        return run.image, run.histogram, run.close
    if tool == "compat":
        from stepscope.compat import SummaryWriter
    else:
        from torch.utils.tensorboard import SummaryWriter  # type: ignore[assignment]
    writer: Any = SummaryWriter(directory)
    return writer.add_image, writer.add_histogram, writer.close


def check(directory: Path, count: int) -> None:
    """Everything is in the file, and as it was when it was logged."""
    import numpy as np
    from PIL import Image
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util

    found: dict[str, list[tuple[int, Any]]] = {"image": [], "histogram": []}
    for path in directory.glob("*tfevents*"):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if value.tag in found:
                    found[value.tag].append((event.step, tensor_util.make_ndarray(value.tensor)))
    for tag, values in found.items():
        assert [step for step, _ in values] == list(range(count)), f"{tag}: {len(values)} of {count}"
    for step, rows in found["histogram"]:
        assert rows[:, 2].sum() == 1_000_000
        mean = np.average(rows[:, :2].mean(1), weights=rows[:, 2])
        assert abs(mean - step) < 0.2 + 0.05 * step, (step, mean)
    for step, (_, _, picture) in found["image"]:
        shown = np.asarray(Image.open(io.BytesIO(picture))).mean() / 255
        assert abs(shown - 0.5 * (step + 1) / count) < 0.02, (step, shown)


if __name__ == "__main__":
    main()
