# steps: 60
import copy
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

logging.basicConfig(level=logging.INFO)


class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(480):
            x = torch.randn(32)
            yield x, int(x.sum() > 0)


teacher = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2)).eval()
student = nn.Sequential(nn.Linear(32, 8), nn.GELU(), nn.Linear(8, 2))
ema = copy.deepcopy(student)
optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=60)
for epoch in range(2):
    for x, y in DataLoader(Stream(), batch_size=16):  # timed
        with torch.no_grad():
            soft = teacher(x).softmax(-1)
        logits = student(x)
        loss = nn.functional.cross_entropy(logits, y)
        loss = loss + nn.functional.kl_div(logits.log_softmax(-1), soft, reduction="batchmean")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            for mean, parameter in zip(ema.parameters(), student.parameters()):
                mean.lerp_(parameter, 0.01)
        logging.info("loss=%.4f lr=%.2e", loss.item(), scheduler.get_last_lr()[0])
