"""Programs with other projects' own loggers, unchanged: ``logger_programs.py LOGGER DIRECTORY``.

Run as they are they write with the original; under ``python -m stepscope.compat`` with the stand-in.
"""

import os
import sys
import warnings
from pathlib import Path

import numpy as np

HYPER = {"lr": 0.1, "layers": 2, "name": "adam", "bias": True}


def lightning(directory):
    """A fit with Lightning's TensorBoardLogger, with hyper-parameters, a metric and a graph."""
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.loggers import TensorBoardLogger

    class Line(LightningModule):
        def __init__(self, lr=0.1, layers=2, name="adam", bias=True):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x):
            return self.layer(x)

        def training_step(self, batch, index):
            loss = self(batch).square().mean()
            self.log("train/loss", loss)
            self.logger.experiment.add_histogram("weight", self.layer.weight, self.global_step)
            self.logger.experiment.add_image("picture", torch.full((3, 4, 5), 0.5), self.global_step)
            return loss

        def validation_step(self, batch, index):
            self.log("hp_metric", self(batch).square().mean())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), self.hparams.lr)

    torch.manual_seed(0)
    data = torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=4)
    logger = TensorBoardLogger(directory, name="fit", version=0)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=2,
        log_every_n_steps=1,
        logger=logger,
        use_distributed_sampler=False,
        **quiet,
    )
    trainer.fit(Line(**HYPER), data, data)
    logger.log_metrics({"after": 1.5}, 9)
    logger.log_hyperparams(HYPER, {"hp/final": 0.25})
    logger.save()
    logger.finalize("success")


def ray(directory):
    """Ray Tune's TBXLoggerCallback, told what Tune tells it of two trials."""
    from ray.tune.logger import TBXLoggerCallback

    class Trial:
        def __init__(self, number):
            self.local_path = str(Path(directory) / f"trial_{number}")
            self.config = {**HYPER, "nested": {"width": np.int64(8), "rate": np.float32(0.5)}, "none": None}
            self.evaluated_params = {**self.config, "odd": [1], "left out": object()}

        def init_local_path(self):
            Path(self.local_path).mkdir(exist_ok=True)

    callback = TBXLoggerCallback()
    for trial in map(Trial, range(2)):
        callback.log_trial_start(trial)
        for step in range(1, 4):
            result = {
                "training_iteration": step,
                "timesteps_total": 10 * step,
                "loss": 1 / step,
                "done": step == 3,
                "info": {"accuracy": np.float32(0.25 * step), "count": np.int64(step)},
                "weights": np.arange(5.0) * step,
                "empty": [],
                "image": np.full((3, 4, 6), 0.25 * step),
                "images": np.full((2, 3, 4, 6), 0.25 * step),
                "words": "not a number",
                "nan": float("nan"),
                "time_total_s": 1.0,
                "config": trial.config,
            }
            callback.log_trial_result(step, trial, result)
        callback.log_trial_end(trial)


def accelerate(directory):
    """Accelerate's tracker, by the Accelerator."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=directory)
    accelerator.init_trackers("project", config=HYPER, init_kwargs={"tensorboard": {"flush_secs": 60}})
    for step in range(3):
        accelerator.log(
            {"loss": 1 / (step + 1), "count": step, "say": f"*{step}*", "both": {"a": 1, "b": 0.5}}, step
        )
    tracker = accelerator.get_tracker("tensorboard")
    tracker.log_images({"pictures": np.full((2, 3, 4, 5), 0.5)}, 2)
    tracker.tracker.add_scalar("direct", 3.0, 1)
    accelerator.end_training()


def transformers(directory):
    """A Trainer with its TensorBoardCallback."""
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

    class Model(PreTrainedModel):
        config_class = PretrainedConfig

        def __init__(self, config):
            super().__init__(config)
            self.layer = torch.nn.Linear(4, 1)
            self.post_init()

        def forward(self, x, labels=None):
            found = self.layer(x).squeeze(-1)
            return {"loss": (found - labels).square().mean(), "logits": found}

    torch.manual_seed(0)
    data = [{"x": torch.ones(4) * k, "labels": torch.tensor(float(k))} for k in range(8)]
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(Path(directory) / "logs")
    arguments = TrainingArguments(
        output_dir=str(Path(directory) / "out"), max_steps=4, per_device_train_batch_size=2, logging_steps=1,
        report_to=["tensorboard"], use_cpu=True, save_strategy="no", disable_tqdm=True, eval_strategy="steps",
        eval_steps=2, seed=1,
    )  # fmt: skip
    Trainer(Model(PretrainedConfig()), arguments, train_dataset=data, eval_dataset=data).train()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    globals()[sys.argv[1]](sys.argv[2])
