"""Records one small run with each of W&B, MLflow (files, database) and trackio.

``python trackers.py FOLDER`` with ``wandb``, ``mlflow-skinny``, ``sqlalchemy``, ``alembic`` and ``trackio``
installed; it packs the files as the tests read them.
"""

import lzma
import math
import os
import shutil
import sys
from pathlib import Path

STEPS = 12


def values(step: int) -> dict[str, float]:
    """Return what is recorded at a step: the accuracy is NaN once."""
    accuracy = math.nan if step == 5 else 1 - math.exp(-step / 4)
    return {"train/loss": math.exp(-step / 4), "val/acc": accuracy}


def wandb_file(folder: Path) -> None:
    import wandb

    config = {"lr": 0.1, "model": {"width": 64}}
    run = wandb.init(
        project="digits",
        mode="offline",
        config=config,
        name="mlp",
        dir=folder,
        settings=wandb.Settings(x_disable_stats=True),
    )
    for step in range(STEPS):
        run.log(values(step))
    run.finish()
    wandb.teardown()  # its own process writes the file
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    pack(file, folder / "mlp.wandb.xz")
    shutil.rmtree(folder / "wandb")


def mlflow_store(folder: Path, uri: str) -> None:
    import mlflow

    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("digits")
    with mlflow.start_run(run_name="mlp"):
        mlflow.log_params({"lr": 0.1, "width": 64})
        for step in range(STEPS):
            mlflow.log_metrics(values(step), step=step)


def trackio_base(folder: Path) -> None:
    os.environ["TRACKIO_DIR"] = str(folder / "trackio")
    import trackio

    trackio.init(project="digits", name="mlp", config={"lr": 0.1, "width": 64})
    for step in range(STEPS):
        trackio.log(values(step))
    trackio.finish()
    pack(folder / "trackio" / "digits.db", folder / "trackio.db.xz")
    shutil.rmtree(folder / "trackio")


def pack(file: Path, packed: Path) -> None:
    packed.write_bytes(lzma.compress(file.read_bytes(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    to = Path(sys.argv[1]).absolute()
    to.mkdir(parents=True, exist_ok=True)
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    wandb_file(to)
    mlflow_store(to, f"file:{to / 'mlruns'}")
    mlflow_store(to, f"sqlite:///{to / 'mlflow.db'}")
    pack(to / "mlflow.db", to / "mlflow.db.xz")
    (to / "mlflow.db").unlink()
    trackio_base(to)
