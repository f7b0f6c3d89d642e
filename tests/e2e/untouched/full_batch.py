# steps: 5
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = DataLoader(TensorDataset(torch.randn(160, 10), torch.randn(160, 1)), batch_size=16)
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(5):
    optimizer.zero_grad()
    for x, y in data:
        (nn.functional.mse_loss(model(x), y) / len(data)).backward()
    optimizer.step()
    with torch.no_grad():
        sum(nn.functional.mse_loss(model(x), y) for x, y in data)
