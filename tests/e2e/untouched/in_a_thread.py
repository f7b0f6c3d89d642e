# steps: 20
# once: the training of a second thread is not recorded
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset


def train():
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for (x,) in DataLoader(TensorDataset(torch.randn(160, 10)), 8):  # timed
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()


thread = threading.Thread(target=train)
thread.start()
thread.join()
