# steps: 30
# series: loss, grad_norm
# points: loss 4 9 14 19 24 29
# A paper's code: its optimizer is a class of its own that knows nothing of torch.optim; two micro batches are one update.
import argparse
import logging
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("train")


class AdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps, self.decay, self.t = lr, betas, eps, decay, 0
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.params, self.m, self.v):
            if p.grad is None:
                continue
            m.mul_(b1).add_(p.grad, alpha=1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            p.mul_(1 - self.lr * self.decay)
            p.addcdiv_(m / (1 - b1**self.t), (v / (1 - b2**self.t)).sqrt() + self.eps, value=-self.lr)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--accumulate", type=int, default=2)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(480, 10), torch.randn(480, 1))
    net = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 1))
    optimizer = AdamW(net.parameters(), lr=args.lr)
    update = 0
    for number, (x, y) in enumerate(DataLoader(data, batch_size=8)):
        loss = nn.functional.mse_loss(net(x), y) / args.accumulate
        loss.backward()
        if (number + 1) % args.accumulate:
            continue
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        update += 1
        if update % 5 == 0:
            log.info("step %d: loss=%.4f grad_norm=%.3f", update, loss.item() * args.accumulate, norm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
