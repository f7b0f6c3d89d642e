"""Trainings whose loops and logs are unlike those that rules were tuned on: kinds, frameworks, habits.

Each is a function that trains something small, in PyTorch, JAX or Keras, and yields what a person's loop
would have logged: seconds since the last point, step, numbers by tag. Rates, sizes, batches and paces are
drawn from a seed. They are trained where they are judged, and not committed.
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from fresh import Draw
from record import BEGIN, Planted

from stepscope.events import EventWriter

Event = tuple[float, int, dict[str, float]]
Log = Iterator[Event]
Healthy = Callable[[Draw], Log]
Broken = Callable[[Draw], tuple[Planted, Log]]

HEALTHY: dict[str, Healthy] = {}
BROKEN: dict[str, Broken] = {}


def healthy(make: Healthy) -> Healthy:
    """Add a kind of healthy training."""
    HEALTHY[make.__name__] = make
    return make


def broken(make: Broken) -> Broken:
    """Add a kind of training in which something is broken."""
    BROKEN[make.__name__] = make
    return make


def every(log: Log, count: int, *, mean: bool = False, tag: str = "") -> Log:
    """Log only each n-th step: its own numbers, or the means since the last that was logged."""
    seconds, seen = 0.0, {}  # type: ignore[var-annotated]
    for number, (took, step, numbers) in enumerate(log):
        seconds += took
        for name, value in numbers.items():
            seen.setdefault(name, []).append(value)
        if number % count == count - 1:
            yield seconds, step, {n: float(np.mean(v)) if mean else v[-1] for n, v in seen.items()}
            seconds, seen = 0.0, {}


def pace(draw: Draw) -> Callable[[], float]:
    """Return the seconds of a step, another each time."""
    usual, rng = draw.log(0.002, 20.0), np.random.default_rng(draw.whole(0, 1 << 30))
    return lambda: float(usual * math.exp(0.05 * rng.normal()))


# --- what is trained -------------------------------------------------------------------------------------


class Net:
    """A network of PyTorch with its optimizer, and data of scikit-learn's."""

    def __init__(
        self, draw: Draw, sizes: tuple[int, ...] = (64, 48, 10), act: str = "relu", **more: Any
    ) -> None:
        import torch
        from tasks import digits, perceptron

        self.seed = draw.whole(0, 1 << 30)
        torch.manual_seed(self.seed)
        self.rng = np.random.default_rng(self.seed)
        self.x, self.y, self.vx, self.vy = digits()
        self.model = perceptron(list(sizes), act)
        self.lr = more.get("lr", draw.log(5e-4, 4e-3))
        self.batch = more.get("batch", draw.whole(16, 96))
        kind = more.get("kind", draw.one("adam", "adamw", "sgd"))
        self.optimizer: Any = {
            "adam": lambda: torch.optim.Adam(self.model.parameters(), self.lr),
            "adamw": lambda: torch.optim.AdamW(self.model.parameters(), self.lr, weight_decay=0.02),
            "sgd": lambda: torch.optim.SGD(self.model.parameters(), 20 * self.lr, momentum=0.8),
        }[kind]()
        self.norm = 0.0

    def rows(self, count: int | None = None) -> Any:
        """Return rows of a batch."""
        return self.rng.integers(0, len(self.x), count or self.batch)

    def learn(self, loss: Any) -> float:
        """Do one step, and return the loss."""
        import torch

        self.optimizer.zero_grad()
        loss.backward()
        norms = [p.grad.norm() for p in self.model.parameters() if p.grad is not None]
        self.norm = float(torch.stack(norms).norm())
        self.optimizer.step()
        return float(loss.detach())

    def entropy(self, x: Any, y: Any, **more: Any) -> Any:
        """Return the cross entropy."""
        from torch.nn import functional as F

        return F.cross_entropy(self.model(x), y, **more)

    def step(self, **more: Any) -> float:
        """Do one step on digits."""
        rows = self.rows()
        return self.learn(self.entropy(self.x[rows], self.y[rows], **more))

    def judged(self, count: int | None = None) -> tuple[float, float]:
        """Return loss and accuracy of the evaluation."""
        import torch

        rows = slice(None) if count is None else self.rng.integers(0, len(self.vx), count)
        with torch.no_grad():
            out = self.model(self.vx[rows])
            loss = float(torch.nn.functional.cross_entropy(out, self.vy[rows]))
            return loss, float((out.argmax(1) == self.vy[rows]).float().mean())

    def set_rate(self, factor: float) -> float:
        """Set the learning rate."""
        for group in self.optimizer.param_groups:
            group.setdefault("base", group["lr"])
            group["lr"] = factor * group["base"]
        return float(self.optimizer.param_groups[0]["lr"])


# --- healthy: loops that log in their own way ------------------------------------------------------------


@healthy
def folds_one_tag(draw: Draw) -> Log:
    """Cross-validation whose folds write one tag, each from step 0."""
    took, steps = pace(draw), draw.whole(120, 300)
    for _ in range(draw.whole(3, 6)):
        net = Net(draw)
        for step in range(steps):
            yield took(), step, {"train_loss": net.step()}
            if step % 30 == 29:
                yield took(), step, {"val_loss": net.judged()[0]}


@healthy
def folds_go_on(draw: Draw) -> Log:
    """Cross-validation whose folds write one tag, with steps that go on."""
    took, steps, at = pace(draw), draw.whole(120, 300), 0
    for fold in range(draw.whole(3, 6)):
        net = Net(draw)
        for _ in range(steps):
            yield took(), at, {"loss": net.step(), "fold": fold}
            at += 1


@healthy
def folds_by_epoch(draw: Draw) -> Log:
    """Cross-validation with a point an epoch."""
    took, epochs, at = pace(draw), draw.whole(8, 20), 0
    for _ in range(5):
        net = Net(draw)
        for _ in range(epochs):
            train = float(np.mean([net.step() for _ in range(20)]))
            loss, accuracy = net.judged()
            yield 20 * took(), at, {"loss/train": train, "loss/val": loss, "acc/val": accuracy}
            at += 1


@healthy
def micro_steps(draw: Draw) -> Log:
    """Accumulation that logs each micro-batch under the same step."""
    took, parts, net = pace(draw), draw.whole(2, 8), Net(draw)
    for step in range(draw.whole(150, 300)):
        net.optimizer.zero_grad()
        for _ in range(parts):
            rows = net.rows(16)
            loss = net.entropy(net.x[rows], net.y[rows])
            (loss / parts).backward()
            yield took(), step, {"train/loss": float(loss)}
        net.optimizer.step()


@healthy
def running_mean(draw: Draw) -> Log:
    """The mean since the epoch began, as progress bars show it."""
    took, net, epoch = pace(draw), Net(draw), draw.whole(30, 120)
    seen: list[float] = []
    for step in range(draw.whole(500, 1000)):
        if step % epoch == 0:
            seen = []
        seen.append(net.step())
        yield took(), step, {"running_loss": float(np.mean(seen))}


@healthy
def smoothed_from_zero(draw: Draw) -> Log:
    """A moving average that begins at 0 and is not corrected for it."""
    took, net, decay, mean = pace(draw), Net(draw), draw.one(0.9, 0.98, 0.99), 0.0
    for step in range(draw.whole(500, 900)):
        mean = decay * mean + (1 - decay) * net.step()
        yield took(), step, {"train/loss_ema": mean, "loss": mean}


@healthy
def smoothed(draw: Draw) -> Log:
    """A moving average from the first value on."""
    took, net, mean = pace(draw), Net(draw), math.nan
    decay = draw.one(0.95, 0.99)
    for step in range(draw.whole(400, 900)):
        loss = net.step()
        mean = loss if math.isnan(mean) else decay * mean + (1 - decay) * loss
        yield took(), step, {"train/loss": mean, "lr": net.lr}


@healthy
def sums_of_batches(draw: Draw) -> Log:
    """Sums over the batch, the last batch of an epoch smaller; evaluation sums over its own rows."""
    took, net = pace(draw), Net(draw, batch=64)
    for step in range(draw.whole(300, 700)):
        net.batch = 64 if step % 24 != 23 else 28
        loss = net.step() * net.batch
        yield took(), step, {"Loss/train": loss}
        if step % 24 == 23:
            yield 5 * took(), step, {"Loss/test": net.judged()[0] * len(net.vx)}


@healthy
def few_epochs(draw: Draw) -> Log:
    """A dozen epochs, a point each, with the usual metrics."""
    took, net = pace(draw), Net(draw)
    for epoch in range(draw.whole(6, 15)):
        loss = float(np.mean([net.step() for _ in range(24)]))
        val, accuracy = net.judged()
        yield 24 * took(), epoch, {"train_loss": loss, "valid_loss": val, "accuracy": accuracy, "lr": net.lr}


@healthy
def resumed(draw: Draw) -> Log:
    """A run that goes on from a checkpoint some steps back, without its optimizer's state."""
    import copy

    took, net, cut = pace(draw), Net(draw, kind="adam"), draw.whole(150, 300)
    kept: Any = None
    for step in range(cut):
        if step == cut - draw.whole(20, 60):
            kept = copy.deepcopy(net.model.state_dict()), step
        yield took(), step, {"train/loss": net.step(), "train/lr": net.lr}
    state, begin = kept if kept is not None else (net.model.state_dict(), cut)
    other = Net(draw, kind="adam", lr=net.lr)
    other.model.load_state_dict(state)
    yield draw.log(60, 7200), begin, {"train/loss": other.step(), "train/lr": net.lr}
    for step in range(begin + 1, begin + 350):
        yield took(), step, {"train/loss": other.step(), "train/lr": net.lr}


@healthy
def backwards_logged(draw: Draw) -> Log:
    """Epochs as floats of a hundredth and a loss in the base of ten, logged every so often."""
    took, net = pace(draw), Net(draw)

    def log() -> Log:
        for step in range(draw.whole(500, 900)):
            yield took(), step, {"log10_loss": math.log10(max(net.step(), 1e-9)), "epoch": step / 24}

    yield from every(log(), draw.whole(3, 9))


@healthy
def irregular(draw: Draw) -> Log:
    """Points whenever somebody looked: gaps of 1 to 200 steps."""
    took, net = pace(draw), Net(draw)
    step = 0
    while step < 3000:
        gap = draw.whole(1, 12) if draw.one(True, True, False) else draw.whole(20, 200)
        for _ in range(min(gap, 40)):
            loss = net.step()
        step += gap
        yield gap * took(), step, {"loss": loss, "samples": step * net.batch}


@healthy
def slow_evaluation(draw: Draw) -> Log:
    """Evaluations that take longer than all the steps between them, of which nothing is logged."""
    net, usual = Net(draw), draw.log(0.01, 0.2)
    for step in range(draw.whole(400, 700)):
        yield usual, step, {"train/loss": net.step()}
        if step % 100 == 99:
            yield draw.log(100, 420), step, {"eval/loss": net.judged()[0]}


# --- healthy: training of other kinds --------------------------------------------------------------------


@healthy
def curriculum_told(draw: Draw) -> Log:
    """Stages of harder data, the stage recorded: at each the loss rises at once."""
    took, net, each = pace(draw), Net(draw), draw.whole(150, 300)
    for step in range(4 * each):
        stage, rows = step // each, net.rows()
        keep = np.flatnonzero(net.y.numpy() < (2, 4, 7, 10)[stage])
        rows = net.rng.choice(keep, net.batch)
        loss = net.learn(net.entropy(net.x[rows], net.y[rows]))
        yield took(), step, {"train/loss": loss, "curriculum/stage": stage, "grad_norm": net.norm}


@healthy
def curriculum_untold(draw: Draw) -> Log:
    """Stages of noisier data that nothing records, evaluated on the last stage's."""
    import torch

    took, net, each = pace(draw), Net(draw), draw.whole(150, 300)
    for step in range(4 * each):
        rows = net.rows()
        x = net.x[rows] + 0.12 * (step // each) * torch.randn(net.batch, 64)
        yield took(), step, {"train/loss": net.learn(net.entropy(x, net.y[rows]))}
        if step % 25 == 24:
            yield took(), step, {"eval/loss": net.judged()[0]}


@healthy
def lengths_grow(draw: Draw) -> Log:
    """A language model whose sequences grow longer by stages."""
    import torch
    from tasks import Language

    took, task = pace(draw), Language(8, draw.whole(0, 9999), {"length": 48})
    optimizer = torch.optim.AdamW(task.model.parameters(), draw.log(1e-3, 4e-3))
    for step in range(360):
        task.length = (6, 12, 24, 48)[step // 90]
        task.place.data.requires_grad_(True)
        said, at = _text(task), task.length
        out = task.head(task.body(task.table(said[:, :-1]) + task.place[:at]))
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), said[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(task.model.parameters(), 1.0))
        optimizer.step()
        yield took() * at / 48, step, {"loss": float(loss), "seq_len": at, "grad_norm": norm}


def _text(task: Any) -> Any:
    import torch
    from tasks import text

    at = torch.tensor(task.rng.integers(0, len(text()) - task.length - 1, task.batch))
    return text()[at[:, None] + torch.arange(task.length + 1)[None]]


@healthy
def grokking(draw: Draw) -> Log:
    """Sums modulo a prime: the training part is learnt at once, the rest long after."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    took, prime = pace(draw), draw.one(17, 19, 23)
    torch.manual_seed(draw.whole(0, 9999))
    pairs = torch.cartesian_prod(torch.arange(prime), torch.arange(prime))[torch.randperm(prime * prime)]
    y, cut = pairs.sum(1) % prime, int(0.6 * prime * prime)
    table, body = nn.Embedding(prime, 48), nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Linear(128, prime))
    model = nn.ModuleList([table, body])
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=1.0)
    for step in range(1800):
        out = body(table(pairs).flatten(1))
        loss, val = F.cross_entropy(out[:cut], y[:cut]), F.cross_entropy(out[cut:].detach(), y[cut:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = (out.argmax(1) == y).float()
        numbers = {"train/loss": float(loss), "train/accuracy": float(right[:cut].mean())}
        if step % 25 == 0:
            numbers |= {"val/loss": float(val), "val/accuracy": float(right[cut:].mean())}
        yield took(), step, numbers


@healthy
def warm_restarts(draw: Draw) -> Log:
    """Cosine with restarts that grow longer, a small network that nearly converges between them."""
    took, net, length = pace(draw), Net(draw, kind="sgd"), draw.whole(40, 90)
    begin = 0
    for step in range(draw.whole(600, 1000)):
        if step == begin + length:
            begin, length = step, 2 * length
        rate = net.set_rate(0.5 * (1 + math.cos(math.pi * (step - begin) / length)) + 1e-3)
        yield took(), step, {"loss": net.step(), "lr": rate, "grad_norm": net.norm}
        if step % 20 == 19:
            yield took(), step, {"val_loss": net.judged()[0]}


@healthy
def smoothed_labels(draw: Draw) -> Log:
    """Labels smoothed by much: the loss stays far from 0 for good."""
    took, net, much = pace(draw), Net(draw), draw.log(0.2, 0.6)
    for step in range(draw.whole(1200, 1800)):
        yield took(), step, {"train/loss": net.step(label_smoothing=much), "train/lr": net.lr}
        if step % 50 == 49:
            yield took(), step, {"eval/loss": net.judged()[0], "eval/accuracy": net.judged()[1]}


@healthy
def scaled_losses(draw: Draw) -> Log:
    """A loss scale that grows until it overflows, and skips that step, as float16 does."""
    took, net, scale, good, skipped = pace(draw), Net(draw), 2.0**10, 0, 0
    limit, grow = draw.log(5e4, 3e5), draw.whole(20, 60)
    for step in range(draw.whole(500, 900)):
        over = scale * net.rng.lognormal(0, 0.3) > limit
        loss = net.step()
        norm = math.inf if over else net.norm
        if over:
            scale, good, skipped = scale / 2, 0, skipped + 1
        else:
            good += 1
            scale, good = (2 * scale, 0) if good == grow else (scale, good)
        numbers = {
            "train/loss": loss,
            "train/grad_norm": norm,
            "amp/loss_scale": scale,
            "amp/skipped": skipped,
        }
        yield took(), step, numbers


@healthy
def weights_change(draw: Draw) -> Log:
    """Two losses, the second of which counts from the middle on: the total jumps, the parts do not."""
    import torch
    from torch.nn import functional as F

    took, net, at = pace(draw), Net(draw, (64, 48, 11)), draw.whole(200, 400)
    shown = draw.one(True, False)
    for step in range(at + 350):
        rows, weight = net.rows(), 0.0 if step < at else 3.0
        out = net.model(net.x[rows])
        main = F.cross_entropy(out[:, :10], net.y[rows])
        other = F.mse_loss(out[:, 10], 3 * net.x[rows].mean(1) + torch.sin(net.y[rows].float()))
        total = net.learn(main + weight * other)
        numbers = {"loss": total, "loss_cls": float(main), "loss_reg": float(other)}
        yield took(), step, numbers | ({"weight_reg": weight} if shown else {})


@healthy
def many_losses(draw: Draw) -> Log:
    """A total and its parts, of which one rises as the others fall, and a regularizer."""
    import torch
    from torch.nn import functional as F

    took, net = pace(draw), Net(draw, (64, 48, 12))
    for step in range(draw.whole(400, 800)):
        rows = net.rows()
        out = net.model(net.x[rows])
        main, rec = F.cross_entropy(out[:, :10], net.y[rows]), out[:, 10:].square().mean()
        size = sum(p.square().sum() for p in net.model.parameters())
        total = net.learn(main + 0.1 * rec + 1e-4 * size)
        numbers = {
            "losses/total": total,
            "losses/main": float(main),
            "losses/l2": float(torch.as_tensor(size)),
        }
        yield took(), step, numbers | {"losses/sparsity": float(out.abs().mean())}


@healthy
def gan_by_letters(draw: Draw) -> Log:
    """A GAN whose losses have names that say little, by the hinge loss or the usual one."""
    import torch
    from tasks import digits, perceptron
    from torch.nn import functional as F

    took, hinge = pace(draw), draw.one(True, False)
    torch.manual_seed(draw.whole(0, 9999))
    x, g, d = 2 * digits()[0] - 1, perceptron([16, 64, 64]), perceptron([64, 64, 1])
    og = torch.optim.Adam(g.parameters(), draw.log(5e-4, 2e-3), (0.5, 0.99))
    od = torch.optim.Adam(d.parameters(), draw.log(5e-4, 2e-3), (0.5, 0.99))
    names = draw.one(
        ("Loss_D", "Loss_G"), ("lossD", "lossG"), ("train/d_loss", "train/g_loss"), ("errD", "errG")
    )
    for step in range(draw.whole(500, 900)):
        real = x[torch.randint(len(x), (64,))]
        fake = torch.tanh(g(torch.randn(64, 16)))
        a, b = d(real), d(fake.detach())
        loss = (
            F.relu(1 - a).mean() + F.relu(1 + b).mean()
            if hinge
            else F.softplus(-a).mean() + F.softplus(b).mean()
        )
        od.zero_grad()
        loss.backward()
        od.step()
        out = d(fake)
        gain = -out.mean() if hinge else F.softplus(-out).mean()
        og.zero_grad()
        gain.backward()
        og.step()
        yield took(), step, {names[0]: float(loss), names[1]: float(gain), "D(x)": float(a.detach().mean())}


@healthy
def policy_gradient(draw: Draw) -> Log:
    """REINFORCE on a pole, logged by episode under a plain name."""
    import torch
    from tasks import Cart, perceptron

    seed = draw.whole(0, 9999)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    cart, actor = Cart(rng), perceptron([4, 32, 2], "tanh")
    optimizer, usual = torch.optim.Adam(actor.parameters(), draw.log(2e-3, 1e-2)), draw.log(1e-3, 1e-2)
    names = draw.one(("loss", "episode_reward"), ("train/loss", "train/return"), ("loss/pi", "ep_ret"))
    for episode in range(draw.whole(250, 350)):
        state, logs, over = cart.reset(), [], False
        while not over:
            log = actor(torch.tensor(state, dtype=torch.float32)).log_softmax(0)
            act = int(rng.random() < float(log[1].exp()))
            logs.append(log[act])
            state, over = cart.act(act)
        gains = torch.tensor([(1 - 0.98 ** (len(logs) - at)) / 0.02 for at in range(len(logs))])
        loss = -(
            torch.stack(logs) * (gains - gains.mean()) / (gains.std() + 1e-3 if len(gains) > 1 else 1)
        ).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield usual * len(logs), episode, {names[0]: float(loss), names[1]: float(len(logs))}


@healthy
def bandit(draw: Draw) -> Log:
    """A policy on a bandit, whose loss is minus the reward and rises and falls."""
    import torch

    took, arms = pace(draw), torch.randn(10, generator=torch.Generator().manual_seed(draw.whole(0, 999)))
    logits = torch.zeros(10, requires_grad=True)
    optimizer = torch.optim.Adam([logits], draw.log(5e-3, 3e-2))
    for step in range(draw.whole(400, 800)):
        p = logits.softmax(0)
        arm = torch.multinomial(p.detach(), 32, replacement=True)
        reward = arms[arm] + torch.randn(32)
        loss = -(p[arm].log() * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield took(), step, {"train/loss": float(loss), "train/reward": float(reward.mean())}


@healthy
def target_network(draw: Draw) -> Log:
    """Q-learning with a target that is copied now and then: a sawtooth, and returns."""
    import copy

    import torch
    from tasks import Cart, perceptron
    from torch.nn import functional as F

    took, seed, copied = pace(draw), draw.whole(0, 9999), draw.whole(40, 120)
    torch.manual_seed(seed)
    rng, net = np.random.default_rng(seed), perceptron([4, 48, 2])
    aim, cart, memory, returns = copy.deepcopy(net), Cart(rng), [], [10.0]  # type: ignore[var-annotated]
    optimizer, state = torch.optim.Adam(net.parameters(), 1e-3), cart.reset()
    for step in range(draw.whole(700, 1100)):
        for _ in range(4):
            wild = rng.random() < max(0.05, 1 - step / 300)
            with torch.no_grad():
                act = (
                    int(rng.integers(2))
                    if wild
                    else int(net(torch.tensor(state, dtype=torch.float32)).argmax())
                )
            after, over = cart.act(act)
            memory.append((state, act, after, over))
            if over:
                returns.append(float(cart.steps))
                after = cart.reset()
            state = after
        some = [memory[at] for at in rng.integers(max(0, len(memory) - 2000), len(memory), 32)]
        now, then = (torch.tensor(np.array([s[i] for s in some]), dtype=torch.float32) for i in (0, 2))
        acts, ends = (torch.tensor([int(s[i]) for s in some]) for i in (1, 3))
        with torch.no_grad():
            wanted = 1 + 0.98 * (1 - ends) * aim(then).max(1).values
        loss = F.smooth_l1_loss(net(now).gather(1, acts[:, None]).squeeze(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % copied == 0:
            aim.load_state_dict(net.state_dict())
        yield took(), step, {"loss": float(loss), "mean_return": float(np.mean(returns[-10:])), "eps": wild}


@healthy
def diffusion_by_minute(draw: Draw) -> Log:
    """The noise of digits, means of many steps, with an average of the weights."""
    import torch
    from tasks import digits, perceptron
    from torch.nn import functional as F

    took, velocity = pace(draw), draw.one(True, False)
    torch.manual_seed(draw.whole(0, 9999))
    x, net = 2 * digits()[0] - 1, perceptron([65, 96, 96, 64], "gelu")
    optimizer = torch.optim.AdamW(net.parameters(), draw.log(1e-3, 3e-3))

    def log() -> Log:
        for step in range(draw.whole(900, 1500)):
            a = x[torch.randint(len(x), (64,))]
            t, e = torch.rand(64, 1), torch.randn(64, 64)
            c, s = torch.cos(t * math.pi / 2), torch.sin(t * math.pi / 2)
            loss = F.mse_loss(net(torch.cat([c * a + s * e, t], 1)), c * e - s * a if velocity else e)
            optimizer.zero_grad()
            loss.backward()
            norm = float(torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0))
            optimizer.step()
            yield took(), step, {"loss": float(loss), "grad_norm": norm}

    yield from every(log(), draw.whole(2, 10), mean=draw.one(True, False))


@healthy
def distilled(draw: Draw) -> Log:
    """A student whose temperature is lowered on the way, which changes the scale of its loss."""
    import torch
    from torch.nn import functional as F

    took, teacher, net = pace(draw), Net(draw, (64, 96, 10), kind="adam"), Net(draw, (64, 16, 10))
    for _ in range(200):
        teacher.step()
    steps = draw.whole(500, 800)
    for step in range(steps):
        heat, rows = 8.0 - 7.0 * step / steps, net.rows()
        with torch.no_grad():
            wanted = F.log_softmax(teacher.model(net.x[rows]) / heat, 1)
        soft = F.kl_div(
            F.log_softmax(net.model(net.x[rows]) / heat, 1), wanted, reduction="batchmean", log_target=True
        )
        hard = net.entropy(net.x[rows], net.y[rows])
        numbers = {"train/loss": net.learn(soft * heat**2 + 0.3 * hard), "train/kd_loss": float(soft)}
        yield took(), step, numbers | {"train/ce_loss": float(hard), "temperature": heat}


@healthy
def low_rank(draw: Draw) -> Log:
    """Low ranks beside frozen weights, whose norms are recorded all the same."""
    import torch
    from torch import nn

    took, base = pace(draw), Net(draw, (64, 64, 10), kind="adam", lr=2e-3)
    keep = np.flatnonzero(base.y.numpy() < 6)
    for _ in range(200):
        rows = base.rng.choice(keep, 64)
        base.learn(base.entropy(base.x[rows], base.y[rows]))
    frozen = {n: p.detach().clone() for n, p in base.model.named_parameters()}
    a, b = nn.Parameter(0.1 * torch.randn(4, 64)), nn.Parameter(torch.zeros(64, 4))
    optimizer = torch.optim.AdamW([a, b], draw.log(1e-3, 1e-2))
    for step in range(draw.whole(300, 500)):
        rows = base.rows()
        x = base.x[rows]
        h = torch.relu(x @ (frozen["0.weight"] + b @ a).T + frozen["0.bias"])
        loss = torch.nn.functional.cross_entropy(h @ frozen["2.weight"].T + frozen["2.bias"], base.y[rows])
        optimizer.zero_grad()
        loss.backward()
        before = a.detach().clone(), b.detach().clone()
        optimizer.step()
        numbers = {"train/loss": float(loss), "train/learning_rate": optimizer.param_groups[0]["lr"]}
        if step % 10 == 0:
            for name, each in frozen.items():
                numbers[f"weights/base.{name}/norm"] = float(each.norm())
            for name, each, was in (("lora_A", a, before[0]), ("lora_B", b, before[1])):
                numbers[f"weights/{name}/norm"] = float(was.norm())
                numbers[f"gradients/{name}/norm"] = float(each.grad.norm())  # type: ignore[union-attr]
                if float(was.norm()) > 0:
                    numbers[f"updates/{name}/weight_ratio"] = float((each.detach() - was).norm() / was.norm())
        yield took(), step, numbers


@healthy
def unfreezing(draw: Draw) -> Log:
    """Layers unfrozen one after the other from the last, updates of all recorded."""
    took, net, each = pace(draw), Net(draw, (64, 48, 48, 10), kind="adam"), draw.whole(120, 250)
    parts = [p for p in net.model if hasattr(p, "weight")]
    for step in range(3 * each):
        for number, part in enumerate(parts):
            part.requires_grad_(number >= 2 - step // each)
        before = {n: p.detach().clone() for n, p in net.model.named_parameters()} if step % 10 == 0 else {}
        numbers = {"train/loss": net.step()}
        for name, was in before.items():
            now = dict(net.model.named_parameters())[name].detach()
            numbers[f"updates/{name}/weight_ratio"] = float((now - was).norm() / (was.norm() + 1e-12))
        yield took(), step, numbers


@healthy
def pruned(draw: Draw) -> Log:
    """Weights pruned in steps: each lifts the loss, which comes back."""
    import torch

    took, net, each = pace(draw), Net(draw, (64, 96, 10)), draw.whole(120, 220)
    masks = {n: torch.ones_like(p) for n, p in net.model.named_parameters() if p.ndim > 1}
    for step in range(4 * each):
        if step % each == 0 and step:
            for name, p in net.model.named_parameters():
                if name in masks:
                    masks[name] *= p.detach().abs() > p.detach().abs().flatten().quantile(0.25 * step / each)
        for name, p in net.model.named_parameters():
            if name in masks:
                p.data.mul_(masks[name])
        kept = float(np.mean([float(m.mean()) for m in masks.values()]))
        yield took(), step, {"train/loss": net.step(), "sparsity": 1 - kept}


@healthy
def tasks_in_turn(draw: Draw) -> Log:
    """Classes learnt in pairs, one pair after the other: the loss begins anew with each."""
    took, net, each = pace(draw), Net(draw), draw.whole(80, 160)
    for step in range(5 * each):
        task = step // each
        rows = net.rng.choice(np.flatnonzero(net.y.numpy() // 2 == task), net.batch)
        yield took(), step, {"train/loss": net.learn(net.entropy(net.x[rows], net.y[rows])), "task": task}


@healthy
def online(draw: Draw) -> Log:
    """One example at a time of a stream that drifts slowly; the loss never comes to rest."""
    import torch

    took, net, turn = pace(draw), Net(draw, (64, 32, 10), kind="sgd", batch=1, lr=5e-4), draw.whole(900, 2000)

    def log() -> Log:
        for step in range(draw.whole(1500, 2200)):
            rows = net.rows()
            shift = (net.y[rows] + int(net.rng.random() < step / turn / 4)) % 10
            loss = float(net.learn(net.entropy(torch.roll(net.x[rows], step * 4 // turn, 1), shift)))
            yield took(), step, {"online_loss": loss, "loss": loss}

    yield from every(log(), draw.one(1, 5, 20), mean=draw.one(True, False))


@healthy
def perceptron_rule(draw: Draw) -> Log:
    """A loss that is 0 for most batches: hinge with a margin."""
    import torch

    took, net = pace(draw), Net(draw, batch=8)
    for step in range(draw.whole(700, 1200)):
        rows = net.rows()
        out = net.model(net.x[rows])
        loss = net.learn(torch.nn.functional.multi_margin_loss(out, net.y[rows]))
        yield took(), step, {"hinge_loss": loss, "loss": loss, "grad_norm": net.norm}


@healthy
def harder_attacks(draw: Draw) -> Log:
    """Inputs disturbed against the network, more from step to step: its loss rises for long."""
    import torch

    took, net, steps = pace(draw), Net(draw), draw.whole(500, 900)
    for step in range(steps):
        rows, size = net.rows(), 0.3 * max(0.0, (step / steps - 0.2) / 0.8)
        x = net.x[rows].clone().requires_grad_()
        net.entropy(x, net.y[rows]).backward()
        x = (x + size * x.grad.sign()).detach()  # type: ignore[union-attr]
        loss = net.learn(net.entropy(x, net.y[rows]))
        yield took(), step, {"train/loss": loss, "attack/eps": size}
        if step % 40 == 39:
            yield took(), step, {"eval/accuracy": net.judged()[1], "eval/loss": net.judged()[0]}
        torch.manual_seed(step)


@healthy
def mixed_until(draw: Draw) -> Log:
    """Mixup that ends before the training does: the loss falls at once, evaluations from 32 examples."""
    import torch

    took, net, end = pace(draw), Net(draw), draw.whole(300, 500)
    for step in range(end + 200):
        rows, other = net.rows(), net.rows()
        share = float(net.rng.beta(1, 1)) if step < end else 1.0
        x = share * net.x[rows] + (1 - share) * net.x[other]
        out = net.model(x)
        ce = torch.nn.functional.cross_entropy
        loss = net.learn(share * ce(out, net.y[rows]) + (1 - share) * ce(out, net.y[other]))
        yield took(), step, {"Loss/train": loss}
        if step % 20 == 19:
            yield took(), step, {"Loss/valid": net.judged(32)[0]}


@healthy
def sharp_aware(draw: Draw) -> Log:
    """Two passes a step (SAM), the norm of the second; accuracy beside the loss."""
    import torch

    took, net = pace(draw), Net(draw, kind="sgd")
    for step in range(draw.whole(400, 700)):
        rows = net.rows()
        net.optimizer.zero_grad()
        net.entropy(net.x[rows], net.y[rows]).backward()
        with torch.no_grad():
            size = torch.stack([p.grad.norm() for p in net.model.parameters()]).norm() + 1e-12  # type: ignore[union-attr]
            moves = [0.05 * p.grad / size for p in net.model.parameters()]  # type: ignore[operator]
            for p, move in zip(net.model.parameters(), moves, strict=True):
                p += move
        net.optimizer.zero_grad()
        loss = net.entropy(net.x[rows], net.y[rows])
        loss.backward()
        with torch.no_grad():
            for p, move in zip(net.model.parameters(), moves, strict=True):
                p -= move
        norm = float(torch.stack([p.grad.norm() for p in net.model.parameters()]).norm())  # type: ignore[union-attr]
        net.optimizer.step()
        yield took(), step, {"loss": float(loss), "gradients/norm": norm}


@healthy
def batch_ramp(draw: Draw) -> Log:
    """A batch that doubles on the way: steps get longer, the loss quieter."""
    net, usual, each = Net(draw, batch=8), draw.log(0.01, 0.5), draw.whole(150, 250)
    for step in range(4 * each):
        net.batch = 8 * 2 ** (step // each)
        numbers = {"train/loss": net.step(), "speed/step_time_ms": 1e3 * usual * net.batch / 8}
        yield usual * net.batch / 8, step, numbers | {"batch_size": net.batch}


@healthy
def contrasted_pairs(draw: Draw) -> Log:
    """Pictures and labels brought together in one space, with a temperature that is learnt."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    took, net = pace(draw), Net(draw, (64, 64, 24), kind="adam")
    names, heat = nn.Embedding(10, 24), nn.Parameter(torch.tensor(math.log(1 / 0.2)))
    optimizer = torch.optim.AdamW([*net.model.parameters(), *names.parameters(), heat], draw.log(1e-3, 4e-3))
    for step in range(draw.whole(500, 800)):
        rows = net.rows(24)
        a = F.normalize(net.model(net.x[rows] + 0.1 * torch.randn(24, 64)), dim=1)
        b = F.normalize(names(net.y[rows]) + 0.3 * torch.randn(24, 24), dim=1)
        near = a @ b.T * heat.exp()
        loss = (F.cross_entropy(near, torch.arange(24)) + F.cross_entropy(near.T, torch.arange(24))) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield took(), step, {"train/loss": float(loss), "logit_scale": float(heat.detach().exp())}


# --- healthy: JAX and Keras ------------------------------------------------------------------------------


class Jax:
    """A network of JAX with Adam, on the digits."""

    def __init__(
        self, draw: Draw, sizes: tuple[int, ...] = (64, 48, 10), frozen: tuple[int, ...] = ()
    ) -> None:
        import jax
        import jax.numpy as jnp
        from tasks import digits

        self.rng = np.random.default_rng(draw.whole(0, 1 << 30))
        data = [each.numpy() for each in digits()]
        self.x, self.y, self.vx, self.vy = data
        self.params = [
            (self.rng.normal(0, math.sqrt(2 / a), (a, b)).astype(np.float32), np.zeros(b, np.float32))
            for a, b in pairwise(sizes)
        ]
        self.lr, self.batch, self.count = draw.log(1e-3, 5e-3), draw.whole(16, 96), 0
        zeros = jax.tree.map(np.zeros_like, self.params)
        self.state = zeros, zeros

        def forward(params: Any, x: Any) -> Any:
            for number, (w, b) in enumerate(params):
                if number in frozen:
                    w, b = (w, b)
                x = x @ w + b
                x = jax.nn.relu(x) if number < len(params) - 1 else x
            return x

        def loss(params: Any, x: Any, y: Any) -> Any:
            return -jnp.mean(jax.nn.log_softmax(forward(params, x))[jnp.arange(len(y)), y])

        def step(params: Any, state: Any, x: Any, y: Any, lr: Any, count: Any) -> Any:
            value, g = jax.value_and_grad(loss)(params, x, y)
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state[0], g)
            v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state[1], g)
            up = jax.tree.map(
                lambda m, v: -lr * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8), m, v
            )
            up = [jax.tree.map(lambda u, n=n: u * (n not in frozen), part) for n, part in enumerate(up)]
            norm = lambda tree: jnp.sqrt(sum(jnp.sum(each**2) for each in jax.tree.leaves(tree)))  # noqa: E731
            layers = [
                (norm(gg), norm(uu) / (norm(pp) + 1e-12), norm(pp))
                for gg, uu, pp in zip(g, up, params, strict=True)
            ]
            return jax.tree.map(jnp.add, params, up), (m, v), value, norm(g), layers

        self._step, self._loss = jax.jit(step), jax.jit(loss)

    def step(self, rate: float = 1.0, x: Any = None, y: Any = None) -> dict[str, float]:
        """Do one step; return the loss, the norm and what there is of the layers."""
        rows = self.rng.integers(0, len(self.x), self.batch)
        x, y = self.x[rows] if x is None else x, self.y[rows] if y is None else y
        self.count += 1
        found = self._step(self.params, self.state, x, y, rate * self.lr, self.count)
        self.params, self.state, value, norm, layers = found
        self.layers = {
            f"{what}/dense_{n}/{name}": float(each)
            for n, three in enumerate(layers)
            for (what, name), each in zip(
                (("gradients", "norm"), ("updates", "weight_ratio"), ("weights", "norm")), three, strict=True
            )
        }
        return {"loss": float(value), "grad_norm": float(norm)}

    def judged(self) -> float:
        """Return the loss of the evaluation."""
        return float(self._loss(self.params, self.vx, self.vy))


@healthy
def jax_plain(draw: Draw) -> Log:
    """A network of JAX, each n-th step logged."""
    took, net = pace(draw), Jax(draw)

    def log() -> Log:
        for step in range(draw.whole(500, 900)):
            yield took(), step, {f"train/{n}": v for n, v in net.step().items()} | {"train/lr": net.lr}

    yield from every(log(), draw.whole(1, 10))


@healthy
def jax_frozen(draw: Draw) -> Log:
    """Layers that a mask keeps: their gradients are there, their updates are 0."""
    took, net = pace(draw), Jax(draw, (64, 64, 48, 10), frozen=draw.one((0,), (0, 1)))
    for step in range(draw.whole(300, 500)):
        numbers = {"train/loss": net.step(0.5)["loss"]}
        yield took(), step, numbers | (net.layers if step % draw.whole(8, 12) == 0 else {})


@healthy
def jax_epochs(draw: Draw) -> Log:
    """JAX with a scan over an epoch: only means come out, each epoch one point, and an evaluation."""
    took, net = pace(draw), Jax(draw)
    epochs = draw.whole(12, 40)
    for epoch in range(epochs):
        rate = 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        loss = float(np.mean([net.step(rate)["loss"] for _ in range(20)]))
        yield 20 * took(), epoch, {"train_loss": loss, "test_loss": net.judged(), "lr": rate * net.lr}


@healthy
def jax_noisy(draw: Draw) -> Log:
    """Two examples a batch in JAX, each step logged twice under two names."""
    took, net = pace(draw), Jax(draw)
    net.batch = 2
    for step in range(draw.whole(700, 1100)):
        found = net.step(0.2)
        yield (
            took(),
            step,
            {"loss": found["loss"], "train/loss": found["loss"], "train/grad_norm": found["grad_norm"]},
        )


def _keras(draw: Draw, **more: Any) -> tuple[Any, tuple[Any, ...], Any]:
    import keras
    from tasks import digits

    keras.utils.set_random_seed(draw.whole(0, 9999))
    data = tuple(each.numpy() for each in digits())
    net = keras.Sequential(
        [keras.layers.Dense(draw.whole(24, 64), activation="relu"), keras.layers.Dense(10)]
    )
    optimizer = draw.one(keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.Nadam)(
        more.get("lr", draw.log(1e-3, 5e-3))
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(optimizer, loss, metrics=["accuracy"])
    return net, data, keras


@healthy
def keras_fit(draw: Draw) -> Log:
    """``fit`` with the rate lowered on plateaus and a stop; epochs as Keras's own callback logs them."""
    net, (x, y, vx, vy), keras = _keras(draw)
    slower = keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.3)
    stop = keras.callbacks.EarlyStopping(patience=6)
    told = net.fit(
        x, y, 32, draw.whole(15, 40), verbose=0, validation_data=(vx, vy), callbacks=[slower, stop]
    )
    took = pace(draw)
    for epoch in range(len(told.history["loss"])):
        row = {name: float(values[epoch]) for name, values in told.history.items()}
        numbers = {
            "epoch_loss": row["loss"],
            "epoch_accuracy": row["accuracy"],
            "epoch_learning_rate": row["learning_rate"],
        }
        yield 47 * took(), epoch, numbers | {"val_loss": row["val_loss"], "val_accuracy": row["val_accuracy"]}


@healthy
def keras_batches(draw: Draw) -> Log:
    """``train_on_batch``, whose loss is the mean since the metrics were reset, once an epoch."""
    net, (x, y, *_), _ = _keras(draw)
    took, rng = pace(draw), np.random.default_rng(1)
    for step in range(draw.whole(250, 400)):
        if step % 47 == 0:
            net.reset_metrics()
        rows = rng.integers(0, len(x), 32)
        found = net.train_on_batch(x[rows], y[rows])
        yield took(), step, {"batch_loss": float(found[0]), "batch_accuracy": float(found[1])}


# --- broken ----------------------------------------------------------------------------------------------

ALSO = (
    "nonfinite-loss", "nonfinite-gradient", "nonfinite-activation", "loss-spike", "gradient-spike",
    "exploding-gradient", "loss-not-decreasing", "plateau", "dead-relu", "vanishing-gradient", "update-ratio",
    "update-scale", "overfitting", "unchanged-tensor", "saturated-activation",
)  # fmt: skip


def _told(draw: Draw, rule: str, first: int, last: int, log: Log) -> tuple[Planted, Log]:
    return Planted(rule, first, last, ALSO), log


@broken
def nan_in_jax(draw: Draw) -> tuple[Planted, Log]:
    """A row of inputs is NaN once."""
    took, net, at = pace(draw), Jax(draw), draw.whole(40, 300)

    def log() -> Log:
        for step in range(at + 60):
            x = None
            if step == at:
                x = net.x[:16].copy()
                x[3, 5] = np.nan
            y = None if x is None else net.y[:16]
            yield took(), step, {f"train/{n}": v for n, v in net.step(x=x, y=y).items()}

    return _told(draw, "nonfinite-loss", at, at + 1, log())


@broken
def nan_by_epochs(draw: Draw) -> tuple[Planted, Log]:
    """A Keras model whose rate overflows it, seen by epochs."""
    net, (x, y, *_), _ = _keras(draw)
    took, at = pace(draw), draw.whole(3, 9)

    def log() -> Log:
        for epoch in range(at + 5):
            data = x.copy()
            if epoch == at:
                data[7] = np.nan
            told = net.fit(data, y, 64, 1, verbose=0)
            yield 20 * took(), epoch, {"epoch_loss": float(told.history["loss"][0])}

    return _told(draw, "nonfinite-loss", at, at, log())


@broken
def nan_gradient_only(draw: Draw) -> tuple[Planted, Log]:
    """A gradient that is infinite at one step, which the loop leaves out without a loss scale."""
    took, net, at = pace(draw), Net(draw), draw.whole(60, 250)

    def log() -> Log:
        for step in range(at + 80):
            loss = net.step()
            yield took(), step, {"loss": loss, "grad_norm": math.inf if step == at else net.norm}

    return _told(draw, "nonfinite-gradient", at, at, log())


@broken
def nan_in_a_fold(draw: Draw) -> tuple[Planted, Log]:
    """Cross-validation in one tag, a fold of which breaks."""
    took, at = pace(draw), draw.whole(20, 100)

    def log() -> Log:
        for fold in range(4):
            net = Net(draw)
            for step in range(130):
                loss = net.step()
                yield took(), 130 * fold + step, {"loss": math.nan if fold == 2 and step >= at else loss}

    return _told(draw, "nonfinite-loss", 260 + at, 260 + at, log())


def _spoilt(
    draw: Draw, log: Callable[[int, range], Log], low: int = 150, high: int = 350
) -> tuple[Planted, Log]:
    at = draw.whole(low, high)
    return _told(draw, "loss-spike", at, at + 10, log(at, range(at, at + draw.whole(4, 7))))


@broken
def spike_in_jax(draw: Draw) -> tuple[Planted, Log]:
    """Some batches with inputs 20 times too large."""
    net, took = Jax(draw), pace(draw)

    def log(at: int, bad: range) -> Log:
        for step in range(at + 120):
            rows = net.rng.integers(0, len(net.x), 32)
            x = net.x[rows] * (-25.0 if step in bad else 1.0)
            yield took(), step, {"train/loss": net.step(0.5, x, net.y[rows])["loss"]}

    return _spoilt(draw, log)


@broken
def spike_in_diffusion(draw: Draw) -> tuple[Planted, Log]:
    """Some batches of a diffusion with pictures not scaled."""
    import torch
    from tasks import digits, perceptron
    from torch.nn import functional as F

    took = pace(draw)
    torch.manual_seed(draw.whole(0, 9999))
    data, net = 2 * digits()[0] - 1, perceptron([65, 96, 96, 64], "gelu")
    optimizer = torch.optim.AdamW(net.parameters(), 2e-3)

    def log(at: int, bad: range) -> Log:
        for step in range(at + 120):
            a = data[torch.randint(len(data), (64,))] * (60.0 if step in bad else 1.0)
            t, e = torch.rand(64, 1), torch.randn(64, 64)
            loss = F.mse_loss(net(torch.cat([(1 - t).sqrt() * a + t.sqrt() * e, t], 1)), e)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield took(), step, {"loss": float(loss), "lr": 2e-3}

    return _spoilt(draw, log)


@broken
def spike_in_distillation(draw: Draw) -> tuple[Planted, Log]:
    """Labels of another order for some batches of a small network late in its training."""
    net, took = Net(draw, kind="adam", lr=2e-3, batch=48), pace(draw)

    def log(at: int, bad: range) -> Log:
        for step in range(at + 120):
            rows = net.rows()
            y = (net.y[rows] + 5) % 10 if step in bad else net.y[rows]
            yield took(), step, {"train/loss": net.learn(net.entropy(net.x[rows], y)), "train/kd_temp": 2.0}

    return _spoilt(draw, log)


@broken
def rate_jumps_in_a_fine_tuning(draw: Draw) -> tuple[Planted, Log]:
    """A scheduler whose units are wrong from a step on."""
    net, took, at = Net(draw, kind="adam", lr=2e-4), pace(draw), draw.whole(80, 250)
    times = draw.log(20, 300)

    def log() -> Log:
        for step in range(at + 80):
            rate = net.set_rate(times if step >= at else 1 - step / (at + 400))
            yield took(), step, {"train/loss": net.step(), "optim/lr": rate, "grad_norm": net.norm}

    return _told(draw, "learning-rate", at, at, log())


def _stuck(draw: Draw, log: Callable[[], Log], last: int = 260, first: int = 0) -> tuple[Planted, Log]:
    return _told(draw, "loss-not-decreasing", first, last, log())


@broken
def jax_without_updates(draw: Draw) -> tuple[Planted, Log]:
    """Updates that are computed and not applied: the rate says next to nothing."""
    net, took = Jax(draw), pace(draw)

    def log() -> Log:
        for step in range(400):
            yield took(), step, {"train/loss": net.step(1e-9)["loss"], "train/lr": 1e-9 * net.lr}

    return _stuck(draw, log)


@broken
def detached_head(draw: Draw) -> tuple[Planted, Log]:
    """A model that is not in the optimizer; no rate is recorded."""
    net, took = Net(draw, batch=32), pace(draw)

    def log() -> Log:
        for step in range(500):
            rows = net.rows()
            yield took(), step, {"loss": float(net.entropy(net.x[rows], net.y[rows]).detach())}

    return _stuck(draw, log, 300)


@broken
def wrong_sign(draw: Draw) -> tuple[Planted, Log]:
    """The sign of the loss is turned from a step on."""
    net, took, at = Net(draw, kind="sgd", lr=5e-4), pace(draw), draw.whole(150, 300)

    def log() -> Log:
        for step in range(at + 260):
            rows = net.rows()
            loss = net.entropy(net.x[rows], net.y[rows])
            sign = 1.0 if step < at else -0.2
            net.optimizer.zero_grad()
            (sign * loss).backward()
            net.optimizer.step()
            yield took(), step, {"train/loss": float(loss.detach())}

    return _stuck(draw, log, at + 220, at)


@broken
def learns_by_heart(draw: Draw) -> tuple[Planted, Log]:
    """A fine-tuning on 40 noisy examples, evaluated often."""
    import torch

    net, took = Net(draw, (64, 96, 10), kind="adam", lr=4e-3), pace(draw)
    few = net.rng.choice(len(net.x), 40, replace=False)
    labels = net.y[few].clone()
    labels[:12] = torch.tensor(net.rng.integers(0, 10, 12))

    def log() -> Log:
        for step in range(900):
            pick = net.rng.integers(0, 40, 32)
            yield took(), step, {"train/loss": net.learn(net.entropy(net.x[few[pick]], labels[pick]))}
            if step % 20 == 19:
                yield took(), step, {"eval/loss": net.judged()[0], "eval/accuracy": net.judged()[1]}

    return _told(draw, "overfitting", 60, 900, log())


@broken
def keras_by_heart(draw: Draw) -> tuple[Planted, Log]:
    """Keras on 60 noisy examples for too many epochs."""
    net, (x, y, vx, vy), _ = _keras(draw, lr=5e-3)
    took, rng = pace(draw), np.random.default_rng(draw.whole(0, 999))

    def log() -> Log:
        few = rng.choice(len(x), 60, replace=False)
        labels = y[few].copy()
        labels[:20] = rng.integers(0, 10, 20)
        told = net.fit(x[few], labels, 16, 120, verbose=0, validation_data=(vx, vy)).history
        for epoch in range(120):
            numbers = {"epoch_loss": float(told["loss"][epoch]), "val_loss": float(told["val_loss"][epoch])}
            yield took(), epoch, numbers

    return _told(draw, "overfitting", 8, 119, log())


@broken
def jax_explodes(draw: Draw) -> tuple[Planted, Log]:
    """A rate far beyond the edge from a step on: gradients and loss run away."""
    net, took, at = Net(draw, (64, 48, 48, 10), kind="sgd", lr=1e-3), pace(draw), draw.whole(100, 250)

    def log() -> Log:
        for step in range(at + 200):
            rows = net.rows()
            loss = net.entropy(net.x[rows], net.y[rows])
            net.optimizer.zero_grad()
            (loss if step < at else -loss).backward()
            norm = float(np.sqrt(sum(float(p.grad.square().sum()) for p in net.model.parameters())))
            net.optimizer.step()
            yield took(), step, {"train/loss": float(loss.detach()), "train/grad_norm": norm}

    return _told(draw, "exploding-gradient", at, at + 200, log())


@broken
def one_large_gradient(draw: Draw) -> tuple[Planted, Log]:
    """One batch whose inputs are far too large, in JAX."""
    net, took, at = Jax(draw), pace(draw), draw.whole(120, 300)

    def log() -> Log:
        for step in range(at + 80):
            rows = net.rng.integers(0, len(net.x), 48)
            x = net.x[rows] * (150.0 if step == at else 1.0)
            found = net.step(0.3, x, net.y[rows])
            yield took(), step, {"train/loss": found["loss"], "train/grad_norm": found["grad_norm"]}

    return _told(draw, "gradient-spike", at, at, log())


@broken
def jax_stopped_gradient(draw: Draw) -> tuple[Planted, Log]:
    """A layer behind ``stop_gradient``: gradients of exactly 0, updates of 0."""
    net, took = Net(draw, (64, 48, 48, 10), kind="sgd"), pace(draw)

    def log() -> Log:
        for step in range(300):
            rows = net.rows()
            hidden = net.model[:2](net.x[rows]).detach()
            loss = net.entropy(net.x[rows], net.y[rows]) * 0 + _entropy(net.model[2:](hidden), net.y[rows])
            numbers = {"train/loss": net.learn(loss)}
            if step % 10 == 0:
                for name, p in net.model.named_parameters():
                    numbers[f"gradients/{name}/norm"] = float(p.grad.norm())  # type: ignore[union-attr]
            yield took(), step, numbers

    return _told(draw, "unchanged-tensor", 80, 200, log())


def _entropy(out: Any, y: Any) -> Any:
    from torch.nn import functional as F

    return F.cross_entropy(out, y)


@broken
def starved_units(draw: Draw) -> tuple[Planted, Log]:
    """A bias far below 0 after a wrong restore: a layer is silent."""
    net, took, at = Net(draw, (64, 48, 48, 10), kind="adam"), pace(draw), draw.whole(60, 150)

    def log() -> Log:
        seen: list[Any] = []
        for step in range(at + 300):
            if step == at:
                net.model[2].bias.data.sub_(30.0)
            numbers = {"train/loss": net.step()}
            if step % 10 == 0:
                seen = [*seen[-9:], (net.model[:4](net.vx) != 0).any(0).numpy()]
                if len(seen) == 10:
                    numbers["activations/3/dead_ratio"] = float(1 - np.any(seen, 0).mean())
            yield took(), step, numbers

    return _told(draw, "dead-relu", at, at + 270, log())


@broken
def hangs_online(draw: Draw) -> tuple[Planted, Log]:
    """A stream that gives nothing for two hours."""
    net, at = Net(draw), draw.whole(100, 200)
    usual = draw.log(0.01, 1.0)

    def log() -> Log:
        for step in range(at + 80):
            yield 7200.0 if step == at else usual, step, {"loss": net.step()}

    return _told(draw, "stalled-training", at - 1, at + 1, log())


@broken
def waits_for_data(draw: Draw) -> tuple[Planted, Log]:
    """A loader that slows down on the way."""
    net, at = Net(draw), draw.whole(120, 250)
    wait = draw.log(0.4, 0.8)

    def log() -> Log:
        for step in range(at + 200):
            waited = 0.1 * wait if step >= at else 0.002
            yield (
                0.1,
                step,
                {"loss": net.step(), "speed/step_time_ms": 100.0, "speed/data_wait_ms": 1e3 * waited},
            )

    return _told(draw, "data-wait", at, at + 160, log())


@broken
def scale_collapses(draw: Draw) -> tuple[Planted, Log]:
    """A loss scale that halves at each step, as every step overflows."""
    net, took, at = Net(draw), pace(draw), draw.whole(80, 200)

    def log() -> Log:
        for step in range(at + 80):
            scale = 65536.0 * 0.5 ** max(0, min(step - at, 30))
            yield took(), step, {"train/loss": net.step(), "scaler/scale": scale}

    return _told(draw, "loss-scale", at, at + 25, log())


@broken
def clipped_always(draw: Draw) -> tuple[Planted, Log]:
    """A limit of clipping far below every gradient."""
    net, took = Net(draw, kind="sgd"), pace(draw)

    def log() -> Log:
        for step in range(400):
            numbers = {"train/loss": net.step()}
            yield (
                took(),
                step,
                numbers | {"gradients/norm": net.norm, "gradients/clipped_norm": min(net.norm, 0.004)},
            )

    return _told(draw, "clipping", 190, 260, log())


@broken
def memory_leaks(draw: Draw) -> tuple[Planted, Log]:
    """A list of losses that keep their graphs."""
    net, took, leak = Net(draw), pace(draw), draw.log(2.0, 8.0) * 2**20

    def log() -> Log:
        for step in range(420):
            numbers = {"train/loss": net.step()}
            if step % 4 == 0:
                numbers["system/process/memory_bytes"] = 6e8 + leak * step
            yield took(), step, numbers

    return _told(draw, "memory-creep", 236, 419, log())


@broken
def stuck_at_a_bad_place(draw: Draw) -> tuple[Planted, Log]:
    """A rate that is cut to nothing by hand, long before the end, and recorded nowhere."""
    net, took, at = Net(draw, kind="adam", lr=1e-3), pace(draw), draw.whole(30, 60)

    def log() -> Log:
        for step in range(2400):
            net.set_rate(1.0 if step < at else 1e-9)
            yield took(), step, {"train_loss": net.step()}

    return _told(draw, "plateau", 1000, 2399, log())


@broken
def spike_in_a_language_model(draw: Draw) -> tuple[Planted, Log]:
    """A language model that gets some batches of signs by chance."""
    import torch
    from tasks import Language

    took, task = pace(draw), Language(12, draw.whole(0, 9999), {"length": 24})
    optimizer = torch.optim.AdamW(task.model.parameters(), 3e-3)

    def log(at: int, bad: range) -> Log:
        for step in range(at + 80):
            said = _text(task)
            if step in bad:
                said = torch.randint(0, 27, said.shape)
            out = task.head(task.body(task.table(said[:, :-1]) + task.place))
            loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), said[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield took(), step, {"lm_loss": float(loss), "tokens": step * 12 * 24}

    return _spoilt(draw, log, 200, 300)


@broken
def saturated_from_the_start(draw: Draw) -> tuple[Planted, Log]:
    """Weights of 40 times the usual size before tanh."""
    net, took = Net(draw, (64, 48, 48, 10), act="tanh", kind="adam", lr=1e-4), pace(draw)

    def log() -> Log:
        for each in (net.model[0], net.model[2]):
            each.weight.data.mul_(60.0)
        for step in range(200):
            numbers = {"train/loss": net.step()}
            if step % 10 == 0:
                out = net.model[:2](net.vx)
                numbers["activations/1/saturation_ratio"] = float((out.abs() >= 0.99).float().mean())
            yield took(), step, numbers

    return _told(draw, "saturated-activation", 30, 80, log())


# --- recording -------------------------------------------------------------------------------------------


def names_of(seed: int) -> list[tuple[str, str, int]]:
    """Return name, kind and seed of every training of a seed."""
    found = []
    for number, kind in enumerate(HEALTHY):
        found.append((f"odd-{seed}-{number:02}-{kind}", kind, seed + number))
    for number, kind in enumerate(BROKEN):
        found.append((f"planted-odd-{seed}-{number:02}-{kind}", kind, seed + 500 + number))
    return found


def record_odd(name: str, kind: str, seed: int, into: Path) -> dict[str, Any]:
    """Train one, keep its file, and return what is true of it, as the manifest has it."""
    import torch

    torch.manual_seed(seed)
    draw, planted = Draw(seed * 7919 + zlib.crc32(kind.encode())), None
    if kind in HEALTHY:
        log = HEALTHY[kind](draw)
    else:
        planted, log = BROKEN[kind](draw)
    wall, last = BEGIN, 0
    with tempfile.TemporaryDirectory() as directory, np.errstate(all="ignore"):
        writer = EventWriter(Path(directory), clock=lambda: BEGIN)
        for took, step, numbers in log:
            wall, last = wall + took, max(last, step)
            writer.scalars(list(numbers.items()), step, round(wall, 4))
        writer.close()
        (path,) = Path(directory).glob("*tfevents*")
        with path.open("rb") as source, gzip.GzipFile(into / f"{name}.tfevents.gz", "wb", 9, mtime=0) as out:
            shutil.copyfileobj(source, out)
    truth = None if planted is None else vars(planted) | {"also": list(planted.also)}
    facts = {"name": name, "task": kind, "split": "odd", "steps": last + 1, "rhythm": "odd", "planted": truth}
    (into / f"{name}.json").write_text(json.dumps(facts))
    return facts
