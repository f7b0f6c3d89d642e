# steps: 40
# series: d_loss, g_loss
# Two networks in turns, updated under torch.no_grad(), with a moving average of the generator.
import copy

import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
ema = copy.deepcopy(G)
bce = nn.functional.binary_cross_entropy_with_logits


def descend(module, lr):
    with torch.no_grad():
        for p in module.parameters():
            p -= lr * p.grad
            p.grad.zero_()


real_data = torch.randn(640, 2) * 0.5 + 2
for it in range(40):
    real = real_data[it * 16 : it * 16 + 16]
    fake = G(torch.randn(16, 4))
    d_loss = bce(D(real), torch.ones(16, 1)) + bce(D(fake.detach()), torch.zeros(16, 1))
    d_loss.backward()
    descend(D, 0.05)
    g_loss = bce(D(fake), torch.ones(16, 1))
    g_loss.backward()
    descend(G, 0.05)
    D.zero_grad()
    with torch.no_grad():
        for average, p in zip(ema.parameters(), G.parameters()):
            average.mul_(0.99).add_(p, alpha=0.01)
    if it % 10 == 9:
        print({"iter": it, "d_loss": round(d_loss.item(), 4), "g_loss": round(g_loss.item(), 4)})
