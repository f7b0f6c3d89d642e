"""What is left of a job of one rank whose step never ends: stacks, and the flight recorder of NCCL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import stepscope as ss
from gpu.claims import Claim
from gpu.device import Device

CLAIMS = (
    Claim("A hang leaves the stacks of the rank.", "stacks", least=1),
    Claim("A hang leaves the flight recorder's contents, which can be read.", "collectives", least=1),
    Claim("The stack names the line that hangs.", "line", least=1),
)
PROGRAM = """
import sys, time
import torch
import torch.distributed as dist
import stepscope as ss

place, kind = sys.argv[1:]
store = dist.HashStore()
dist.init_process_group("nccl" if kind == "cuda" else "gloo", store=store, rank=0, world_size=1)
x = torch.ones(1024, device=kind)
with ss.Run(place, rank=0, world_size=2, hooks=[ss.HangHook(timeout_s=2.0)]) as run:
    for step in run.steps(range(12)):
        dist.all_reduce(x)
        if step == 11:
            time.sleep(600)  # planted
dist.destroy_process_group()
"""


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Run a job that hangs until it has left its stacks, end it, and read what it left."""
    program, ranks = place / "hangs.py", place / "run" / "ranks"
    program.write_text(PROGRAM)
    variables = {"TORCH_FR_BUFFER_SIZE": "200", "TORCH_NCCL_TRACE_BUFFER_SIZE": "200", "NCCL_DEBUG": "WARN"}
    command = [sys.executable, str(program), str(place / "run"), device.place]
    with (place / "job.log").open("w") as log:
        job = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | variables)
        try:
            while not list(ranks.glob("hang-*.json")) and job.poll() is None and device.left > 3:
                time.sleep(0.2)
            ended = job.poll()
        finally:
            job.kill()
            job.wait()
    if ended is not None:
        raise RuntimeError(f"the job ended with {ended}: {(place / 'job.log').read_text()[-400:]}")
    hangs = [json.loads(path.read_text()) for path in ranks.glob("hang-*.json")]
    dumps = [path for path in ranks.glob("flight-recorder*") if path.is_file()]
    collectives = sum(len(ss.load_trace(path, cache=False).kind) for path in dumps)
    return {
        "stacks": len(hangs),
        "line": int(any("hangs.py" in json.dumps(one) for one in hangs)),
        "dumps": len(dumps),
        "collectives": collectives if device.is_gpu else None,
    }
