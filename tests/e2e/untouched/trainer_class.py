# steps: 50
import torch
from torch import nn


class Batches:
    def __iter__(self):
        for _ in range(25):
            yield torch.randn(16, 10)


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        self.optimizer = torch.optim.RMSprop(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 10)

    def fit(self, epochs):
        for _ in range(epochs):
            for x in Batches():
                self.step(x)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = (self.model(x) - x.mean(1, keepdim=True)).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()


Trainer().fit(2)
