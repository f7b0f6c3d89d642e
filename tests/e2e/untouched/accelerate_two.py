# steps: 20
# ranks: 2
# once: ends the process group
# module: accelerate.commands.launch --multi_gpu --num_processes=2 --num_machines=1
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
dataset = TensorDataset(torch.randn(640, 10), torch.randn(640, 1))
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(dataset, batch_size=8))
for inputs, targets in loader:  # timed
    with accelerator.accumulate(model):
        loss = nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
accelerator.end_training()
