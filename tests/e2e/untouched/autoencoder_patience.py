# steps: 56
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

train_set, val_set = random_split(TensorDataset(torch.randn(288, 20)), [224, 64])
train_loader = DataLoader(train_set, batch_size=16, shuffle=True)
val_loader = DataLoader(val_set, batch_size=32)


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 4), nn.Tanh())
        self.decoder = nn.Linear(4, 20)

    def forward(self, x):
        return self.decoder(self.encoder(x))


model = AutoEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
best, waited = float("inf"), 0
for epoch in range(4):
    model.train()
    for (x,) in train_loader:  # timed
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val_loss = sum(nn.functional.mse_loss(model(x), x).item() for (x,) in val_loader) / len(val_loader)
    scheduler.step(val_loss)
    print(f"epoch {epoch}: loss {loss.item():.4f}, val loss {val_loss:.4f}")
    if val_loss < best:
        best, waited = val_loss, 0
        torch.save(model.state_dict(), "best.pt")
    else:
        waited += 1
    if waited > 9:
        break
