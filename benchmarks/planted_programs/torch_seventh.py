"""Trainings in PyTorch, a seventh set judged at first sight: ``python torch_seventh.py NAME DIRECTORY``.

Each function is the script of another field, which is given a recorder. What is planted stands in the line
that says so.
"""

from __future__ import annotations

import random
import string
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import stepscope as ss

SCRIPTS: dict[str, Callable[[Path, ss.ProfilerHook], None]] = {}
STEPS = 12
Pair = tuple[torch.Tensor, torch.Tensor]


def script(function: Callable[[Path, ss.ProfilerHook], None]) -> Callable[[Path, ss.ProfilerHook], None]:
    SCRIPTS[function.__name__] = function
    return function


def adam(*parts: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p for part in parts for p in part.parameters()], 1e-3, fused=True)


def images(rows: int, side: int = 32, steps: int = STEPS) -> list[Pair]:
    return [(torch.randn(rows, 3, side, side), torch.randint(10, (rows,))) for _ in range(steps)]


def encoder(wide: int = 32, out: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, wide, 3, 2, 1), nn.GroupNorm(4, wide), nn.SiLU(),
        nn.Conv2d(wide, 2 * wide, 3, 2, 1), nn.GroupNorm(4, 2 * wide), nn.SiLU(),
        nn.Conv2d(2 * wide, 2 * wide, 3, 1, 1), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * wide, out),
    )  # fmt: skip


# --- causes ---------------------------------------------------------------------------------------------


class Molecules(Dataset):
    """Graphs; how far their atoms are from one another is found as each is asked for."""

    def __init__(self) -> None:
        import networkx as nx

        self.distances = nx.floyd_warshall_numpy
        self.graphs = [nx.connected_watts_strogatz_graph(40, 4, 0.3, seed=n) for n in range(64)]

    def __len__(self) -> int:
        return STEPS * 32

    def __getitem__(self, at: int) -> tuple[torch.Tensor, torch.Tensor, float]:
        graph = self.graphs[at % 64]
        hops = self.distances(graph)  # PLANTED molecules
        return torch.arange(40) % 9, torch.from_numpy(hops).long().clamp_(max=7), at % 5 / 5


class Graphormer(nn.Module):
    """Attention among atoms, with a bias by their distance."""

    def __init__(self) -> None:
        super().__init__()
        self.atoms, self.bias = nn.Embedding(9, 64), nn.Embedding(8, 4)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.inner = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 1)

    def forward(self, atoms: torch.Tensor, hops: torch.Tensor) -> torch.Tensor:
        """Return what it gives."""
        bias = self.bias(hops).permute(0, 3, 1, 2).flatten(0, 1)
        return self.head(self.inner(self.atoms(atoms), mask=bias).mean(1)).squeeze(1)


@script
def molecules(out: Path, hook: ss.ProfilerHook) -> None:
    net = Graphormer()
    optimizer = adam(net)
    with ss.Run(out, hooks=[hook]) as run:
        for atoms, hops, target in run.steps(DataLoader(Molecules(), 32)):
            loss = F.l1_loss(net(atoms, hops), target.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Ratings(Dataset):
    """A table of ratings, a row of which is taken at a time."""

    def __init__(self) -> None:
        import pandas as pd

        rows, rng = 20_000, np.random.default_rng(0)
        self.frame = pd.DataFrame({
            "user": rng.integers(0, 4000, rows), "film": rng.integers(0, 3000, rows),
            "stars": rng.random(rows).astype(np.float32), "title": ["a film"] * rows,
        })  # fmt: skip

    def __len__(self) -> int:
        return STEPS * 768

    def __getitem__(self, at: int) -> tuple[int, int, float]:
        row = self.frame.iloc[at]  # PLANTED ratings
        return row["user"], row["film"], row["stars"]


@script
def ratings(out: Path, hook: ss.ProfilerHook) -> None:
    users, films = nn.Embedding(4000, 48), nn.Embedding(3000, 48)
    tower = nn.Sequential(nn.Linear(96, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = adam(users, films, tower)
    with ss.Run(out, hooks=[hook]) as run:
        for user, film, stars in run.steps(DataLoader(Ratings(), 768, shuffle=True)):
            given = tower(torch.cat([users(user), films(film)], 1)).squeeze(1)
            loss = F.mse_loss(given, stars.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Collisions(Dataset):
    """Signals of a detector in a compressed file, of which any one may be asked for."""

    def __init__(self, path: Path) -> None:
        import h5py

        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = h5py.File(path, "w")
        signals = np.random.default_rng(0).normal(size=(768, 1024)).round(1).astype(np.float32)
        self.file.create_dataset("signals", data=signals, chunks=(128, 1024), compression="gzip")

    def __len__(self) -> int:
        return STEPS * 32

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        signal = self.file["signals"][2 * at]  # PLANTED collisions
        return torch.from_numpy(signal), at % 6


@script
def collisions(out: Path, hook: ss.ProfilerHook) -> None:
    net = nn.Sequential(
        nn.Unflatten(1, (1, 1024)), nn.Conv1d(1, 32, 9, 2), nn.ReLU(), nn.Conv1d(32, 64, 9, 2), nn.ReLU(),
        nn.Conv1d(64, 64, 9, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 6),
    )  # fmt: skip
    optimizer = adam(net)
    loader = DataLoader(Collisions(out / "data" / "run.h5"), batch_size=32, shuffle=True)
    with ss.Run(out, hooks=[hook]) as run:
        for signal, kind in run.steps(loader):
            loss = F.cross_entropy(net(signal), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def resampled(out: Path, hook: ss.ProfilerHook) -> None:
    """Keyword spotting; recordings are brought to another rate in the loop."""
    from scipy import signal

    net = nn.Sequential(
        nn.Conv1d(1, 32, 80, 8), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 9, 4), nn.ReLU(),
        nn.Conv1d(64, 96, 9, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(96, 12),
    )  # fmt: skip
    optimizer = adam(net)
    recordings = [np.random.default_rng(n).normal(size=(24, 44_100)) for n in range(3)]
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(STEPS)):
            waves = np.empty((24, 1, 16_000), np.float32)
            for k, recording in enumerate(recordings[n % 3]):
                waves[k, 0] = signal.resample_poly(recording, 160, 441)  # PLANTED resampled
            loss = F.cross_entropy(net(torch.from_numpy(waves)), torch.randint(12, (24,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Subwords:
    """A vocabulary of pieces of words, learned from some text."""

    def __init__(self, texts: list[str]) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        self.inner = Tokenizer(models.BPE())
        self.inner.pre_tokenizer = pre_tokenizers.Whitespace()
        self.inner.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=900, show_progress=False))

    def __call__(self, texts: list[str], length: int = 64) -> torch.Tensor:
        """Return the numbers of the first pieces of each."""
        rows = []
        for text in texts:
            numbers = self.inner.encode(text).ids  # PLANTED subwords
            rows.append(numbers[:length] + [0] * (length - len(numbers)))
        return torch.tensor(rows)


@script
def subwords(out: Path, hook: ss.ProfilerHook) -> None:
    """A classifier of texts, which become numbers within the step."""
    rng = random.Random(0)
    texts = [
        " ".join("".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 11))) for _ in range(160))
        for _ in range(48 * STEPS)
    ]
    pieces, table = Subwords(texts[:60]), nn.Embedding(1000, 96)
    layer = nn.TransformerEncoderLayer(96, 4, 256, dropout=0.0, batch_first=True)
    body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    head = nn.Linear(96, 4)
    optimizer = adam(table, body, head)
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(STEPS)):
            ids = pieces(texts[48 * n : 48 * n + 48])
            loss = F.cross_entropy(head(body(table(ids)).mean(1)), torch.randint(4, (48,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Cart:
    """Many carts with poles, moved together."""

    def __init__(self, many: int) -> None:
        self.state = torch.randn(many, 24)

    def move(self, actions: torch.Tensor) -> torch.Tensor:
        """Return what is seen then."""
        self.state = (0.97 * self.state + 0.1 * actions[:, None].sub(1.5)).clamp(-3, 3)
        return self.state


@script
def rollout(out: Path, hook: ss.ProfilerHook) -> None:
    """An actor and its critic; what was chosen is kept for each environment by itself."""
    body, actor, critic = nn.Sequential(nn.Linear(24, 384), nn.Tanh()), nn.Linear(384, 4), nn.Linear(384, 1)
    optimizer, carts = adam(body, actor, critic), Cart(192)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            seen, memory = [], []
            for _ in range(8):
                seen.append(carts.state)
                with torch.no_grad():
                    inside = body(carts.state)
                    choice = torch.distributions.Categorical(logits=actor(inside))
                    value, action = critic(inside).squeeze(1), choice.sample()
                    chance = choice.log_prob(action)
                memory += [
                    (action[n].item(), value[n].item(), chance[n].item()) for n in range(192)
                ]  # PLANTED rollout
                carts.move(action)
            actions, values, chances = (torch.tensor(each) for each in zip(*memory, strict=True))
            inside = body(torch.cat(seen))
            ratio = F.cross_entropy(actor(inside), actions, reduction="none").neg().sub(chances).exp()
            wanted = torch.cat(seen).square().mean(1).neg()
            loss = F.mse_loss(critic(inside).squeeze(1), wanted) - (ratio * (wanted - values)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def tagged(out: Path, hook: ss.ProfilerHook) -> None:
    """Parts of speech, whose names are put together at every step, to be looked at."""
    tags = [f"tag-{n}" for n in range(20)]
    table, inner, head = nn.Embedding(500, 32), nn.Conv1d(32, 48, 3, padding=1), nn.Conv1d(48, 20, 1)
    optimizer = adam(table, inner, head)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            words, truth = torch.randint(500, (64, 80)), torch.randint(20, (64, 80))
            logits = head(F.relu(inner(table(words).transpose(1, 2))))
            loss = F.cross_entropy(logits, truth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            guesses = logits.argmax(1)
            sentences = [" ".join(tags[int(tag)] for tag in guess) for guess in guesses]  # PLANTED tagged
    (out / "sentences.txt").write_text("\n".join(sentences))


@script
def transported(out: Path, hook: ss.ProfilerHook) -> None:
    """Two clouds of points are matched by optimal transport."""
    net = nn.Sequential(nn.Linear(32, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 16))
    optimizer = adam(net)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            left, right = net(torch.randn(96, 32)), net(torch.randn(96, 32) + 1)
            costs = torch.cdist(left[:32], right[:32])
            kernel, v = torch.exp(-costs / costs.detach().mean()), torch.ones(32)
            for _ in range(300):
                v = 0.03125 / (kernel.T @ (0.03125 / (kernel @ v)))  # PLANTED transported
            loss = (kernel * v * costs).sum() + left.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Field(nn.Module):
    """What moves a pendulum, as learned."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """Return what it gives."""
        return self.third(torch.tanh(self.second(torch.tanh(self.first(y)))))  # PLANTED trajectories


@script
def trajectories(out: Path, hook: ss.ProfilerHook) -> None:
    """A neural differential equation, solved with a fixed small step."""
    field = Field()
    optimizer = adam(field)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            y = torch.randn(24, 4)
            wanted = y * 0.5
            for _ in range(80):
                y = y + 0.02 * field(y + 0.01 * field(y))
            loss = F.mse_loss(y, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Progressive(nn.Module):
    """A network of which more layers take part as training goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(10))
        self.head, self.active = nn.Linear(128, 10), 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what it gives."""
        for layer in self.layers[: self.active]:
            x = x + F.relu(layer(x))
        return self.head(x)


@script
def progressive(out: Path, hook: ss.ProfilerHook) -> None:
    """A compiled network that grows by a layer a step."""
    net = Progressive()
    quick, optimizer = torch.compile(net, backend="aot_eager"), adam(net)
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(8)):
            net.active = n + 1
            loss = F.cross_entropy(
                quick(torch.randn(256, 128)), torch.randint(10, (256,))
            )  # PLANTED progressive
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class AdaBelief(torch.optim.Optimizer):
    """Steps by how far a gradient is from what was expected, after its paper."""

    def __init__(self, parameters: Iterator[nn.Parameter], lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Change the weights."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["mean"], state["spread"] = torch.zeros_like(p), torch.zeros_like(p)
                mean, spread = state["mean"].lerp_(p.grad, 0.1), state["spread"]
                p.sub_(
                    mean / spread.mul_(0.99).add_((p.grad - mean).square(), alpha=0.01).sqrt().add(1e-6),
                    alpha=group["lr"],
                )  # PLANTED beliefs


@script
def beliefs(out: Path, hook: ss.ProfilerHook) -> None:
    """A deep and narrow network with an optimizer of one's own."""
    layers = [part for _ in range(70) for part in (nn.Linear(64, 64), nn.LayerNorm(64), nn.SiLU())]
    net = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = AdaBelief(net.parameters())
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            loss = F.cross_entropy(net(torch.randn(96, 64)), torch.randint(10, (96,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def painted(out: Path, hook: ss.ProfilerHook) -> None:
    """What an autoencoder makes is shown as a picture of pictures at every step."""
    from torch.utils.tensorboard import SummaryWriter

    net = nn.Sequential(
        nn.Conv2d(3, 24, 4, 2, 1), nn.SiLU(), nn.Conv2d(24, 48, 4, 2, 1), nn.SiLU(),
        nn.ConvTranspose2d(48, 24, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(24, 3, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip
    optimizer, board = adam(net), SummaryWriter(str(out / "board"))
    with ss.Run(out, hooks=[hook]) as run:
        for n, (x, _) in enumerate(run.steps(images(32, 64))):
            made = net(x.sigmoid())
            loss = F.binary_cross_entropy(made, x.sigmoid())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            board.add_images("made", made, n)  # PLANTED painted
    board.close()


@script
def predictions(out: Path, hook: ss.ProfilerHook) -> None:
    """A forecast of many series, each of which is added to a table in a file."""
    import pandas as pd

    net = nn.Sequential(nn.Linear(168, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 24))
    optimizer, table = adam(net), out / "predictions.csv"
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(STEPS)):
            series = torch.randn(512, 192).cumsum(1)
            forecast = net(series[:, :168])
            loss = F.huber_loss(forecast, series[:, 168:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            frame = pd.DataFrame(forecast.detach().numpy(), columns=[f"h{k}" for k in range(24)])
            frame.assign(step=n).to_csv(table, mode="a", header=n == 0)  # PLANTED predictions


@script
def recoverable(out: Path, hook: ss.ProfilerHook) -> None:
    """Weights are put into a file after every step, lest the machine be taken away."""
    from safetensors.torch import save_file

    net = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 8))
    optimizer = adam(net)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            loss = F.cross_entropy(net(torch.randn(48, 256)), torch.randint(8, (48,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            save_file(net.state_dict(), out / "latest.safetensors")  # PLANTED recoverable


@script
def monitored(out: Path, hook: ss.ProfilerHook) -> None:
    """Contrastive learning, and what the nearest neighbours in a bank say, at every step."""
    net, bank = encoder(), images(96, steps=4)
    optimizer = adam(net)

    def nearest(x: torch.Tensor) -> torch.Tensor:
        net.eval()
        with torch.no_grad():
            features = torch.cat([net(pictures) for pictures, _ in bank])  # PLANTED monitored
            labels = torch.cat([kinds for _, kinds in bank])
            close = torch.cdist(net(x[:16]), features).topk(5, largest=False).indices
        net.train()
        return labels[close].mode(1).values

    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(images(48)):
            a, b = F.normalize(net(x)), F.normalize(net(x + 0.1 * torch.randn_like(x)))
            loss = F.cross_entropy(a @ b.T / 0.2, torch.arange(48))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.scalar("neighbours", (nearest(x) == y[:16]).float().mean())


class Denoiser(nn.Module):
    """Says what noise is in a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.when = nn.Conv2d(3, 48, 3, padding=1), nn.Linear(1, 48)
        self.inner = nn.Sequential(nn.SiLU(), nn.Conv2d(48, 48, 3, padding=1), nn.SiLU())
        self.leave = nn.Conv2d(48, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return what it gives."""
        return self.leave(self.inner(self.enter(x) + self.when(t[:, None])[:, :, None, None]))


@script
def diffused(out: Path, hook: ss.ProfilerHook) -> None:
    """Some pictures are made anew after every step, to see how it goes."""
    net = Denoiser()
    optimizer = adam(net)

    @torch.no_grad()
    def drawn(many: int = 8) -> torch.Tensor:
        x = torch.randn(many, 3, 24, 24)
        for t in torch.linspace(1, 0, 10):
            x = x - 0.1 * net(x, t.expand(many))  # PLANTED diffused
        return x

    with ss.Run(out, hooks=[hook]) as run:
        for x, _ in run.steps(images(24, 24)):
            noise, t = torch.randn_like(x), torch.rand(len(x))
            mixed = (1 - t)[:, None, None, None] * x + t[:, None, None, None] * noise
            loss = F.mse_loss(net(mixed, t), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            shown = drawn()
    torch.save(shown, out / "shown.pt")


@script
def matched(out: Path, hook: ss.ProfilerHook) -> None:
    """A detector whose boxes are matched to the true ones, picture by picture."""
    from scipy.optimize import linear_sum_assignment

    body, head = encoder(32, 256), nn.Linear(256, 200 * 4)
    optimizer = adam(body, head)
    with ss.Run(out, hooks=[hook]) as run:
        for x, _ in run.steps(images(24, 64)):
            boxes, wanted = head(body(x)).view(24, 200, 4), torch.rand(24, 180, 4)
            costs = torch.cdist(boxes.detach(), wanted, 1).numpy()
            pairs = [linear_sum_assignment(cost) for cost in costs]  # PLANTED matched
            chosen, true = (torch.from_numpy(np.stack(each)) for each in zip(*pairs, strict=True))
            at = torch.arange(24)[:, None]
            loss = F.l1_loss(boxes[at, chosen], wanted[at, true])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def quartered(points: list[list[float]]) -> dict:
    """Return a tree of squares within squares."""
    root: dict = {}
    for x, y in points:
        square = root
        for size in (2, 4, 8, 16, 32, 64, 128, 256):
            square = square.setdefault((int(x * size), int(y * size)), {})  # PLANTED galaxies
    return root


@script
def galaxies(out: Path, hook: ss.ProfilerHook) -> None:
    """Bodies that are predicted, and the tree in which they lie."""
    net = nn.Sequential(nn.Linear(12, 192), nn.SiLU(), nn.Linear(192, 192), nn.SiLU(), nn.Linear(192, 2))
    optimizer = adam(net)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            places = net(torch.randn(4096, 12)).sigmoid()
            loss = (places - 0.5).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tree = quartered(places.tolist())
            run.scalar("squares", len(tree))


@script
def audience(out: Path, hook: ss.ProfilerHook) -> None:
    """Between two steps each user's worst guesses are looked for."""
    import pandas as pd

    users, films = nn.Embedding(2000, 96), nn.Embedding(2000, 96)
    tower = nn.Sequential(nn.Linear(192, 384), nn.ReLU(), nn.Linear(384, 1))
    optimizer, worst = adam(users, films, tower), []
    with ss.Run(out, hooks=[hook]) as run:
        for _ in range(STEPS):
            user, film, stars = torch.randint(2000, (1024,)), torch.randint(2000, (1024,)), torch.rand(1024)
            with run.step():
                given = tower(torch.cat([users(user), films(film)], 1)).squeeze(1)
                errors = (given - stars).square()
                optimizer.zero_grad()
                errors.mean().backward()
                optimizer.step()
            frame = pd.DataFrame({"group": user.numpy() % 150, "error": errors.detach().numpy()})
            worst.append(
                frame.groupby("group")["error"].apply(lambda each: each.nlargest(3).mean())
            )  # PLANTED audience


@script
def private(out: Path, hook: ss.ProfilerHook) -> None:
    """Differential privacy: the gradient of each example by itself, clipped, then noise."""
    net = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    weights = list(net.parameters())
    optimizer = torch.optim.SGD(weights, 0.05, fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            x, y = torch.randn(96, 48), torch.randint(8, (96,))
            rows = []
            for n in range(96):
                slopes = torch.autograd.grad(
                    F.cross_entropy(net(x[n : n + 1]), y[n : n + 1]), weights
                )  # PLANTED private
                rows.append(torch.cat([slope.flatten() for slope in slopes]))
            each = torch.stack(rows)
            each = each / each.norm(dim=1, keepdim=True).clamp(min=1.0)
            total = each.mean(0) + 0.01 * torch.randn(each.shape[1])
            for p, part in zip(weights, total.split([p.numel() for p in weights]), strict=True):
                p.grad = part.view_as(p)
            optimizer.step()


# --- nothing planted ------------------------------------------------------------------------------------


@script
def healthy_segmented(out: Path, hook: ss.ProfilerHook) -> None:
    """Every pixel's kind, with what is skipped put back."""

    class Segmenting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 24, 3, 1, 1), nn.BatchNorm2d(24), nn.ReLU())
            self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(24, 48, 3, 1, 1), nn.ReLU())
            self.up = nn.ConvTranspose2d(48, 24, 2, 2)
            self.head = nn.Conv2d(48, 5, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.down(x)
            return self.head(torch.cat([x, self.up(self.deep(x))], 1))

    net = Segmenting()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, _ in run.steps(images(12, 64)):
            loss = F.cross_entropy(net(x), torch.randint(5, (12, 64, 64)))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()


@script
def healthy_sounds(out: Path, hook: ss.ProfilerHook) -> None:
    """Spectra are made of a whole batch at once, and the loss is read now and then."""
    net = nn.Sequential(
        nn.Conv1d(201, 192, 3, padding=1), nn.ReLU(), nn.Conv1d(192, 192, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(192, 12),
    )  # fmt: skip
    optimizer, window, told = adam(net), torch.hann_window(400), []
    data = TensorDataset(torch.randn(STEPS * 24, 16_000), torch.randint(12, (STEPS * 24,)))
    with ss.Run(out, hooks=[hook]) as run:
        for n, (wave, kind) in enumerate(run.steps(DataLoader(data, 24))):
            spectrum = torch.stft(wave, 400, 160, window=window, return_complex=True).abs().log1p()
            loss = F.cross_entropy(net(spectrum), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if n % 10 == 0:
                told.append(loss.item())


@script
def healthy_graph(out: Path, hook: ss.ProfilerHook) -> None:
    """Messages along all edges at once."""
    edges, x = torch.randint(3000, (2, 24_000)), torch.randn(3000, 96)
    degree = torch.bincount(edges[1], minlength=3000).clamp(min=1)[:, None]
    first, second, head = nn.Linear(192, 192), nn.Linear(384, 192), nn.Linear(192, 7)
    optimizer, kinds = adam(first, second, head), torch.randint(7, (3000,))

    def mean(values: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(values).index_add(0, edges[1], values[edges[0]]) / degree

    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            inside = F.relu(first(torch.cat([x, mean(x)], 1)))
            inside = F.relu(second(torch.cat([inside, mean(inside)], 1)))
            loss = F.cross_entropy(head(inside), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def healthy_policy(out: Path, hook: ss.ProfilerHook) -> None:
    """Proximal policy optimization on what was collected before, in parts."""
    body = nn.Sequential(nn.Linear(48, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh())
    actor, critic = nn.Linear(512, 6), nn.Linear(512, 1)
    optimizer = adam(body, actor, critic)
    seen, actions, gains = torch.randn(4096, 48), torch.randint(6, (4096,)), torch.randn(4096)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            part = torch.randperm(4096)[:1024]
            inside = body(seen[part])
            choice = torch.distributions.Categorical(logits=actor(inside))
            ratio = (choice.log_prob(actions[part]) + 1.8).exp()
            gain = torch.minimum(ratio * gains[part], ratio.clamp(0.8, 1.2) * gains[part]).mean()
            loss = F.mse_loss(critic(inside).squeeze(1), gains[part]) - gain - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(body.parameters(), 0.5)
            optimizer.step()
            run.scalar("gain", gain)


@script
def healthy_shop(out: Path, hook: ss.ProfilerHook) -> None:
    """A recommender of bags of goods; a worker draws ready batches."""
    bags, tower = (
        nn.EmbeddingBag(4000, 64),
        nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 500)),
    )
    optimizer = adam(bags, tower)
    data = [(torch.randint(4000, (512, 20)), torch.randint(500, (512,))) for _ in range(STEPS)]
    loader = DataLoader(data, batch_size=None, num_workers=1)  # type: ignore[arg-type]
    with ss.Run(out, hooks=[hook]) as run:
        for goods, bought in run.steps(loader):
            loss = F.cross_entropy(tower(bags(goods)), bought)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def healthy_physics(out: Path, hook: ss.ProfilerHook) -> None:
    """A network that solves the heat equation; it is saved when all is done."""
    net = nn.Sequential(nn.Linear(2, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
    optimizer = adam(net)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            at = torch.rand(1536, 2, requires_grad=True)
            heat = net(at)
            (slope,) = torch.autograd.grad(heat.sum(), at, create_graph=True)
            (bend,) = torch.autograd.grad(slope[:, 0].sum(), at, create_graph=True)
            loss = (slope[:, 1] - 0.1 * bend[:, 0]).square().mean() + heat.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(net.state_dict(), out / "net.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    SCRIPTS[sys.argv[1]](
        Path(sys.argv[2]),
        ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False),
    )
