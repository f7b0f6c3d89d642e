# steps: 20
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

a = Accelerator(gradient_accumulation_steps=2, cpu=True)
ds = TensorDataset(torch.randn(160, 10), torch.randn(160, 1))
m = nn.Linear(10, 1)
o = torch.optim.SGD(m.parameters(), 0.01)
m, o, dl = a.prepare(m, o, DataLoader(ds, batch_size=8))
for e in range(2):
    for x, y in dl:  # timed
        with a.accumulate(m):
            loss = ((m(x) - y) ** 2).mean()
            a.backward(loss)
            o.step()
            o.zero_grad()
