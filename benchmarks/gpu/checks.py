"""The checks in the order of their value: when time runs out, the last ones lack a line."""

from __future__ import annotations

from typing import NamedTuple


class Check(NamedTuple):
    """What a check measures, and the seconds that it may take."""

    text: str
    secs: float


CHECKS = {
    "scalars": Check("a loss on the device that is logged in every step", 30),
    "stages": Check("stages of a step by events, against the profiler's times", 25),
    "capture": Check("steps between captures, and the cost of captures", 40),
    "advice": Check("planted causes: the first finding, and its gain against the measured one", 90),
    "gradients": Check("the cost and the exactness of gradient statistics", 50),
    "memory": Check("memory snapshots, and the snapshot of a device that ran out of memory", 25),
    "roofline": Check("model FLOPs against formulas, and peaks against measured ones", 30),
    "own_cost": Check("a run with everything on against one with nothing", 40),
    "wrapped": Check("gradient norms under a scaler, FSDP2, torch.compile and CUDA graphs", 45),
    "system": Check("series of the driver against nvidia-smi", 20),
    "jax": Check("captures and planted causes of JAX", 50),
    "nccl": Check("the flight recorder of a job that hangs", 30),
}
