"""A Lightning training: what the module logs, each step's time and wait for data, the learning rate.

``python examples/lightning_trainer.py [RUN_DIRECTORY]``, then ``stepscope serve runs``.
"""

from __future__ import annotations

import sys

import lightning.pytorch as pl
import torch
from torch import nn

from stepscope.integrations.lightning import StepscopeCallback, StepscopeLogger


class Model(pl.LightningModule):
    def __init__(self, width: int = 64, lr: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(16, width), nn.Tanh(), nn.Linear(width, 1))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])


def main(directory: str = "runs/lightning") -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2048, 16)
    data = torch.utils.data.TensorDataset(inputs, inputs.sin().sum(1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    unseen = torch.utils.data.DataLoader(data, batch_size=256)

    trainer = pl.Trainer(
        logger=StepscopeLogger(directory),
        callbacks=[StepscopeCallback()],
        max_epochs=5,
        log_every_n_steps=1,
        accelerator="cpu",
        enable_progress_bar=False,
    )
    trainer.fit(Model(), loader, unseen)


if __name__ == "__main__":
    main(*sys.argv[1:])
