# steps: 25
# series: meta-loss
# MAML by hand: gradients of an inner step, one optimizer outside.
import torch
from torch import nn


class Sine(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))

    def forward(self, x, params=None):
        if params is None:
            return self.net(x)
        return torch.func.functional_call(self, params, (x,))


def sample_task():
    amplitude, phase = 0.1 + 4.9 * torch.rand(1), torch.pi * torch.rand(1)

    def draw(k=10):
        x = 10 * torch.rand(k, 1) - 5
        return x, amplitude * torch.sin(x - phase)

    return draw


model = Sine()
meta_opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for iteration in range(25):
    meta_loss = 0.0
    for task in (sample_task() for _ in range(4)):
        params = dict(model.named_parameters())
        for _ in range(2):
            x, y = task()
            inner = nn.functional.mse_loss(model(x, params), y)
            grads = torch.autograd.grad(inner, list(params.values()), create_graph=True)
            params = {name: p - 0.01 * g for (name, p), g in zip(params.items(), grads)}
        x, y = task()
        meta_loss = meta_loss + nn.functional.mse_loss(model(x, params), y) / 4
    meta_opt.zero_grad()
    meta_loss.backward()
    meta_opt.step()
    if iteration % 5 == 0:
        print(f"Iteration {iteration:>5} | meta-loss {meta_loss.item():.4f}")
