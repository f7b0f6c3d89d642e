# steps: 32
# series: train_loss, val_loss
# Cells of a notebook, written out and run one by one in one namespace; the log is a table that is drawn at the end of each epoch.
import pathlib
import runpy
import tempfile

CELLS = [
    """
import torch
from torch import nn
torch.manual_seed(0)
x, y = torch.randn(160, 6), torch.randn(160, 1)
model = nn.Linear(6, 1)
""",
    """
class ScaledSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad / (p.grad.norm() + 1e-8), alpha=group["lr"])
optimizer = ScaledSGD(model.parameters(), 0.02)
""",
    """
print("+-------+------------+----------+")
print("| epoch | train_loss | val_loss |")
print("+-------+------------+----------+")
for epoch in range(4):
    total = 0.0
    for start in range(0, 128, 16):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[start : start + 16]), y[start : start + 16])
        loss.backward()
        optimizer.step()
        total += loss.item() / 8
    with torch.no_grad():
        val = nn.functional.mse_loss(model(x[128:]), y[128:]).item()
    print(f"| {epoch:5d} | {total:10.4f} | {val:8.4f} |")
    print("+-------+------------+----------+")
""",
]
names = {}
with tempfile.TemporaryDirectory() as folder:
    for number, cell in enumerate(CELLS):
        path = pathlib.Path(folder, f"cell_{number}.py")
        path.write_text(cell)
        names = {
            k: v
            for k, v in runpy.run_path(str(path), init_globals=names, run_name="cells").items()
            if k[0] != "_"
        }
