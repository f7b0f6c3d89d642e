"""Trainings in PyTorch of many fields: reinforcement learning, graphs, speech, pictures, text, physics.

Called as ``python torch_fields.py TRAINING PROGRAM DIRECTORY``, in an environment that
``planted.py`` makes. The table in ``programs.txt`` has all trainings and programs.
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
import string
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from hook import profiler_hook
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import stepscope as ss


def perceptron(*widths: int) -> nn.Sequential:
    parts = [(nn.Linear(a, b), nn.GELU()) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*itertools.chain(*parts))[:-1]


def gpt(**more: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    size = {"n_layer": 2, "n_head": 4, "n_embd": 192, "vocab_size": 1200, "n_positions": 128}
    return GPT2LMHeadModel(GPT2Config(**{**size, **more}))


# --- reinforcement learning -----------------------------------------------------------------------------


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


def jpegs(out: Path, hook: ss.ProfilerHook) -> None:
    """Pictures without workers."""
    net = convolutions()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, foreach=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(DataLoader(Jpegs(), 48)):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()


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


def saving_often(out: Path, hook: ss.ProfilerHook) -> None:
    """The Trainer of transformers saves after each step."""
    trainer(out, hook, save_strategy="steps", save_steps=1, save_total_limit=2)


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

    hook = profiler_hook(ranks="all")
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            loss = net(torch.randn(64, 256)).square().mean()
            if rank == 1:
                loss = extra(loss)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.distributed.destroy_process_group()


def later_rank(out: Path, _: ss.ProfilerHook) -> None:
    """One of two ranks has more to do before its backward pass."""
    torch.multiprocessing.spawn(one_of_two, (out,), nprocs=2)


# --- nothing planted --------------------------------------------------------------------------------------


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


def healthy_encoder(out: Path, hook: ss.ProfilerHook) -> None:
    """Lightning, logging its loss."""
    lightning(out, hook, autoencoder(""), DataLoader(torch.randn(14 * 128, 256), 128))


def healthy_masked(out: Path, hook: ss.ProfilerHook) -> None:
    """The Trainer of transformers, as it comes."""
    trainer(out, hook)


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


STEPS = 12

Pair = tuple[torch.Tensor, torch.Tensor]


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


def script(name: str, directory: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    globals()[name](Path(directory), profiler_hook())


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], sys.argv[3])
