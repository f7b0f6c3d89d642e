# steps: 40
# series: train_loss, acc
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn

console = Console()
x = torch.randn(512, 8)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
columns = "[progress.description]{task.description}", BarColumn(), TextColumn("loss {task.fields[loss]:.4f}")
with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
    for epoch in range(5):
        task = progress.add_task(f"Epoch {epoch}", total=8, loss=float("nan"))
        correct = 0
        total = 0.0
        for xb, yb in zip(x.split(64), y.split(64), strict=True):
            out = model(xb)
            loss = nn.functional.cross_entropy(out, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
            correct += (out.argmax(1) == yb).sum().item()
            progress.update(task, advance=1, loss=loss.item())
        console.print(
            f"[bold]Epoch {epoch}[/bold]: train loss [cyan]{total / 512:.4f}[/cyan], acc {correct / 512:.3f}"
        )
