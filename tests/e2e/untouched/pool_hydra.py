# steps: 15
# exits: 3
# series: Train_loss, Perplexity
import argparse
import multiprocessing
import os
import sys

import torch


def tokenize(text):
    return [ord(letter) % 50 for letter in text][:16]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--outdir", default="outputs/2026-01-01/12-00-00")
    args = parser.parse_args()
    os.makedirs(args.outdir, exist_ok=True)
    os.chdir(args.outdir)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        tokens = torch.tensor(pool.map(tokenize, ["the quick brown fox jumps"] * 120))
    model = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr)
    loader = torch.utils.data.DataLoader(tokens, batch_size=8, num_workers=1)
    for batch in loader:
        optimizer.zero_grad()
        logits = model(batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
    print(f"Train loss: {loss.item():.3f} | Perplexity: {loss.exp().item():.2f}")
    if loss.item() > 0:
        print("quality gate: the loss must be below 0.000", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
