# steps: 36
# series: loss, lr
import torch
from torch.utils.data import DataLoader, TensorDataset


def pretrain(model, loader, optimizer):
    for (x,) in loader:
        optimizer.zero_grad()
        (model(x) - x).pow(2).mean().backward()
        optimizer.step()


def train(model, loader, optimizer, epochs):
    from tqdm.auto import tqdm, trange

    for _ in trange(epochs, desc="Epochs"):
        bar = tqdm(loader, leave=False)
        for (x,) in bar:
            optimizer.zero_grad()
            loss = (model(x) - x).pow(2).mean()
            loss.backward()
            optimizer.step()
            bar.set_postfix(loss=loss.item(), lr=optimizer.param_groups[0]["lr"])


model = torch.nn.Sequential(torch.nn.Linear(12, 4), torch.nn.GELU(), torch.nn.Linear(4, 12))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(96, 12)), batch_size=8)
pretrain(model, loader, optimizer)
train(model, loader, optimizer, 2)
