# steps: 40
# says: further models
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

models = [nn.Linear(10, 1), nn.Linear(10, 1)]
optimizers = [torch.optim.SGD(model.parameters(), 0.01) for model in models]
data = DataLoader(TensorDataset(torch.randn(160, 10), torch.randn(160, 1)), 8)
for _ in range(2):
    for at, (x, y) in enumerate(data):  # timed
        model, optimizer = models[at % 2], optimizers[at % 2]
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
