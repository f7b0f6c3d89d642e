"""Trainings in PyTorch, a sixth set judged at first sight: ``python torch_sixth.py NAME DIRECTORY``.

Each function is a script, which is given a recorder. What is planted stands in the line that says so.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import stepscope as ss

SCRIPTS: dict[str, Callable[[Path, ss.ProfilerHook], None]] = {}
STEPS = 12


def script(function: Callable[[Path, ss.ProfilerHook], None]) -> Callable[[Path, ss.ProfilerHook], None]:
    SCRIPTS[function.__name__] = function
    return function


def convolutions(wide: int = 24) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, wide, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(wide, wide, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(16 * wide, 10),
    )  # fmt: skip


def pictures(rows: int = 48) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(rows, 1, 32, 32), torch.randint(10, (rows,))) for _ in range(STEPS)]


class Trainer:
    """A loop as many projects have it: a class with a method for a step and one that is called after it."""

    def __init__(self, net: nn.Module | None = None) -> None:
        self.net = net or convolutions()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-3, fused=True)

    def prepared(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the network is given."""
        return x, y

    def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
        """Nothing."""

    def train(
        self, out: Path, hook: ss.ProfilerHook, data: Iterable[tuple[torch.Tensor, torch.Tensor]]
    ) -> None:
        """Train for as many steps as there are batches."""
        with ss.Run(out, hooks=[hook]) as run:
            for x, y in run.steps(data):
                x, y = self.prepared(x, y)
                logits = self.net(x)
                loss = F.cross_entropy(logits, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.after(x, y, logits, loss)


# --- causes ---------------------------------------------------------------------------------------------


class Waves(Dataset):
    """Sounds that are filtered as they are asked for."""

    def __len__(self) -> int:
        return STEPS * 48

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        wave = np.random.default_rng(at).normal(size=16_384)
        bands = np.abs(np.fft.rfft(wave * np.hanning(len(wave))))[:1024]  # PLANTED waves
        return torch.tensor(bands.reshape(1, 32, 32), dtype=torch.float32), at % 10


@script
def waves(out: Path, hook: ss.ProfilerHook) -> None:
    Trainer().train(out, hook, DataLoader(Waves(), 48))


class Remote(Dataset):
    """Rows that lie on a slow disk."""

    def __len__(self) -> int:
        return STEPS * 48

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.002)  # PLANTED remote
        return torch.ones(1, 32, 32), at % 10


@script
def remote(out: Path, hook: ss.ProfilerHook) -> None:
    Trainer().train(out, hook, DataLoader(Remote(), 48))


WORDS = re.compile(r"[A-Za-z]+|\d+|[^\w\s]")
LETTER = (
    "On the 3rd of May, 1897, the count wrote a letter: he would come, at last, with 50 boxes of earth. " * 4
)


def collated(rows: list[tuple[str, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.zeros(len(rows), 1, 32, 32)
    for n, (text, _) in enumerate(rows):
        for word in WORDS.findall(text.lower()):
            place = int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16)  # PLANTED letters
            found[n, 0, place % 32, place % 31] += 1
    return found, torch.tensor([kind for _, kind in rows])


@script
def letters(out: Path, hook: ss.ProfilerHook) -> None:
    data = [(LETTER[n % 9 :], n % 10) for n in range(STEPS * 48)]
    Trainer().train(out, hook, DataLoader(data, 48, collate_fn=collated))  # type: ignore[arg-type]


@script
def warped(out: Path, hook: ss.ProfilerHook) -> None:
    """Pictures are turned one by one before the forward pass."""

    class Warping(Trainer):
        def prepared(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            turned = np.empty(x.shape, np.float32)
            rows, columns = np.mgrid[:32, :32] - 15.5
            for n, picture in enumerate(x.numpy()):
                angle = np.random.uniform(-0.5, 0.5)
                a = np.clip(np.round(rows * math.cos(angle) - columns * math.sin(angle) + 15.5), 0, 31)
                b = np.clip(np.round(rows * math.sin(angle) + columns * math.cos(angle) + 15.5), 0, 31)
                blurred = sum(np.roll(picture[0], (i, j), (0, 1)) for i in range(-2, 3) for j in range(-2, 3))
                turned[n, 0] = blurred[a.astype(int), b.astype(int)]  # PLANTED warped
            return torch.from_numpy(turned), y

    Warping().train(out, hook, pictures(64))


@script
def hard_examples(out: Path, hook: ss.ProfilerHook) -> None:
    """Each example's loss is read by itself."""

    class Mining(Trainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            losses = F.cross_entropy(logits, y, reduction="none")
            self.hard = [n for n in range(len(y)) if losses[n].item() > 2.4]  # PLANTED hard_examples

    small = nn.Sequential(nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))
    Mining(small).train(out, hook, pictures(1024))


class Cell(nn.Module):
    """A gated cell of one's own, unrolled in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.new = nn.Linear(96, 128), nn.Linear(96, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs after the last part."""
        state = torch.zeros(len(x), 64)
        for part in x.flatten(1).view(len(x), 32, 32).unbind(1):
            keep, reset = self.gates(torch.cat([part, state], 1)).sigmoid().chunk(2, 1)
            state = keep * state + (1 - keep) * torch.tanh(
                self.new(torch.cat([part, reset * state], 1))
            )  # PLANTED cells
        return self.head(state)


@script
def cells(out: Path, hook: ss.ProfilerHook) -> None:
    Trainer(Cell()).train(out, hook, pictures(16))


@script
def last_batches(out: Path, hook: ss.ProfilerHook) -> None:
    """A compiled network, and batches none of which is as large as another."""

    class Compiled(Trainer):
        def __init__(self) -> None:
            super().__init__(nn.Sequential(nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10)))
            self.quick = torch.compile(self.net, dynamic=False)

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.quick(x).sum().backward()  # PLANTED last_batches

    rows = [(torch.randn(32 + n, 1, 32, 32), torch.randint(10, (32 + n,))) for n in range(8)]
    Compiled().train(out, hook, rows)


@script
def one_by_one(out: Path, hook: ss.ProfilerHook) -> None:
    """Momentum by hand for many small tensors."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(1024, 48), *[nn.Linear(48, 48) for _ in range(120)])
    velocity = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(pictures(24)):
            loss = F.cross_entropy(net(x), y)
            net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for name, p in net.named_parameters():
                    velocity[name] = 0.9 * velocity[name] + p.grad + 1e-4 * p
                    p -= 0.01 * velocity[name]  # PLANTED one_by_one


@script
def adam_foreach_off(out: Path, hook: ss.ProfilerHook) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(1024, 64), *[nn.Linear(64, 64) for _ in range(140)])
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(pictures(24)):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # PLANTED adam_foreach_off


@script
def verbose_log(out: Path, hook: ss.ProfilerHook) -> None:
    """A debug line with all logits, to a file."""
    log = logging.getLogger("planted")
    log.setLevel(logging.DEBUG)
    log.addHandler(logging.FileHandler(out.parent / f"{out.name}.log"))
    log.propagate = False

    class Telling(Trainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            for n, (row, kind) in enumerate(zip(logits.tolist(), y.tolist(), strict=True)):
                log.debug(
                    "example %d of kind %d: %s", n, kind, [f"{value:.4f}" for value in row]
                )  # PLANTED verbose_log

    Telling().train(out, hook, pictures(512)[:10])


@script
def backup(out: Path, hook: ss.ProfilerHook) -> None:
    """Network and optimizer are written after every step."""

    class Saving(Trainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(state, out / "last.pt")  # PLANTED backup

    wide = nn.Sequential(nn.Flatten(), nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 10))
    Saving(wide).train(out, hook, pictures(32))


@script
def early_stopping(out: Path, hook: ss.ProfilerHook) -> None:
    """The held-out loss is asked after every step."""
    held_out = pictures(96)[:5]

    class Stopping(Trainer):
        @torch.inference_mode()
        def judged(self) -> float:
            return sum(F.cross_entropy(self.net(x), y).item() for x, y in held_out)  # PLANTED early_stopping

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.net.eval()
            self.best = min(getattr(self, "best", math.inf), self.judged())
            self.net.train()

    Stopping().train(out, hook, pictures())


@script
def versioned(out: Path, hook: ss.ProfilerHook) -> None:
    """A program is asked something in every step."""

    class Asking(Trainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            subprocess.run(["sleep", "0.06"], check=True)  # PLANTED versioned

    Asking().train(out, hook, pictures())


@script
def coordinated(out: Path, hook: ss.ProfilerHook) -> None:
    """A service says over the network that it has taken the step."""
    here, there = socket.socketpair()

    def serve() -> None:
        while there.recv(1) == b"?":
            time.sleep(0.05)
            there.send(b"!")

    threading.Thread(target=serve, daemon=True).start()

    class Coordinated(Trainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            here.send(b"?")
            here.recv(1)  # PLANTED coordinated

    Coordinated().train(out, hook, pictures())
    here.send(b".")


@script
def searched(out: Path, hook: ss.ProfilerHook) -> None:
    """The best path through the outputs is searched for in Python."""

    class Searching(Trainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            beams = [((), 0.0)]
            for row in logits.tolist():
                longer = [((*path, n), cost - value) for path, cost in beams for n, value in enumerate(row)]
                beams = sorted(longer, key=lambda one: one[1])[:24]  # PLANTED searched

    Searching().train(out, hook, pictures(128))


@script
def moving_average(out: Path, hook: ss.ProfilerHook) -> None:
    """The whole network is copied in every step to keep the last five."""

    class Keeping(Trainer):
        kept: tuple[nn.Module, ...] = ()

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.kept = (*self.kept[-4:], copy.deepcopy(self.net))  # PLANTED moving_average

    deep = nn.Sequential(nn.Flatten(), nn.Linear(1024, 48), *[nn.Linear(48, 48) for _ in range(200)])
    Keeping(deep).train(out, hook, pictures(64))


@script
def after_steps(out: Path, hook: ss.ProfilerHook) -> None:
    """Between two steps a table of everything so far is sorted."""
    trainer, table = Trainer(), []
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in pictures():
            with run.step():
                logits = trainer.net(x)
                loss = F.cross_entropy(logits, y)
                trainer.optimizer.zero_grad()
                loss.backward()
                trainer.optimizer.step()
            for row in x.flatten(1).tolist():
                ordered = sorted(round(value, 2) for value in row)  # PLANTED after_steps
                table.append(ordered)


# --- nothing planted ------------------------------------------------------------------------------------


@script
def healthy_trainer(out: Path, hook: ss.ProfilerHook) -> None:
    Trainer().train(out, hook, pictures())


@script
def healthy_two_workers(out: Path, hook: ss.ProfilerHook) -> None:
    data = TensorDataset(torch.randn(STEPS * 64, 1, 32, 32), torch.randint(10, (STEPS * 64,)))
    Trainer(convolutions(48)).train(out, hook, DataLoader(data, 64, num_workers=2))


@script
def healthy_vision(out: Path, hook: ss.ProfilerHook) -> None:
    """A transformer on patches."""

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut = nn.Conv2d(1, 96, 4, 4)
            layer = nn.TransformerEncoderLayer(96, 4, 192, batch_first=True, norm_first=True)
            self.inner = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
            self.head = nn.Linear(96, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(self.cut(x).flatten(2).transpose(1, 2)).mean(1))

    Trainer(Patches()).train(out, hook, pictures(32))


@script
def healthy_averaged(out: Path, hook: ss.ProfilerHook) -> None:
    """An exponential mean of the weights, as the library makes it."""

    class Averaging(Trainer):
        def __init__(self) -> None:
            super().__init__()
            self.mean = torch.optim.swa_utils.AveragedModel(
                self.net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
            )

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.mean.update_parameters(self.net)

    Averaging().train(out, hook, pictures())


@script
def healthy_clipped(out: Path, hook: ss.ProfilerHook) -> None:
    """Autocast, clipping, a schedule, and a loss that is recorded."""
    trainer = Trainer(convolutions(32))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(trainer.optimizer, STEPS)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(pictures()):
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(trainer.net(x), y)
            trainer.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(trainer.net.parameters(), 1.0)
            trainer.optimizer.step()
            schedule.step()
            run.scalar("train/loss", loss)


@script
def healthy_autoencoder(out: Path, hook: ss.ProfilerHook) -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, _ in run.steps(pictures(64)):
            loss = F.mse_loss(net(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def healthy_accuracy(out: Path, hook: ss.ProfilerHook) -> None:
    """Accuracy and loss are read once a step."""

    class Counting(Trainer):
        seen: tuple[float, ...] = ()

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.seen = (*self.seen, (logits.argmax(1) == y).float().mean().item(), loss.item())

    Counting().train(out, hook, pictures())


@script
def healthy_words(out: Path, hook: ss.ProfilerHook) -> None:
    """A language model of an embedding, an LSTM, and an output for each word."""
    table, inner, head = nn.Embedding(2000, 96), nn.LSTM(96, 160, batch_first=True), nn.Linear(160, 2000)
    parameters = [*table.parameters(), *inner.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            words = torch.randint(2000, (16, 33))
            logits = head(inner(table(words[:, :-1]))[0])
            loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    SCRIPTS[sys.argv[1]](
        Path(sys.argv[2]),
        ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False),
    )
