# Run as: python -m translate.train, as fairseq logs.
import json
import logging
import math
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from .model import Seq2Seq

logging.basicConfig(
    format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
    datefmt="%Y-%m-%d %H:%M:%S",
    level="INFO",
    stream=sys.stdout,
)
logger = logging.getLogger("translate")


def evaluate(model, loader, criterion):
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(s, t[:, :-1]).transpose(1, 2), t[:, 1:]).item() for s, t in loader]
    model.train()
    return sum(losses) / len(losses)


def main():
    model = Seq2Seq()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98))
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    data = TensorDataset(torch.randint(1, 24, (160, 7)), torch.randint(1, 24, (160, 8)))
    updates = 0
    for epoch in range(1, 3):
        logger.info("begin training epoch %d", epoch)
        for source, target in DataLoader(data, 16, shuffle=True):
            loss = criterion(model(source, target[:, :-1]).transpose(1, 2), target[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            gnorm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            updates += 1
            if updates % 5 == 0:
                stats = {"epoch": epoch, "loss": f"{loss.item():.3f}", "ppl": f"{math.exp(loss.item()):.2f}"}
                stats |= {"num_updates": str(updates), "lr": "0.001", "gnorm": f"{gnorm:.3f}"}
                logging.getLogger("train_inner").info(json.dumps(stats))
        valid = evaluate(model, DataLoader(data, 32), criterion)
        logger.info(
            "epoch %03d | valid on 'valid' subset | loss %.3f | ppl %.2f", epoch, valid, math.exp(valid)
        )


if __name__ == "__main__":
    main()
