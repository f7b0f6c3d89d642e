# steps: 60
# series: train_loss, valid_loss, accuracy
# Rows of a table under a heading, as fastai and skorch print them.
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(256, 10)
y = (x[:, 0] > 0).long()
train, valid = TensorDataset(x[:192], y[:192]), TensorDataset(x[192:], y[192:])
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
loss_func = nn.CrossEntropyLoss()
print("epoch     train_loss  valid_loss  accuracy  time")
for epoch in range(5):
    begun, total = time.time(), 0.0
    model.train()
    for xb, yb in DataLoader(train, batch_size=16, shuffle=True):  # timed
        loss = loss_func(model(xb), yb)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        outputs = [(model(xb), yb) for xb, yb in DataLoader(valid, batch_size=32)]
        valid_loss = sum(loss_func(o, t).item() for o, t in outputs) / len(outputs)
        accuracy = sum((o.argmax(1) == t).sum().item() for o, t in outputs) / len(valid)
    print(
        f"{epoch:<9} {total / 12:<11.6f} {valid_loss:<11.6f} {accuracy:<9.6f} 00:{int(time.time() - begun):02d}"
    )
