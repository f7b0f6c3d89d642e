# steps: 30
# series: loss
# As in PyTorch's tutorial: an optimizer per parameter steps while the backward pass runs.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer_dict = {p: torch.optim.Adam([p], foreach=False) for p in model.parameters()}


def optimizer_hook(parameter) -> None:
    optimizer_dict[parameter].step()
    optimizer_dict[parameter].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(optimizer_hook)

loader = DataLoader(TensorDataset(torch.randn(240, 8), torch.randn(240, 1)), batch_size=16)
step = 0
for epoch in range(2):
    for x, y in loader:  # timed
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        step += 1
        if step % 5 == 0:
            print(f"step: {step}\tloss: {loss.item():.4f}")
