# steps: 20
# module: accelerate.commands.launch --cpu --num_processes=1 --num_machines=1
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
dataset = TensorDataset(torch.randn(160, 10), torch.randn(160, 1))
model = nn.Linear(10, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(dataset, batch_size=8))
for inputs, targets in loader:  # timed
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    accelerator.backward(loss)
    optimizer.step()
accelerator.end_training()
