# steps: 8
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, held_out = torch.randn(320, 10), torch.randn(64, 10)
m = nn.Linear(10, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.01)
for i, (batch,) in enumerate(DataLoader(TensorDataset(x), batch_size=16)):
    opt.zero_grad()
    m(batch).pow(2).mean().backward()
    opt.step()
    if i == 7:
        break
m.eval()
with torch.no_grad():
    for _ in range(200):
        loss = m(held_out).pow(2).mean()
print(f"val loss {loss:.3f}")
m.train()
