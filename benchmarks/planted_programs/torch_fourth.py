"""Trainings in PyTorch, a fourth set judged at first sight: scripts of many fields, as functions.

Called as ``python torch_fourth.py NAME DIRECTORY``. Each function is a script, which is given a recorder.
"""

from __future__ import annotations

import collections
import csv
import gzip
import http.server
import io
import itertools
import math
import os
import pickle
import random
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from torch import nn
from torch.utils.data import DataLoader, Dataset

import stepscope as ss

SCRIPTS: dict[str, Callable[[Path, ss.ProfilerHook], None]] = {}


def script(function: Callable[[Path, ss.ProfilerHook], None]) -> Callable[[Path, ss.ProfilerHook], None]:
    SCRIPTS[function.__name__] = function
    return function


def perceptron(*widths: int) -> nn.Sequential:
    parts = [(nn.Linear(a, b), nn.GELU()) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*itertools.chain(*parts))[:-1]


def gpt(**more: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    size = {"n_layer": 2, "n_head": 4, "n_embd": 192, "vocab_size": 1200, "n_positions": 128}
    return GPT2LMHeadModel(GPT2Config(**{**size, **more}))


# --- reinforcement learning -----------------------------------------------------------------------------


@script
def replay_memory(out: Path, hook: ss.ProfilerHook) -> None:
    """Deep Q-learning: a batch is drawn from a deque of transitions in the loop."""
    network, target = perceptron(64, 512, 512, 6), perceptron(64, 512, 512, 6)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3, fused=True)
    memory = collections.deque(
        ((np.random.rand(64).tolist(), n % 6, 0.5, np.random.rand(64).tolist()) for n in range(20_000)),
        20_000,
    )

    def draw(size: int) -> list[torch.Tensor]:
        chosen = [memory[n] for n in random.sample(range(len(memory)), size)]
        return [torch.tensor(column) for column in zip(*chosen, strict=True)]  # PLANTED replay_memory

    with ss.Run(out, hooks=[hook]) as run:
        for _ in range(14):
            with run.step():
                state, action, reward, after = draw(512)
                with torch.no_grad():
                    wanted = reward + 0.99 * target(after).max(1).values
                got = network(state).gather(1, action[:, None])[:, 0]
                loss = F.smooth_l1_loss(got, wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


class Pole:
    """A pole on a cart, in plain Python."""

    def __init__(self) -> None:
        self.x, self.v, self.angle, self.turn = (random.uniform(-0.05, 0.05) for _ in range(4))

    def push(self, force: float) -> float:
        for _ in range(20):
            sine, cosine = math.sin(self.angle), math.cos(self.angle)
            part = (force + 0.05 * self.turn**2 * sine) / 1.1
            bend = (9.8 * sine - cosine * part) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
            self.v, self.turn = self.v + 0.001 * part, self.turn + 0.001 * bend
            self.x, self.angle = self.x + 0.001 * self.v, self.angle + 0.001 * self.turn
        return abs(self.angle)


@script
def environments(out: Path, hook: ss.ProfilerHook) -> None:
    """A policy gradient whose environments are stepped one after the other in Python."""
    policy = perceptron(4, 512, 512, 512, 2)
    optimizer = torch.optim.Adam(policy.parameters(), 1e-3, fused=True)
    poles = [Pole() for _ in range(256)]
    with ss.Run(out, hooks=[hook]) as run:
        for _ in range(14):
            with run.step():
                seen = torch.tensor([[p.x, p.v, p.angle, p.turn] for p in poles])
                odds = torch.distributions.Categorical(logits=policy(seen))
                act = odds.sample()
                paid = [
                    -p.push(10.0 * a - 5) for p, a in zip(poles, act.tolist(), strict=True)
                ]  # PLANTED environments
                loss = -(odds.log_prob(act) * torch.tensor(paid)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


# --- graphs -----------------------------------------------------------------------------------------------


class Neighbours(Dataset):
    """Samples the neighbourhood of nodes of a graph."""

    def __init__(self, nodes: int = 4000) -> None:
        self.edges = {n: random.sample(range(nodes), 25) for n in range(nodes)}
        self.features = torch.randn(nodes, 128)

    def __len__(self) -> int:
        return 14 * 128

    def __getitem__(self, node: int) -> tuple[torch.Tensor, int]:
        around = {node}
        for _ in range(2):
            around |= {m for n in around for m in random.sample(self.edges[n], 10)}  # PLANTED neighbours
        return self.features[list(around)].mean(0), node % 7


@script
def neighbours(out: Path, hook: ss.ProfilerHook) -> None:
    """GraphSAGE with neighbours sampled in the data set."""
    model = perceptron(128, 768, 768, 7)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(DataLoader(Neighbours(), batch_size=128)):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


@script
def messages(out: Path, hook: ss.ProfilerHook) -> None:
    """Messages along edges, an edge at a time."""
    model, first = perceptron(64, 64), perceptron(64, 64)
    optimizer = torch.optim.AdamW([*model.parameters(), *first.parameters()], fused=True)
    nodes, edges = torch.randn(200, 64), [(random.randrange(200), random.randrange(200)) for _ in range(900)]

    def spread(x: torch.Tensor) -> torch.Tensor:
        got = [x[n] for n in range(len(x))]
        for a, b in edges:
            got[b] = got[b] + 0.1 * x[a]  # PLANTED messages
        return torch.stack(got)

    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            loss = model(spread(first(nodes))).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# --- speech and pictures --------------------------------------------------------------------------------


def spectrogram(wave: np.ndarray) -> np.ndarray:
    frames = np.lib.stride_tricks.sliding_window_view(wave, 400)[::160]
    return np.log1p(np.abs(np.fft.rfft(frames * np.hanning(400))))  # PLANTED spectrograms


@script
def spectrograms(out: Path, hook: ss.ProfilerHook) -> None:
    """Speech: features are computed as batches are put together."""

    def together(waves: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack([spectrogram(wave) for wave in waves])).float()

    waves = [np.random.randn(16_000).astype(np.float32) for _ in range(14 * 16)]
    net = nn.GRU(201, 96, batch_first=True)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, foreach=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x in run.steps(DataLoader(waves, batch_size=16, collate_fn=together)):
            optimizer.zero_grad()
            net(x)[0].square().mean().backward()
            optimizer.step()


class Jpegs(Dataset):
    """Pictures that are unpacked from JPEG and made smaller."""

    def __init__(self) -> None:
        from PIL import Image

        noise = Image.fromarray(np.random.randint(0, 255, (256, 256, 3), np.uint8))
        packed = io.BytesIO()
        noise.save(packed, "JPEG")
        self.packed = packed.getvalue()

    def __len__(self) -> int:
        return 14 * 48

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        picture = Image.open(io.BytesIO(self.packed)).convert("RGB").resize((32, 32))  # PLANTED jpegs
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255, at % 10


def convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
        nn.Conv2d(48, 48, 3, stride=2, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(768, 10),
    )  # fmt: skip


@script
def jpegs(out: Path, hook: ss.ProfilerHook) -> None:
    """Pictures without workers."""
    net = convolutions()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, foreach=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(DataLoader(Jpegs(), 48)):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()


@script
def jitter(out: Path, hook: ss.ProfilerHook) -> None:
    """Colours are changed picture by picture, in the training loop."""
    net, rng = convolutions(), np.random.default_rng(0)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, foreach=True)

    def varied(pictures: np.ndarray) -> np.ndarray:
        found = []
        for each in pictures:
            turned = np.rot90(each, rng.integers(4), (1, 2))[:, ::-1]
            grey = turned.mean(0, keepdims=True).repeat(3, 0)
            found.append(
                np.clip(grey + (turned - grey) * rng.uniform(0.6, 1.4), 0, 1) ** 1.1
            )  # PLANTED jitter
        return np.stack(found).astype(np.float32)

    pictures = np.random.rand(160, 3, 48, 48)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            x = torch.from_numpy(varied(pictures))[:32, :, ::2, ::2]
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()


# --- language -------------------------------------------------------------------------------------------


@script
def edit_distance(out: Path, hook: ss.ProfilerHook) -> None:
    """The word error of every batch, by dynamic programming in Python."""
    model = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def distance(a: list[int], b: list[int]) -> int:
        row = list(range(len(b) + 1))
        for n, x in enumerate(a, 1):
            last, row[0] = row[0], n
            for m, y in enumerate(b, 1):
                last, row[m] = (
                    row[m],
                    min(row[m] + 1, row[m - 1] + 1, last + (x != y)),
                )  # PLANTED edit_distance
        return row[-1]

    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            ids = torch.randint(0, 1200, (12, 64))
            answer = model(ids, labels=ids)
            answer.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            best = answer.logits.argmax(-1).tolist()
            errors = [distance(a * 2, b * 2) for a, b in zip(best, ids.tolist(), strict=True)]
            run.scalar("errors", sum(errors) / len(errors))


@script
def lengths(out: Path, hook: ss.ProfilerHook) -> None:
    """A compiled model of language that sees another length in each batch."""
    model = torch.compile(perceptron(1200, 192, 1200), dynamic=False, backend="eager")
    torch._dynamo.config.recompile_limit = 100
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(14)):
            words = torch.randn(8 * (60 - 3 * n), 1200)
            loss = model(words).square().mean()  # PLANTED lengths
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


@script
def perplexity(out: Path, hook: ss.ProfilerHook) -> None:
    """The whole of a held-out text after each step."""
    model, held = gpt(), [torch.randint(0, 1200, (16, 64)) for _ in range(3)]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def ppl() -> float:
        with torch.no_grad():
            total = sum(model(ids, labels=ids).loss for ids in held)  # PLANTED perplexity
        return math.exp(min(20.0, float(total) / len(held)))

    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            ids = torch.randint(0, 1200, (16, 64))
            model(ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.scalar("ppl", ppl())


@script
def stories(out: Path, hook: ss.ProfilerHook) -> None:
    """A text is written by the model after each step, to look at."""
    model = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            ids = torch.randint(0, 1200, (16, 64))
            model(ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            model.eval()
            model.generate(ids[:2, :8], max_new_tokens=30, do_sample=False, pad_token_id=0)  # PLANTED stories
            model.train()


@script
def pretrained(out: Path, hook: ss.ProfilerHook) -> None:
    """The model is put on disk after each step, as transformers does."""
    model = gpt(n_embd=256, n_layer=4)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            ids = torch.randint(0, 1200, (4, 32))
            model(ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            model.save_pretrained(out / "newest")  # PLANTED pretrained


# --- what is done with losses, gradients and weights ----------------------------------------------


@script
def steps_of_time(out: Path, hook: ss.ProfilerHook) -> None:
    """A sequence's loss by a recursion over time: the forward algorithm of a hidden Markov model."""
    net = perceptron(40, 128, 24)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    moves = nn.Parameter(torch.randn(24, 24))

    def likelihood(emitted: torch.Tensor) -> torch.Tensor:
        alpha = emitted[:, 0]
        for t in range(1, emitted.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + moves, 1) + emitted[:, t]  # PLANTED steps_of_time
        return torch.logsumexp(alpha, 1).mean()

    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            loss = -likelihood(net(torch.randn(4, 220, 40)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def guarded(out: Path, hook: ss.ProfilerHook) -> None:
    """Each gradient is asked whether it is finite, and how large."""
    net = nn.Sequential(*(nn.Linear(96, 96) for _ in range(40)))
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            optimizer.zero_grad()
            net(torch.randn(64, 96)).square().mean().backward()
            largest = {}
            for name, p in net.named_parameters():
                largest[name] = [float(row.abs().max()) for row in p.grad.split(16)]  # PLANTED guarded
            if all(math.isfinite(v) for row in largest.values() for v in row):
                optimizer.step()


@script
def adagrad(out: Path, hook: ss.ProfilerHook) -> None:
    """Many parameters and an optimizer that takes them one by one."""
    net = nn.ModuleList(perceptron(24, 24, 24) for _ in range(60))
    optimizer = torch.optim.NAdam(net.parameters(), foreach=False)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            x = torch.randn(256, 24)
            torch.stack([part(x) for part in net]).square().mean().backward()
            optimizer.step()  # PLANTED adagrad
            optimizer.zero_grad()


@script
def rows_of_csv(out: Path, hook: ss.ProfilerHook) -> None:
    """All activations go into a table of text."""
    net, table = perceptron(128, 512, 512, 64), (out / "values.csv").open("w", newline="")
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    write = csv.writer(table)
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(14)):
            y = net(torch.randn(256, 128))
            optimizer.zero_grad()
            y.square().mean().backward()
            optimizer.step()
            write.writerows([n, *map("{:.5f}".format, row)] for row in y.tolist() * 4)  # PLANTED rows_of_csv
    table.close()


@script
def told(out: Path, hook: ss.ProfilerHook) -> None:
    """A table of gradients on the terminal in every step."""
    net = nn.Sequential(*(nn.Linear(128, 128) for _ in range(24)))
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(14)):
            optimizer.zero_grad()
            net(torch.randn(256, 128)).square().mean().backward()
            for name, p in net.named_parameters():
                print(n, name, p.grad.flatten()[:800])  # PLANTED told
            optimizer.step()


@script
def packed(out: Path, hook: ss.ProfilerHook) -> None:
    """Weights are kept, compressed, after each step."""
    net = perceptron(128, 512, 512, 64)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def keep(n: int) -> None:
        with gzip.open(out / f"{n % 2}.gz", "wb", compresslevel=1) as file:
            pickle.dump({k: v.numpy() for k, v in net.state_dict().items()}, file)  # PLANTED packed

    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(14)):
            net(torch.randn(256, 128)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            keep(n)


@script
def arrays(out: Path, hook: ss.ProfilerHook) -> None:
    """Weights and moments as a file of numpy."""
    net = perceptron(256, 1024, 1024, 64)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def persist() -> None:
        moments = {f"m{n}": s["exp_avg"].numpy() for n, s in enumerate(optimizer.state.values())}
        np.savez(
            out / "now.npz", **{k: v.numpy() for k, v in net.state_dict().items()}, **moments
        )  # PLANTED arrays

    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            net(torch.randn(64, 256)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            persist()


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers after a while."""

    def do_GET(self) -> None:
        threading.Event().wait(0.06)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        pass


@script
def asked(out: Path, hook: ss.ProfilerHook) -> None:
    """A server is asked in every step whether to go on."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    net = perceptron(128, 512, 512, 64)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def go_on() -> bool:
        with opener.open(f"http://127.0.0.1:{server.server_port}/") as answer:  # PLANTED asked
            return answer.read() == b"ok"

    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            net(torch.randn(256, 128)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            assert go_on()
    server.shutdown()


@script
def rate_limited(out: Path, hook: ss.ProfilerHook) -> None:
    """Not more than so many steps a second."""
    net, never = perceptron(128, 512, 512, 64), threading.Event()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in range(14):
            with run.step():
                net(torch.randn(256, 128)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                never.wait(0.05)  # PLANTED rate_limited


# --- trainers -------------------------------------------------------------------------------------------


def lightning(out: Path, hook: ss.ProfilerHook, module: Any, *data: Any, **options: Any) -> None:
    import lightning.pytorch as pl

    from stepscope.integrations.lightning import StepscopeCallback

    os.environ["LOCAL_RANK"] = "0"
    pl.Trainer(
        max_steps=14, accelerator="cpu", logger=False, enable_checkpointing=False, default_root_dir=out,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        callbacks=[StepscopeCallback(out, hooks=[hook])], **options,
    ).fit(module, *data)  # fmt: skip


def autoencoder(planted: str) -> Any:
    import lightning.pytorch as pl

    class Autoencoder(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.seen = perceptron(256, 640, 32, 640, 256), []

        def training_step(self, x: torch.Tensor, _: int) -> torch.Tensor:
            loss = F.mse_loss(self.net(x), x)
            if planted == "histories":
                values = self.net[0].weight.detach().flatten().tolist()
                self.seen.append(
                    sorted(round(v, 4) for v in values)[:: len(values) // 100]
                )  # PLANTED histories
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), 1e-3, fused=True)

    return Autoencoder()


@script
def histories(out: Path, hook: ss.ProfilerHook) -> None:
    """Quantiles in Python within a training step of Lightning."""
    lightning(out, hook, autoencoder("histories"), DataLoader(torch.randn(14 * 128, 256), 128))


def trainer(out: Path, hook: ss.ProfilerHook, kind: Any = None, collate: Any = None, **options: Any) -> None:
    from transformers import Trainer, TrainingArguments

    from stepscope.integrations.transformers import StepscopeCallback

    rows = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 1200, (14 * 8, 48))]
    arguments = TrainingArguments(
        str(out / "out"), per_device_train_batch_size=8, num_train_epochs=1, report_to="none", use_cpu=True,
        disable_tqdm=True, logging_steps=50, optim="adamw_torch_fused", dataloader_pin_memory=False,
        **{"save_strategy": "no", **options},
    )  # fmt: skip
    (kind or Trainer)(
        gpt(), arguments, train_dataset=rows, data_collator=collate,
        callbacks=[StepscopeCallback(out, hooks=[hook])],
    ).train()  # fmt: skip


@script
def saving_often(out: Path, hook: ss.ProfilerHook) -> None:
    """The Trainer of transformers saves after each step."""
    trainer(out, hook, save_strategy="steps", save_steps=1, save_total_limit=2)


@script
def token_losses(out: Path, hook: ss.ProfilerHook) -> None:
    """A Trainer whose loss looks at every token's value."""
    from transformers import Trainer

    class Watching(Trainer):
        def compute_loss(self, model: nn.Module, inputs: dict[str, torch.Tensor], **more: Any) -> Any:
            loss = super().compute_loss(model, inputs, **more)
            each = torch.randn(3000)
            self.hard = sum(each[n].item() > 1 for n in range(len(each)))  # PLANTED token_losses
            return loss

    trainer(out, hook, Watching)


def one_of_two(rank: int, out: Path) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    net = nn.parallel.DistributedDataParallel(perceptron(256, 1024, 1024, 256))
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def extra(loss: torch.Tensor) -> torch.Tensor:
        for _ in range(10):
            loss = loss + 1e-6 * torch.linalg.matrix_norm(torch.randn(300, 300), 2)  # PLANTED later_rank
        return loss

    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, ranks="all"
    )  # fmt: skip
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            loss = net(torch.randn(64, 256)).square().mean()
            if rank == 1:
                loss = extra(loss)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.distributed.destroy_process_group()


@script
def later_rank(out: Path, _: ss.ProfilerHook) -> None:
    """One of two ranks has more to do before its backward pass."""
    torch.multiprocessing.spawn(one_of_two, (out,), nprocs=2)


# --- nothing planted --------------------------------------------------------------------------------------


@script
def healthy_adversaries(out: Path, hook: ss.ProfilerHook) -> None:
    """A generator and its critic, two optimizers."""
    made, critic = perceptron(64, 512, 512, 256), perceptron(256, 512, 512, 1)
    forward = torch.optim.Adam(made.parameters(), 1e-4, fused=True)
    against = torch.optim.Adam(critic.parameters(), 1e-4, fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x in run.steps(DataLoader(torch.randn(14 * 192, 256), 192)):
            fake = made(torch.randn(192, 64))
            against.zero_grad()
            (F.softplus(critic(fake.detach())) + F.softplus(-critic(x))).mean().backward()
            against.step()
            forward.zero_grad()
            F.softplus(-critic(fake)).mean().backward()
            forward.step()


@script
def healthy_variational(out: Path, hook: ss.ProfilerHook) -> None:
    """A variational autoencoder, its two losses recorded."""
    encode, decode = perceptron(400, 768, 64), perceptron(32, 768, 400)
    optimizer = torch.optim.AdamW([*encode.parameters(), *decode.parameters()], fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            x = torch.rand(256, 400)
            mean, log_variance = encode(x).chunk(2, 1)
            z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
            again = F.binary_cross_entropy_with_logits(decode(z), x)
            apart = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()
            optimizer.zero_grad()
            (again + 0.1 * apart).backward()
            optimizer.step()
            run.scalars({"again": again, "apart": apart})


@script
def healthy_language(out: Path, hook: ss.ProfilerHook) -> None:
    """A small GPT-2, clipped gradients, a schedule."""
    model = gpt(n_embd=256)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 14)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in range(14):
            with run.step():
                ids = torch.randint(0, 1200, (16, 96))
                loss = model(ids, labels=ids).loss
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()


@script
def healthy_half(out: Path, hook: ss.ProfilerHook) -> None:
    """Convolutions in bfloat16 with channels last."""
    net = convolutions().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, foreach=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            x = torch.randn(96, 3, 32, 32).to(memory_format=torch.channels_last)
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(net(x), torch.zeros(96, dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def healthy_meta(out: Path, hook: ss.ProfilerHook) -> None:
    """Inner steps by ``torch.func``, a batch of tasks at once."""
    net = perceptron(64, 384, 384, 8)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def adapted(p: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def error(q: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.mse_loss(torch.func.functional_call(net, q, (x,)), y)

        slope = torch.func.grad(error)(p)
        return error({name: p[name] - 0.1 * slope[name] for name in p})

    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            x, y = torch.randn(8, 96, 64), torch.randn(8, 96, 8)
            loss = torch.func.vmap(adapted, (None, 0, 0))(dict(net.named_parameters()), x, y).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@script
def healthy_encoder(out: Path, hook: ss.ProfilerHook) -> None:
    """Lightning, logging its loss."""
    lightning(out, hook, autoencoder(""), DataLoader(torch.randn(14 * 128, 256), 128))


@script
def healthy_masked(out: Path, hook: ss.ProfilerHook) -> None:
    """The Trainer of transformers, as it comes."""
    trainer(out, hook)


@script
def healthy_twins(out: Path, hook: ss.ProfilerHook) -> None:
    """A contrastive loss over two views, the running average of the weights fused."""
    net = perceptron(256, 768, 128)
    average = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn()
    )
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def views() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(14):
            x = torch.randn(384, 256)
            yield x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)

    with ss.Run(out, hooks=[hook]) as run:
        for a, b in run.steps(views()):
            near = F.normalize(net(a)) @ F.normalize(net(b)).T / 0.1
            loss = F.cross_entropy(near, torch.arange(len(a)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update_parameters(net)
            run.scalar("loss", loss.item())


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    SCRIPTS[sys.argv[1]](
        Path(sys.argv[2]),
        ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False),
    )
