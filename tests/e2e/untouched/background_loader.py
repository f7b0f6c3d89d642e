# steps: 40
# series: loss, acc1
# As in code for re-identification: a loader whose iterator is read ahead by a thread; iterations, not epochs.
import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(0)
        for _ in range(120):
            x = torch.randn(12, generator=generator)
            yield x, int(x[0] > 0)


class BackgroundGenerator(threading.Thread):
    def __init__(self, generator, max_prefetch=4):
        super().__init__(daemon=True)
        self.queue = queue.Queue(max_prefetch)
        self.generator = generator
        self.start()

    def run(self):
        for item in self.generator:
            self.queue.put(item)
        self.queue.put(None)

    def __iter__(self):
        return self

    def __next__(self):
        item = self.queue.get()
        if item is None:
            raise StopIteration
        return item


class DataLoaderX(DataLoader):
    def __iter__(self):
        return BackgroundGenerator(super().__iter__())


loader = DataLoaderX(Stream(), batch_size=8)
model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40)
iterator, total = iter(loader), 40
for it in range(1, total + 1):
    try:
        images, target = next(iterator)
    except StopIteration:
        iterator = iter(loader)
        images, target = next(iterator)
    output = model(images)
    loss = nn.functional.cross_entropy(output, target, label_smoothing=0.1)
    acc1 = (output.argmax(1) == target).float().mean() * 100
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    scheduler.step()
    if it % 8 == 0:
        print(f"Iter [{it}/{total}]  loss: {loss:.3f}  acc1: {acc1:.2f}")
