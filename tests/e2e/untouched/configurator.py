# steps: 60
# series: loss, lr
# A runner that executes its configuration, scales by hand, and tells of itself in a bar on stderr.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

epochs, width, learning_rate, clip = 1, 8, 1e-3, 0.0
exec("epochs = 3\nwidth = 24\nlearning_rate = 5e-3\nclip = 1.0\n")
config = {key: value for key, value in globals().items() if isinstance(value, (int, float)) and key[0] != "_"}

torch.manual_seed(1)
loader = DataLoader(TensorDataset(torch.randn(320, 6), torch.randn(320, 2)), batch_size=16, drop_last=True)
model = nn.Sequential(nn.Linear(6, width), nn.GELU(), nn.Linear(width, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=epochs * len(loader))
scale = 1024.0
for epoch in range(epochs):
    with tqdm(total=len(loader), desc=f"Epoch {epoch + 1}/{epochs}", mininterval=0) as bar:
        for x, y in loader:  # timed
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x).float(), y)
            optimizer.zero_grad(set_to_none=True)
            (loss * scale).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p.grad.div_(scale)
                finite = all(torch.isfinite(p.grad).all() for p in model.parameters())
            if finite:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                schedule.step()
            else:
                scale /= 2
            bar.set_postfix(loss=f"{loss.item():.3f}", lr=f"{schedule.get_last_lr()[0]:.2e}")
            bar.update()
