# steps: 40
# series: lr, loss, loss_ce, loss_bbox, class_error
# In the style of the logger of torchvision's references and of DETR.
import datetime
import time
from collections import defaultdict, deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SmoothedValue:
    def __init__(self, window_size=20, fmt="{median:.4f} ({global_avg:.4f})"):
        self.deque, self.total, self.count, self.fmt = deque(maxlen=window_size), 0.0, 0, fmt

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    def __str__(self):
        values = torch.tensor(list(self.deque))
        return self.fmt.format(
            median=values.median().item(), global_avg=self.total / self.count, value=self.deque[-1]
        )


class MetricLogger:
    def __init__(self, delimiter="  "):
        self.meters, self.delimiter = defaultdict(SmoothedValue), delimiter

    def update(self, **kwargs):
        for k, v in kwargs.items():
            self.meters[k].update(v.item() if isinstance(v, torch.Tensor) else v)

    def __str__(self):
        return self.delimiter.join(f"{name}: {meter}" for name, meter in self.meters.items())

    def log_every(self, iterable, print_freq, header):
        start, end = time.time(), time.time()
        iter_time, data_time = SmoothedValue(fmt="{value:.4f}"), SmoothedValue(fmt="{value:.4f}")
        for i, obj in enumerate(iterable):
            data_time.update(time.time() - end)
            yield obj
            iter_time.update(time.time() - end)
            if i % print_freq == 0 or i == len(iterable) - 1:
                eta = datetime.timedelta(seconds=int(iter_time.total / iter_time.count * (len(iterable) - i)))
                print(
                    self.delimiter.join(
                        [header, f"[{i:3d}/{len(iterable)}]", f"eta: {eta}", str(self),
                         f"time: {iter_time}", f"data: {data_time}"]
                    )
                )  # fmt: skip
            end = time.time()
        total = time.time() - start
        print(
            f"{header} Total time: {datetime.timedelta(seconds=int(total))} ({total / len(iterable):.4f} s / it)"
        )


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.cls, self.bbox = nn.Linear(16, 32), nn.Linear(32, 5), nn.Linear(32, 4)

    def forward(self, x):
        h = self.backbone(x).relu()
        return self.cls(h), self.bbox(h)


def train_one_epoch(model, data_loader, optimizer, epoch, max_norm=0.1):
    model.train()
    metric_logger = MetricLogger()
    metric_logger.meters["lr"] = SmoothedValue(window_size=1, fmt="{value:.6f}")
    metric_logger.meters["class_error"] = SmoothedValue(window_size=1, fmt="{value:.2f}")
    for samples, labels, boxes in metric_logger.log_every(data_loader, 5, f"Epoch: [{epoch}]"):
        logits, pred = model(samples)
        loss_dict = {
            "loss_ce": nn.functional.cross_entropy(logits, labels),
            "loss_bbox": nn.functional.l1_loss(pred, boxes),
        }
        weights = {"loss_ce": 1, "loss_bbox": 5}
        losses = sum(loss_dict[k] * weights[k] for k in loss_dict)
        optimizer.zero_grad()
        losses.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        metric_logger.update(loss=losses, **loss_dict)
        metric_logger.update(class_error=100 * (logits.argmax(1) != labels).float().mean())
        metric_logger.update(lr=optimizer.param_groups[0]["lr"])
    print("Averaged stats:", metric_logger)


model = Detector()
param_dicts = [
    {"params": [p for n, p in model.named_parameters() if "backbone" not in n]},
    {"params": [p for n, p in model.named_parameters() if "backbone" in n], "lr": 1e-5},
]
optimizer = torch.optim.AdamW(param_dicts, lr=1e-4, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
dataset = TensorDataset(torch.randn(160, 16), torch.randint(0, 5, (160,)), torch.rand(160, 4))
for epoch in range(2):
    train_one_epoch(model, DataLoader(dataset, batch_size=8, shuffle=True), optimizer, epoch)
    scheduler.step()
