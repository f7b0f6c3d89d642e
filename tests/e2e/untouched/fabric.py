# steps: 30
# series: train_loss, val_loss
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

fabric = L.Fabric(accelerator="cpu", devices=1)
fabric.launch()
fabric.seed_everything(1)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = fabric.setup(model, optimizer)
train = DataLoader(TensorDataset(torch.randn(160, 8), torch.randn(160, 1)), batch_size=16, shuffle=True)
val = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=16)
train, val = fabric.setup_dataloaders(train, val)
for epoch in range(3):
    model.train()
    for batch_idx, (x, y) in enumerate(train):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val_loss = sum(nn.functional.mse_loss(model(x), y).item() for x, y in val) / len(val)
    fabric.print(f"Epoch {epoch}: train_loss={loss.item():.4f} val_loss={val_loss:.4f}")
