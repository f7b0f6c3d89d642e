# steps: 60
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(10, 1)

    def training_step(self, b, i):
        x, y = b
        loss = ((self.l(x) - y) ** 2).mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, b, i):
        x, y = b
        self.log("val_loss", ((self.l(x) - y) ** 2).mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


ds = TensorDataset(torch.randn(160, 10), torch.randn(160, 1))
t = L.Trainer(
    max_epochs=3,
    enable_progress_bar=False,
    logger=False,
    enable_checkpointing=False,
    accelerator="cpu",
    log_every_n_steps=5,
)
loader = DataLoader(ds, batch_size=8)
# twin: loader = timed(loader)
t.fit(Net(), loader, DataLoader(ds, batch_size=16))
