"""The wide-and-deep model by Ray Train: each worker runs what ``torch_train.py`` runs.

``python examples/birthweight/ray_train.py runs/births --workers 4`` starts a Ray cluster on this machine, or
joins the one that it is submitted to. Then ``stepscope serve runs``: one run with a rank for each worker.
"""

from __future__ import annotations

import os
from pathlib import Path

import ray
import torch
from options import parser
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

HERE = Path(__file__).resolve().parent


def worker(config: dict[str, str | int]) -> None:
    import torch_train

    torch_train.main(**config)


def main(directory: str, workers: int, steps: int, batch: int, profile: str) -> None:
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    runs = Path(directory).resolve()
    ray.init(
        os.environ.get("RAY_ADDRESS", "local"),  # a job of a cluster has its address; else one starts
        runtime_env={"env_vars": {"PYTHONPATH": paths}}, log_to_driver=False,
    )  # fmt: skip
    trainer = TorchTrainer(
        worker,
        train_loop_config={
            "directory": str(runs), "steps": steps, "batch": batch, "profile": profile,
        },
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=torch.cuda.is_available()),
        run_config=RunConfig(storage_path=f"{runs}-ray"),
    )  # fmt: skip
    trainer.fit()
    ray.shutdown()


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--workers", type=int, default=4)
    main(**vars(arguments.parse_args()))
