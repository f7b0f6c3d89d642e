# steps: 40
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(320, 10), torch.randn(320, 1))
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for epoch in range(2):
    for i, (inputs, targets) in enumerate(DataLoader(data, batch_size=16, shuffle=True)):  # timed
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        if i % 7 == 3:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
