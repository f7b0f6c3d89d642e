# steps: 60
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ds = TensorDataset(torch.randn(160, 10), torch.randn(160, 1))
model = nn.Linear(10, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
n = 0
for epoch in range(3):
    for x, y in DataLoader(ds, batch_size=8, num_workers=2):  # timed
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x).float(), y)
        opt.zero_grad()
        if n % 7 == 3:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        n += 1
print(n)
