# steps: 40
# starts: the compiler is observed from its import on
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = DataLoader(TensorDataset(torch.randn(320, 10), torch.randn(320, 1)), batch_size=16)
model = torch.compile(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1)), backend="eager")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    for x, y in data:  # timed
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
