# steps: 60
# series: Loss
import sys
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

num_epochs = 3
train_loader = DataLoader(TensorDataset(torch.randn(320, 20), torch.randint(0, 4, (320,))), 16, shuffle=True)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
total_step = len(train_loader)
begun = time.time()
for epoch in range(num_epochs):
    for i, (images, labels) in enumerate(train_loader):
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (i + 1) % 5 == 0:
            sys.stdout.write(
                f"\rEpoch [{epoch + 1}/{num_epochs}], Step [{i + 1}/{total_step}], Loss: {loss.item():.4f}"
            )
            sys.stdout.flush()
    print()
print(f"Training took {time.time() - begun:.1f} s")
print(f"Estimated cost: {3.5:.2f} USD")
