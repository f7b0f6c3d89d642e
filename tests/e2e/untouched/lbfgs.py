# steps: 15
import torch
from torch import nn

x = torch.linspace(0, 1, 50)[:, None]
y = torch.sin(6 * x)
m = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.LBFGS(m.parameters(), max_iter=5)


def closure():
    opt.zero_grad()
    l = ((m(x) - y) ** 2).mean()
    l.backward()
    return l


for i in range(15):
    opt.step(closure)
