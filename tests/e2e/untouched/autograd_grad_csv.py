# steps: 50
# series: train_mse, test_mse
# points: train_mse 0 10 20 30 40
# torch.autograd.grad and functional_call: each update makes new tensors; the log is CSV on the standard output.
import csv
import sys

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 1))
weights = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
velocity = {name: torch.zeros_like(p) for name, p in weights.items()}
x, x_test = torch.randn(64, 5), torch.randn(32, 5)
target = torch.sin
rows = csv.writer(sys.stdout)
rows.writerow(["iteration", "train_mse", "test_mse"])
for iteration in range(50):
    loss = (functional_call(net, weights, (x,)) - target(x[:, :1])).pow(2).mean()
    grads = torch.autograd.grad(loss, list(weights.values()))
    for (name, p), g in zip(list(weights.items()), grads):
        velocity[name] = 0.9 * velocity[name] + g
        weights[name] = (p - 0.05 * velocity[name]).detach().requires_grad_()
    if iteration % 10 == 0:
        with torch.no_grad():
            test = (functional_call(net, weights, (x_test,)) - target(x_test[:, :1])).pow(2).mean()
        rows.writerow([iteration, f"{loss.item():.5f}", f"{test.item():.5f}"])
        sys.stdout.flush()
