"""What the stages that every rank records cost a training step of PyTorch, in time and bytes.

``python benchmarks/ranks_stages.py [ROUNDS]``: a model so small that its step is mostly hooks, trained in
blocks with the marks of stages and without, in turn; what the marks add to a step, in time of the thread and
as the median over pairs of blocks, is put beside a step of 10 ms. StageFrontier (arXiv 2606.06751), the peer,
states less than 0.2 % of a job's throughput. Bytes are those of a row as it is written once a second at that
pace. Events on a device are not in it: these have a budget of their own, 0.1 % of the steps, beyond which
fewer steps are timed.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch

from stepscope.events.framing import frame
from stepscope.events.telemetry import ROWS, TIMED, TelemetryRow, encoded
from stepscope.integrations.torch.stages import StageMarks
from stepscope.kernels.steps import Stages, Steps

STEP_S, BOUND, MOST_BYTES = 0.010, 0.002, 40
STEPS, ROUNDS = 200, 100


def main() -> int:
    """Measure, and return 1 where a bound is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    torch.set_num_threads(1)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    batch = torch.randn(1, 2)
    added = []
    for number in range(rounds + 1):
        order = (True, False) if number % 2 else (False, True)
        taken = {marked: block(model, optimizer, batch, marked) for marked in order}
        if number:  # the first warms up
            added.append(taken[True] - taken[False])
    cost = statistics.median(added)
    spread = statistics.quantiles(added, n=4)
    print(f"load {Path('/proc/loadavg').read_text().split()[0]}")
    low, high = (1e6 * each for each in (spread[0], spread[2]))
    print(f"stages add {1e6 * cost:.2f} us to a step (quartiles {low:.2f} and {high:.2f})")
    print(f"of a step of 10 ms {100 * cost / STEP_S:.3f} % (bound {100 * BOUND} %, StageFrontier's)")
    sizes = {name: bytes_of(kind) for name, kind in (("host", ROWS), ("device", TIMED))}
    print(
        f"a step and rank takes {sizes['host']:.1f} bytes, {sizes['device']:.1f} where a device has timed it "
        f"(bound {MOST_BYTES})"
    )
    return int(cost > BOUND * STEP_S or max(sizes.values()) > MOST_BYTES)


def block(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor, marked: bool
) -> float:
    """Return the seconds of a step, with the marks of stages or without."""
    steps = Steps()
    marks = None
    if marked:
        stages = steps.stages = Stages()
        stages.keep = True
        marks = StageMarks(stages, model, [optimizer])
    begun = time.thread_time()
    for _ in range(STEPS):
        steps.step()
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    seconds = time.thread_time() - begun
    if marks is not None:
        marks.remove()
        assert len(steps.stages.take()) == STEPS - 1  # type: ignore[union-attr]
    return seconds / STEPS


def bytes_of(kind: int) -> float:
    """Return the bytes of a step of 10 ms with four stages."""
    count = round(1 / STEP_S)
    rows = [
        (
            step,
            TelemetryRow(
                1e9 + step, STEP_S, 0.001, spent=(0.001, *[0.002] * 4), completed=(0.0, 0.0, *[0.002] * 4),
                ended=True,
            ),
        )
        for step in range(count)
    ]  # fmt: skip
    return len(frame(encoded(kind, rows, (1e9, 1e9), 4))) / count


if __name__ == "__main__":
    sys.exit(main())
