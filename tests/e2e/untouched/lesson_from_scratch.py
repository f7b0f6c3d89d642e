# steps: 48
# series: epoch_loss, valid_acc
# points: valid_acc 15 31 47
# As in courses that build the optimizer last: parameters are a list, and `p.data` is changed under `p.grad`.
import math

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(320, 12)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
train_dl = DataLoader(TensorDataset(x[:256], y[:256]), batch_size=16, shuffle=True)
valid_x, valid_y = x[256:], y[256:]
w1 = (torch.randn(12, 32) / math.sqrt(12)).requires_grad_()
b1 = torch.zeros(32, requires_grad=True)
w2 = (torch.randn(32, 3) / math.sqrt(32)).requires_grad_()
b2 = torch.zeros(3, requires_grad=True)
params = [w1, b1, w2, b2]
lr = 0.3


def model(xb):
    return torch.relu(xb @ w1 + b1) @ w2 + b2


for epoch in range(3):
    total = 0.0
    for xb, yb in train_dl:
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        for p in params:
            p.data -= p.grad * lr
            p.grad.zero_()
        total += loss.item()
    with torch.no_grad():
        acc = (model(valid_x).argmax(1) == valid_y).float().mean()
    print(f"epoch {epoch} | epoch_loss {total / len(train_dl):.4f} | valid_acc {acc:.3f}")
