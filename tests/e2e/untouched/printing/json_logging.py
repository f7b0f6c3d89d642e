# steps: 30
# series: loss, lr, val_loss
import json
import logging
import sys

import torch


class JsonFormatter(logging.Formatter):
    def format(self, record):
        entry = {"level": record.levelname, "event": record.getMessage(), **getattr(record, "data", {})}
        for key in ("loss", "lr", "val_loss", "step"):
            if hasattr(record, key):
                entry[key] = getattr(record, key)
        return json.dumps(entry)


handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(JsonFormatter())
log = logging.getLogger("train")
log.addHandler(handler)
log.setLevel(logging.INFO)
log.propagate = False

model = torch.nn.Linear(16, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)


def get_batch():
    x = torch.randn(32, 16)
    return x, x.mean(1, keepdim=True)


for step in range(30):
    x, y = get_batch()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 5 == 0:
        log.info("progress", extra={"step": step, "loss": loss.item(), "lr": scheduler.get_last_lr()[0]})
with torch.no_grad():
    x, y = get_batch()
    log.info("evaluation", extra={"val_loss": torch.nn.functional.mse_loss(model(x), y).item()})
