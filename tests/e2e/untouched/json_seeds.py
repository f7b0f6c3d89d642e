# steps: 60
# series: loss, lr, grad_norm, val_loss
# A research script: a configuration of dataclasses, one line of JSON a log, a function trained per seed.
import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class OptimConfig:
    lr: float = 3e-3
    weight_decay: float = 0.01
    clip: float = 1.0


@dataclass
class Config:
    seed: int = 0
    epochs: int = 3
    width: int = 32
    optim: OptimConfig = field(default_factory=OptimConfig)


def build(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("overrides", nargs="*", help="key=value, as optim.lr=1e-3")
    config = Config()
    for override in parser.parse_args(argv).overrides:
        key, value = override.split("=")
        target = config
        *parents, name = key.split(".")
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, name, type(getattr(target, name))(value))
    return config


def train(config):
    torch.manual_seed(config.seed)
    model = nn.Sequential(nn.Linear(6, config.width), nn.SiLU(), nn.Linear(config.width, 1))
    optimizer = torch.optim.AdamW(model.parameters(), config.optim.lr, weight_decay=config.optim.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
    data = torch.randn(160, 6)
    loader = DataLoader(TensorDataset(data, data.sum(1, keepdim=True)), batch_size=16, shuffle=True)
    step, begun = 0, time.time()
    for epoch in range(config.epochs):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), config.optim.clip)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 5 == 0:
                record = {"step": step, "loss": loss.item(), "grad_norm": float(norm)}
                record |= {"lr": schedule.get_last_lr()[0], "seconds": round(time.time() - begun, 2)}
                print(json.dumps(record), flush=True)
        with torch.no_grad():
            val = nn.functional.mse_loss(model(data), data.sum(1, keepdim=True)).item()
        print(json.dumps({"epoch": epoch, "val_loss": val}), flush=True)
    return val


print(json.dumps(asdict(build(sys.argv[1:]))))
for seed in (1, 2):
    train(build([f"seed={seed}", "optim.lr=0.001"]))
