# steps: 12
# series: loss, lr
import torch
from torch.utils.data import DataLoader, TensorDataset

accum = 4
device = "cuda" if torch.cuda.is_available() else "cpu"
dataset = TensorDataset(torch.randn(384, 10), torch.randn(384, 1))
dataloader = DataLoader(dataset, batch_size=8, shuffle=True)
net = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
running = 0.0
for it, (xb, yb) in enumerate(dataloader):
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = torch.nn.functional.mse_loss(net(xb.to(device)), yb.to(device)) / accum
    scaler.scale(loss).backward()
    running += loss.item()
    if (it + 1) % accum == 0:
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        print({"iter": it + 1, "loss": round(running, 4), "lr": opt.param_groups[0]["lr"]})
        running = 0.0
