# steps: 25
# module: IPython --no-banner --no-confirm-exit
# series: loss, test_loss
import torch
from torch import nn


class ScheduleFreeSGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta, "k": 0, "train_mode": True})

    @torch.no_grad()
    def _swap(self, train):
        for group in self.param_groups:
            if group["train_mode"] == train:
                continue
            for p in group["params"]:
                if "z" in self.state[p]:
                    weight = 1 - group["beta"] if train else 1 - 1 / group["beta"]
                    p.lerp_(self.state[p]["z"], weight)
            group["train_mode"] = train

    def train(self):
        self._swap(True)

    def eval(self):
        self._swap(False)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            c = 1 / (group["k"] + 1)
            for p in group["params"]:
                if p.grad is None:
                    continue
                z = self.state[p].setdefault("z", p.clone())
                p.lerp_(z, c).add_(p.grad, alpha=group["lr"] * (group["beta"] * (1 - c) - 1))
                z.sub_(p.grad, alpha=group["lr"])
            group["k"] += 1


model = nn.Linear(4, 1)
optimizer = ScheduleFreeSGD(model.parameters())
for epoch in range(5):
    model.train()
    optimizer.train()
    for batch in torch.randn(5, 16, 4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    model.eval()
    optimizer.eval()
    with torch.no_grad():
        x = torch.randn(64, 4)
        test_loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    print("epoch:", epoch, "loss:", loss.item(), "test_loss:", test_loss.item())
