# steps: 20
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
params = {name: p.detach() for name, p in model.named_parameters()}


def compute_loss(params, x, y):
    return nn.functional.mse_loss(functional_call(model, params, (x.unsqueeze(0),)), y.unsqueeze(0))


per_sample = vmap(grad_and_value(compute_loss), in_dims=(None, 0, 0))
x = torch.randn(32, 6)
y = x.sum(1, keepdim=True)
for step in range(20):
    grads, losses = per_sample(params, x, y)
    with torch.no_grad():
        params = {name: p - 0.05 * grads[name].mean(0) for name, p in params.items()}
    if step % 5 == 0:
        print(f"step {step:3d}  loss {losses.mean():.4f}")
