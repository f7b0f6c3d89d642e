# steps: 24
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ds = TensorDataset(torch.randn(256, 10), torch.randn(256, 1))
model = nn.Linear(10, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
accum = 4
for epoch in range(3):
    for i, (x, y) in enumerate(DataLoader(ds, batch_size=8)):  # timed
        loss = ((model(x) - y) ** 2).mean() / accum
        loss.backward()
        if (i + 1) % accum == 0:
            opt.step()
            opt.zero_grad()
