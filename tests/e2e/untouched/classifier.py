# steps: 100
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
ds = TensorDataset(torch.randn(640, 20), torch.randint(0, 2, (640,)))
loader = DataLoader(ds, batch_size=32, shuffle=True)
val = DataLoader(ds, batch_size=64)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(5):
    model.train()
    for i, (x, y) in enumerate(loader):  # timed
        loss = loss_fn(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"epoch {epoch} step {i} loss {loss.item():.4f}")
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in val:
            correct += (model(x).argmax(1) == y).sum().item()
    print(f"val accuracy: {correct / 640:.3f}")
