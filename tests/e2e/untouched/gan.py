# steps: 80
# says: further models
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ds = TensorDataset(torch.randn(320, 10))
D = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
od = torch.optim.Adam(D.parameters())
og = torch.optim.Adam(G.parameters())
bce = nn.BCEWithLogitsLoss()
for epoch in range(4):
    for (x,) in DataLoader(ds, batch_size=16):  # timed
        fake = G(torch.randn(len(x), 4))
        ld = bce(D(x), torch.ones(len(x), 1)) + bce(D(fake.detach()), torch.zeros(len(x), 1))
        od.zero_grad()
        ld.backward()
        od.step()
        lg = bce(D(fake), torch.ones(len(x), 1))
        og.zero_grad()
        lg.backward()
        og.step()
