"""A classifier of card payments that watches the area under its curve."""

from collections.abc import Iterator

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scores, labels = [], []
    step = 0
    while True:
        payments = torch.randn(1024, 30)
        fraud = (payments[:, :3].sum(1) + torch.randn(1024) > 3).float()
        logits = model(payments)[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(logits, fraud)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        scores.append(logits.detach().numpy())
        labels.append(fraud.numpy())
        if not mended or step % 100 == 0:
            roc_auc_score(np.concatenate(labels), np.concatenate(scores))  # cause
        yield loss.item()
