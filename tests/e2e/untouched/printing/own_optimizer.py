# steps: 40
# series: train_loss, val_loss
import torch
from torch import nn
from torch.optim import Optimizer


class Lion(Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.mul_(1 - group["lr"] * group["weight_decay"])
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                beta1, beta2 = group["betas"]
                update = state["exp_avg"] * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                state["exp_avg"].mul_(beta2).add_(p.grad, alpha=1 - beta2)
        return loss


def estimate_loss(model, batches):
    model.eval()
    with torch.no_grad():
        value = sum(nn.functional.mse_loss(model(x), x.flip(1)).item() for x in batches) / len(batches)
    model.train()
    return value


torch.manual_seed(0)
data = torch.randn(44, 16, 6).unbind()
model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 6))
decay = [p for p in model.parameters() if p.ndim > 1]
rest = [p for p in model.parameters() if p.ndim <= 1]
optimizer = Lion([{"params": decay, "weight_decay": 0.1}, {"params": rest}], lr=3e-4)
for it in range(41):
    if it % 10 == 0:
        print(
            f"iter {it}: train_loss {estimate_loss(model, data[:4]):.4f}, val_loss {estimate_loss(model, data[40:]):.4f}"
        )
    if it == 40:
        break
    x = data[it]
    loss = nn.functional.mse_loss(model(x), x.flip(1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
