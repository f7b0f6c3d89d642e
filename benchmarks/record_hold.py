"""How long the training's thread is held up while large summaries are encoded beside it.

``python benchmarks/record_hold.py [--rounds N] [KIND ...]``. A loop of a few microseconds stands for a
training that waits for nothing. Each kind of summary is logged in a process of its own, and the longest turn
of the loop is looked for until the summary is encoded, without the call that logs it. What counts of a turn
is what the other threads of the process computed meanwhile, and no more than the turn less the time that the
kernel says its thread waited for a processor: so it holds also where other programs take processors.

``hold`` is the longest such wait, ``share`` what all of them together were of the time, ``call`` how long the
call itself took; the median of the rounds, and the worst round. ``peer`` is how long the call of torch's
``SummaryWriter`` takes, which encodes in it. Exits with 1 where a hold is longer than 5 ms by the median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WANTED_MS = 5.0
HELD_S = 50e-6
"""A turn that takes longer was held up."""
LONGEST_S = 120.0


def some(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)


def of_a_kind(kind: str) -> tuple[Callable[[Any], None], Callable[[Any], None] | None]:
    """Return what logs a kind to a run, and to torch's writer where that has such a method."""
    if kind == "image":
        pixels = noise(4000, 4000, 3)
        return lambda run: run.image("a", pixels), lambda torch: torch.add_image(
            "a", pixels, dataformats="HWC"
        )
    if kind == "image float":
        shades = some(2000, 2000, 3)
        return lambda run: run.image("a", shades), lambda torch: torch.add_image(
            "a", shades, dataformats="HWC"
        )
    if kind == "images":
        batch = noise(64, 224, 224, 3)
        return lambda run: run.images("a", batch), lambda torch: torch.add_images(
            "a", batch, dataformats="NHWC"
        )
    if kind == "histogram":
        values = some(10_000_000)
        return lambda run: run.histogram("a", values), lambda torch: torch.add_histogram("a", values)
    if kind == "tensor":
        wide = some(4_000, 4_000)
        return lambda run: run.tensor("a", wide), lambda torch: torch.add_tensor("a", wide_torch(wide))
    if kind == "video":
        frames = noise(32, 256, 256, 3)
        return lambda run: run.video("a", frames), None
    if kind == "audio":
        sound = some(44_100 * 60, 2) * 2 - 1
        return lambda run: run.audio("a", sound), lambda torch: torch.add_audio(
            "a", sound[:, 0], sample_rate=44_100
        )
    if kind == "embedding":
        vectors, labels = some(100_000, 64), [f"label {number}" for number in range(100_000)]
        return lambda run: run.embedding("a", vectors, labels=labels), lambda torch: torch.add_embedding(
            vectors, metadata=labels
        )
    if kind == "sprites":
        vectors, pictures = some(10_000, 16), noise(10_000, 28, 28, 1)
        return lambda run: run.embedding("a", vectors, images=pictures), None
    if kind == "text":
        words = "a word or two " * 1_000_000
        return lambda run: run.text("a", words), lambda torch: torch.add_text("a", words)
    if kind == "table":
        rows = [{"name": f"row {number}", "value": number / 7} for number in range(100_000)]
        return lambda run: run.table("a", rows), None
    if kind == "mesh":
        points = some(1_000_000, 3)
        return lambda run: run.mesh("a", points), lambda torch: torch.add_mesh("a", wide_torch(points[None]))
    if kind == "pr_curve":
        guess, truth = some(5_000_000), some(5_000_000) > 0.5
        return lambda run: run.pr_curve("a", truth, guess), lambda torch: torch.add_pr_curve(
            "a", truth, guess
        )
    if kind == "graph":
        graph = b"\x0a\x06\x0a\x01a\x12\x01b" * 4_000_000
        return lambda run: run.graph(graph), None
    raise SystemExit(f"no kind {kind!r}; there are: {', '.join(KINDS)}")


KINDS = (
    *("image", "image float", "images", "histogram", "tensor", "video", "audio", "embedding", "sprites"),
    *("text", "table", "mesh", "pr_curve", "graph"),
)


def wide_torch(array: np.ndarray[Any, Any]) -> Any:
    import torch

    return torch.from_numpy(array)


def waited_s(file: Any) -> float:
    """Return how long this thread was ready and had no processor."""
    file.seek(0)
    return int(file.read().split()[1]) / 1e9


def measure(kind: str) -> dict[str, float]:
    """Return seconds of one round in this process."""
    import stepscope as ss

    log, _ = of_a_kind(kind)
    with tempfile.TemporaryDirectory() as folder:
        run = ss.Run(folder, max_summary_bytes=8 << 30)
        run.image("warm", noise(200, 200, 3))
        run.text("warm", "x")
        run.flush()
        with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:  # noqa: PTH123
            begun = time.perf_counter()
            log(run)
            call = time.perf_counter() - begun
            held, longest = 0.0, 0.0
            begun = before = time.perf_counter()
            delay, others = waited_s(file), time.process_time() - time.thread_time()
            while run._log.waits_for_values and before - begun < LONGEST_S:
                now = time.perf_counter()
                theirs = time.process_time() - time.thread_time()
                if now - before > HELD_S:
                    then, delay = delay, waited_s(file)
                    hold = max(min(now - before - (delay - then), theirs - others), 0.0)
                    held, longest = held + hold, max(longest, hold)
                    now = time.perf_counter()
                before, others = now, theirs
            whole = before - begun
        run.close()
    return {
        "hold_ms": 1e3 * longest,
        "share": held / whole if whole else 0.0,
        "call_ms": 1e3 * call,
        "s": whole,
    }


def measure_peer(kind: str) -> dict[str, float]:
    """Return milliseconds of one call of torch's writer."""
    from torch.utils.tensorboard import SummaryWriter

    _, log = of_a_kind(kind)
    if log is None:
        return {"call_ms": float("nan")}
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        begun = time.perf_counter()
        log(writer)
        call = time.perf_counter() - begun
        writer.close()
    return {"call_ms": 1e3 * call}


def in_a_process(kind: str, tool: str) -> dict[str, float]:
    command = [sys.executable, __file__, kind, "--tool", tool]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer.splitlines()[-1])
    return found


def main() -> None:
    """Measure each kind in turns, and print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all without")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tool", choices=("stepscope", "torch"), help="measure one here and print JSON")
    arguments = parser.parse_args()
    if arguments.tool:
        measured = measure if arguments.tool == "stepscope" else measure_peer
        print(json.dumps(measured(arguments.kinds[0])))
        return
    print(f"load {os.getloadavg()[0]:.1f}")
    heads = ("hold ms", "worst ms", "share %", "call ms", "encoded s", "peer ms")
    print(f"{'kind':<12}" + "".join(f"{head:>11}" for head in heads))
    longest = 0.0
    for kind in arguments.kinds or KINDS:
        rounds = [in_a_process(kind, "stepscope") for _ in range(arguments.rounds)]
        peer = in_a_process(kind, "torch")["call_ms"]
        median = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        worst = max(each["hold_ms"] for each in rounds)
        longest = max(longest, median["hold_ms"])
        figures = (median["hold_ms"], worst, 100 * median["share"], median["call_ms"], median["s"], peer)
        print(f"{kind:<12}" + "".join(f"{figure:11.2f}" for figure in figures), flush=True)
    sys.exit(0 if longest <= WANTED_MS else f"{longest:.1f} ms, wanted {WANTED_MS:.0f}")


if __name__ == "__main__":
    main()
