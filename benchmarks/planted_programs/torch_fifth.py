"""Trainings in PyTorch, a fifth set judged at first sight: ``python torch_fifth.py NAME DIRECTORY``.

Each function is a script, which is given a recorder. What is planted stands in the line that says so.
"""

from __future__ import annotations

import collections
import io
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import stepscope as ss

SCRIPTS: dict[str, Callable[[Path, ss.ProfilerHook], None]] = {}
STEPS = 12


def script(function: Callable[[Path, ss.ProfilerHook], None]) -> Callable[[Path, ss.ProfilerHook], None]:
    SCRIPTS[function.__name__] = function
    return function


def mlp(inside: int = 128, wide: int = 768, out: int = 16, deep: int = 3) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(inside, wide), nn.ReLU()]
    for _ in range(deep - 1):
        layers += [nn.Linear(wide, wide), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(wide, out))


def batches(rows: int = 512, inside: int = 128, kinds: int = 16) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(rows, inside), torch.randint(kinds, (rows,))) for _ in range(STEPS)]


def fit(
    out: Path,
    hook: ss.ProfilerHook,
    data: Iterable[tuple[torch.Tensor, torch.Tensor]],
    each: Callable[[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor], object] = lambda *_: None,
    net: nn.Module | None = None,
) -> None:
    """Train a classifier; ``each`` is called at the end of every step."""
    net = net or mlp()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(data):
            logits = net(x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            each(net, x, logits, loss)


# --- causes ---------------------------------------------------------------------------------------------


class Shards(IterableDataset):
    """Batches in compressed archives, one a file."""

    def __init__(self, folder: Path) -> None:
        self.files = []
        folder.mkdir(parents=True, exist_ok=True)
        for n in range(STEPS):
            self.files.append(folder / f"{n}.npz")
            np.savez_compressed(self.files[-1], x=np.random.rand(512, 1024).astype(np.float32))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for file in self.files:
            stored = np.load(file)["x"]  # PLANTED shards
            yield torch.from_numpy(stored[:, :128]), torch.randint(16, (512,))


@script
def shards(out: Path, hook: ss.ProfilerHook) -> None:
    fit(out, hook, DataLoader(Shards(out / "data"), batch_size=None))


@script
def normalised(out: Path, hook: ss.ProfilerHook) -> None:
    """Every example is brought to ranks and scaled by itself, in the loop."""
    net, raw = mlp(), [np.random.rand(384, 128) for _ in range(STEPS)]
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for rows in run.steps(raw):
            ready = []
            for row in rows:
                ranks = np.argsort(np.argsort(row))
                ready.append((ranks - np.median(ranks)) / np.ptp(ranks))  # PLANTED normalised
            x = torch.tensor(np.array(ready), dtype=torch.float32)
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def ratios(out: Path, hook: ss.ProfilerHook) -> None:
    """The ratio of gradient to weight is read of every layer of a deep network."""

    def each(net: nn.Module, *_: object) -> dict[str, float]:
        told = {}
        for name, p in net.named_parameters():
            told[name] = float(p.grad.abs().mean() / (p.abs().mean() + 1e-9))  # PLANTED ratios
        return told

    fit(out, hook, batches(64), each, mlp(wide=96, deep=220))


@script
def forward_algorithm(out: Path, hook: ss.ProfilerHook) -> None:
    """A conditional random field: its partition function goes through time."""
    net, table = mlp(64, 256, 12, 1), nn.Parameter(torch.randn(12, 12))
    optimizer = torch.optim.Adam([*net.parameters(), table], fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, _ in run.steps(batches(16 * 160, 64)):
            scores = net(x).view(16, 160, 12)
            alpha = scores[:, 0]
            for t in range(1, 160):
                alpha = (
                    torch.logsumexp(alpha[:, :, None] + table, 1) + scores[:, t]
                )  # PLANTED forward_algorithm
            loss = torch.logsumexp(alpha, 1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def widths(out: Path, hook: ss.ProfilerHook) -> None:
    """A compiled network is given rows of another length in every step."""
    score = torch.compile(lambda x, w: torch.tanh(x @ w[: x.shape[1]]).sum(1), dynamic=False)
    weight = nn.Parameter(torch.randn(600, 256) * 0.05)
    optimizer = torch.optim.SGD([weight], 0.01)
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(8)):
            loss = score(torch.randn(256, 400 + 8 * n), weight).square().mean()  # PLANTED widths
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def lion(out: Path, hook: ss.ProfilerHook) -> None:
    """The Lion optimizer as its paper writes it, tensor by tensor."""
    net = mlp(wide=64, deep=150)
    moments = [torch.zeros_like(p) for p in net.parameters()]
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(batches(64)):
            loss = F.cross_entropy(net(x), y)
            net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p, m in zip(net.parameters(), moments, strict=True):
                    p.mul_(1 - 1e-4).sub_(
                        m.mul(0.9).add(p.grad, alpha=0.1).sign(), alpha=1e-4
                    )  # PLANTED lion
                    m.mul_(0.99).add_(p.grad, alpha=0.01)


@script
def journal(out: Path, hook: ss.ProfilerHook) -> None:
    """All outputs of every step are written as a line of JSON."""
    lines = (out.parent / f"{out.name}.jsonl").open("w")

    def each(_: nn.Module, x: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
        json.dump({"x": x.tolist(), "y": logits.tolist(), "loss": loss.item()}, lines)  # PLANTED journal
        lines.write("\n")

    fit(out, hook, batches(), each)


@script
def exported(out: Path, hook: ss.ProfilerHook) -> None:
    """The newest weights are put into memory and then into a file, for a process that serves them."""

    def each(net: nn.Module, *_: object) -> None:
        held = io.BytesIO()
        torch.save(net.state_dict(), held)
        (out / "newest.bin").write_bytes(held.getvalue())  # PLANTED exported

    fit(out, hook, batches(128), each, mlp(wide=1536))


@script
def probe(out: Path, hook: ss.ProfilerHook) -> None:
    """What another set gets right is asked in every step."""
    others = batches(768)

    def each(net: nn.Module, *_: object) -> float:
        net.eval()
        right = 0
        with torch.no_grad():
            for x, y in others[:4]:
                right += int((net(x).argmax(1) == y).sum())  # PLANTED probe
        net.train()
        return right / 3072

    fit(out, hook, batches(256), each)


@script
def answered(out: Path, hook: ss.ProfilerHook) -> None:
    """A thread beside says when the next step may begin."""
    asked: queue.Queue[int] = queue.Queue()
    given: queue.Queue[int] = queue.Queue()

    def served() -> None:
        while (n := asked.get()) >= 0:
            time.sleep(0.05)
            given.put(n)

    threading.Thread(target=served, daemon=True).start()

    def each(*_: object) -> int:
        asked.put(1)
        return given.get()  # PLANTED answered

    fit(out, hook, batches(), each)
    asked.put(-1)


@script
def overlap_of_words(out: Path, hook: ss.ProfilerHook) -> None:
    """The outputs' n-grams are counted in Python and compared."""

    def each(_: nn.Module, x: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> int:
        words = [f"w{n}" for n in (x[:, :32] * 3).int().flatten().tolist()]
        seen: collections.Counter[tuple[str, ...]] = collections.Counter()
        for n in range(len(words) - 4):
            seen[tuple(words[n : n + 4])] += 1  # PLANTED overlap_of_words
        return sum(count for count in seen.values() if count > 1)

    fit(out, hook, batches(), each)


@script
def between(out: Path, hook: ss.ProfilerHook) -> None:
    """After each step, what every example cost is sorted into a list that grows."""
    net, worst = mlp(), []
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in batches():
            with run.step():
                losses = F.cross_entropy(net(x), y, reduction="none")
                optimizer.zero_grad()
                losses.mean().backward()
                optimizer.step()
            for cost, row in zip(losses.tolist(), x.tolist(), strict=True):
                worst.append((round(cost, 3), max(row), sum(row)))  # PLANTED between
                worst.sort()


# --- nothing planted ------------------------------------------------------------------------------------


@script
def healthy_pictures(out: Path, hook: ss.ProfilerHook) -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.BatchNorm2d(64),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 16),
    )  # fmt: skip
    data = TensorDataset(torch.randn(STEPS * 64, 3, 64, 64), torch.randint(16, (STEPS * 64,)))
    fit(out, hook, [(x, y) for x, y in DataLoader(data, 64)], net=net)


@script
def healthy_in_memory(out: Path, hook: ss.ProfilerHook) -> None:
    """Ready batches come through a loader."""
    fit(out, hook, DataLoader(batches(), batch_size=None))  # type: ignore[arg-type]


@script
def healthy_worker(out: Path, hook: ss.ProfilerHook) -> None:
    data = TensorDataset(torch.randn(STEPS * 256, 128), torch.randint(16, (STEPS * 256,)))
    fit(out, hook, DataLoader(data, 256, num_workers=1, drop_last=True), net=mlp(wide=1536))


@script
def healthy_attention(out: Path, hook: ss.ProfilerHook) -> None:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    net = nn.Sequential(
        nn.Unflatten(1, (32, 128)), nn.TransformerEncoder(layer, 3), nn.Flatten(), nn.Linear(4096, 16)
    )
    fit(out, hook, batches(48, 4096), net=net)


@script
def healthy_recurrent(out: Path, hook: ss.ProfilerHook) -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.GRU(32, 192, batch_first=True), nn.Linear(192, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(x.view(len(x), 24, 32))[0][:, -1])

    fit(out, hook, batches(96, 768), net=Last())


@script
def healthy_recomputed(out: Path, hook: ss.ProfilerHook) -> None:
    class Saving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp(deep=6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint_sequential(self.inner, 3, x, use_reentrant=False)

    fit(out, hook, batches(), net=Saving())


@script
def healthy_half(out: Path, hook: ss.ProfilerHook) -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.inner(x).float()

    fit(out, hook, batches(), net=Half())


@script
def healthy_value(out: Path, hook: ss.ProfilerHook) -> None:
    """The loss of each step is read and kept."""
    kept: list[float] = []
    fit(out, hook, batches(), lambda *got: kept.append(got[3].item()))


@script
def healthy_compiled(out: Path, hook: ss.ProfilerHook) -> None:
    net = torch.compile(mlp())
    net(torch.randn(512, 128)).sum().backward()
    fit(out, hook, batches(), net=net)


@script
def healthy_schedule(out: Path, hook: ss.ProfilerHook) -> None:
    """Clipping, a schedule, and gradients of two halves of a batch."""
    net = mlp()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, STEPS)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(batches()):
            for part in range(2):
                (F.cross_entropy(net(x[part::2]), y[part::2]) / 2).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()


@script
def healthy_pairs(out: Path, hook: ss.ProfilerHook) -> None:
    """Distances of all pairs within a batch."""
    fit(out, hook, [(x, y) for x, y in batches()], lambda *got: torch.cdist(got[2], got[2]).mean())


@script
def healthy_sparse(out: Path, hook: ss.ProfilerHook) -> None:
    bag, head = nn.EmbeddingBag(50_000, 64), mlp(64)
    optimizer = torch.optim.AdamW([*bag.parameters(), *head.parameters()], fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            loss = F.cross_entropy(head(bag(torch.randint(50_000, (512, 20)))), torch.randint(16, (512,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def healthy_seldom(out: Path, hook: ss.ProfilerHook) -> None:
    """Weights are kept and another set is asked once, before what is recorded."""
    count = iter(range(100))

    def each(net: nn.Module, x: torch.Tensor, *_: object) -> None:
        if next(count) == 1:
            torch.save(net.state_dict(), out / "kept.pt")
            net(x)

    fit(out, hook, batches(), each)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    SCRIPTS[sys.argv[1]](
        Path(sys.argv[2]),
        ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False),
    )
