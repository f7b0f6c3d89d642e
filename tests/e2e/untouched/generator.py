# steps: 30
# says: batches come from no loader that is known here
import torch
from torch import nn


def batches(number):
    for _ in range(number):
        yield torch.randn(16, 10), torch.randint(0, 3, (16,))


net = nn.Linear(10, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for epoch in range(3):
    for x, y in batches(10):
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
