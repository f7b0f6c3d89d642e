# steps: 60
# ranks: 2
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def work(rank, size, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    data = TensorDataset(torch.randn(320, 10), torch.randn(320, 1))
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(2, os.path.abspath("store")), nprocs=2)
