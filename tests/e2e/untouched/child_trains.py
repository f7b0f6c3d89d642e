# steps: 36
# series: loss
# starts: the child is a new interpreter
# The parent only starts a child, by spawn, and waits for its result.
import multiprocessing

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(config, results):
    torch.manual_seed(config["seed"])
    data = TensorDataset(torch.randn(96, 8), torch.randn(96, 1))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    best = float("inf")
    for epoch in range(3):
        total = 0.0
        for x, y in DataLoader(data, batch_size=8):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
        best = min(best, total / 12)
        print(f"[epoch {epoch + 1}/3] loss={total / 12:.4f} best={best:.4f}", flush=True)
    results.put(best)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=train, args=({"lr": 1e-2, "seed": 3}, results))
    child.start()
    print("result:", results.get())
    child.join()
