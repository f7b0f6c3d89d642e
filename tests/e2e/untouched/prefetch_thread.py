# steps: 40
# says: batches come from no loader that is known here
import queue
import threading

import torch
from torch import nn

batches = queue.Queue(maxsize=4)


def produce():
    for _ in range(40):
        batches.put((torch.randn(16, 10), torch.randn(16, 1)))
    batches.put(None)


threading.Thread(target=produce, daemon=True).start()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters())
while (batch := batches.get()) is not None:
    x, y = batch
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
