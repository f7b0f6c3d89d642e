"""Sixteen short trainings of further fields: ten with a mistake that practitioners report, six sound but odd.

They were committed with their answers before any was judged.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as fn
from common import batches, descend, digits, evaluate, forever, grad_norm, mlp, seeded, set_rate, weight_norm
from registry import Log, training
from torch import nn


@training(
    field="molecules as text",
    fault="Padding counts in the loss: nine tenths of the targets are padding, and padding is all it writes.",
    series=["valid/exact_match", "valid/mean_length"],
    onset=(0, 6),
    source="https://github.com/DaoyuanLi2816/Molecule-Generator/pull/20",
)
def padding_counts(log: Log) -> None:
    rng = seeded(501)
    words, length = 20, 40
    x = torch.as_tensor(rng.integers(1, words, (2400, 4)))
    y = torch.zeros(2400, length, dtype=torch.long)
    y[:, :4] = (x.flip(1) * 3 + 1) % (words - 1) + 1
    y[torch.arange(length) >= (x[:, :1] % 4 + x[:, 1:2] % 3)] = 0
    model = nn.Sequential(nn.Embedding(words, 12), nn.Flatten(), *mlp(48, 48, length * words))
    opt = torch.optim.SGD(model.parameters(), 0.02)
    for epoch in range(20):
        losses = []
        for b in batches(rng, 2000, 50):
            out = model(x[b]).view(-1, words)
            losses.append(descend(opt, fn.cross_entropy(out, y[b].flatten())))
        with torch.no_grad():
            best = model(x[2000:]).view(-1, length, words).argmax(2)
        log("train/nll", float(np.mean(losses)), epoch)
        log("valid/token_acc", (best == y[2000:]).float().mean().item(), epoch)
        log("valid/exact_match", (best == y[2000:]).all(1).float().mean().item(), epoch)
        log("valid/mean_length", (best > 0).sum(1).float().mean().item(), epoch)


@training(
    field="a warehouse robot",
    fault="The target network is never synchronised: values know the next reward only, the return stays.",
    series=["rollout/ep_rew_mean"],
    onset=(0, 4000),
    source="https://omarelb.github.io/dqn-investigation/",
)
def target_never_synchronised(log: Log) -> None:
    rng = seeded(502)
    cells = 9
    online, target = mlp(cells, 32, 2), mlp(cells, 32, 2)
    opt = torch.optim.Adam(online.parameters(), 1e-3)
    eye = torch.eye(cells)
    memory: list[tuple[int, int, float, int, float]] = []
    place, total, done, steps = 4, 0.0, [0.0], 0
    for step in range(8000):
        with torch.no_grad():
            greedy = int(online(eye[place]).argmax())
        act = int(rng.integers(2)) if rng.random() < max(0.1, 1 - step / 3000) else greedy
        after = min(place + 1, cells - 1) if act else max(place - 1, 0)
        over = after == cells - 1
        reward = 1.0 if over else (0.02 if after == 0 else 0.0)
        memory.append((place, act, reward, after, float(over)))
        total, steps = total + reward, steps + 1
        place = after
        if over or steps == 30:
            done.append(total)
            place, total, steps = 4, 0.0, 0
        if step >= 200 and step % 2 == 0:
            pick = [memory[i] for i in rng.integers(max(0, len(memory) - 3000), len(memory), 32)]
            s, a, r, n, d = (torch.tensor(column) for column in zip(*pick, strict=True))
            with torch.no_grad():
                aim = r + 0.97 * (1 - d) * target(eye[n]).max(1).values
            loss = fn.smooth_l1_loss(online(eye[s]).gather(1, a[:, None])[:, 0], aim.float())
            descend(opt, loss)
            if step % 80 == 0:
                log("train/loss", loss.item(), step)
                log("rollout/ep_rew_mean", float(np.mean(done[-20:])), step)
                log("rollout/exploration_rate", max(0.1, 1 - step / 3000), step)


@training(
    field="plankton",
    fault="Mixup stays on in evaluation, so that a picture made of two is scored by one label.",
    series=["val/loss", "val/acc1"],
    onset=(0, 3),
    source="https://github.com/huggingface/pytorch-image-models/discussions",
)
def mixed_when_evaluated(log: Log) -> None:
    rng = seeded(503)
    x, y, xv, yv = digits()
    model = mlp(64, 96, 10)
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for epoch in range(25):
        losses, hits = [], []
        for b in batches(rng, len(x), 32):
            out = model(x[b])
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
        mixed = torch.lerp(xv, xv[torch.randperm(len(xv))], torch.rand(len(xv), 1))
        loss, accuracy = evaluate(model, mixed, yv)
        log("train/loss", float(np.mean(losses)), epoch)
        log("train/acc1", float(np.mean(hits)), epoch)
        log("val/loss", loss, epoch)
        log("val/acc1", accuracy, epoch)


@training(
    field="orchids",
    fault="A flag meant for the teacher freezes the student's backbone at its random start.",
    series=["params/backbone.0.weight", "params/backbone.2.weight"],
    onset=(0, 200),
    source="https://discuss.pytorch.org/t/how-the-pytorch-freeze-network-in-some-layers/7088",
)
def backbone_is_frozen(log: Log) -> None:
    rng = seeded(504)
    x, y, xv, yv = digits()
    backbone, head = mlp(64, 24, 16, 12), nn.Linear(12, 10)
    backbone.requires_grad_(False)
    model = nn.Sequential(backbone, nn.ReLU(), head)
    opt = torch.optim.SGD(head.parameters(), 0.05, momentum=0.9)
    for step, b in zip(range(900), forever(rng, len(x), 32), strict=False):
        log("loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        if step % 10 == 0:
            for place in (0, 2, 4):
                log(f"params/backbone.{place}.weight", weight_norm([backbone[place].weight]), step)
            log("params/head.weight", weight_norm([head.weight]), step)
        if step % 100 == 99:
            log("eval_accuracy", evaluate(model, xv, yv)[1], step)


@training(
    field="crop diseases",
    fault="A cosine is stepped by the trainer and by hand: it ends at half of the run and rises again.",
    series=["lr-AdamW"],
    onset=(380, 560),
    source="https://github.com/Lightning-AI/pytorch-lightning/issues",
)
def stepped_twice(log: Log) -> None:
    rng = seeded(505)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 1000)
    for step, b in zip(range(1000), forever(rng, len(x), 32), strict=False):
        noisy = x[b] + 0.2 * torch.randn(32, 64)
        log("train_loss_step", descend(opt, fn.cross_entropy(model(noisy), y[b])), step)
        log("lr-AdamW", opt.param_groups[0]["lr"], step)
        schedule.step()
        schedule.step()
        if step % 50 == 49:
            loss, accuracy = evaluate(model, xv, yv)
            log("val_loss", loss, step)
            log("val_acc", accuracy, step)


@training(
    field="trading of power",
    fault="The critic learns from its own next value without a target or a discount, and so runs away.",
    series=["losses/value_loss", "charts/value_mean"],
    onset=(0, 800),
    source="https://arxiv.org/abs/1812.02648",
)
def critic_runs_away(log: Log) -> None:
    rng = seeded(506)
    critic, policy = mlp(6, 64, 1), mlp(6, 24, 2)
    opt = torch.optim.Adam(critic.parameters(), 3e-3)
    act_opt = torch.optim.Adam(policy.parameters(), 1e-3)
    for step in range(2400):
        state = torch.tensor(rng.normal(size=(64, 6)), dtype=torch.float32)
        law = torch.distributions.Categorical(logits=policy(state))
        act = law.sample()
        reward = state[:, 0] * (2.0 * act - 1) + 0.5 + 0.3 * torch.randn(64)
        after = 0.9 * state + 0.4 * torch.tensor(rng.normal(size=(64, 6)), dtype=torch.float32)
        value = critic(state)[:, 0]
        with torch.no_grad():
            aim = reward + critic(after)[:, 0] * 1.01
        loss = fn.mse_loss(value, aim)
        descend(opt, loss)
        gain = -(law.log_prob(act) * (aim - value).detach()).mean() - 0.01 * law.entropy().mean()
        descend(act_opt, gain)
        if step % 8 == 0:
            log("losses/value_loss", loss.item(), step)
            log("losses/policy_loss", gain.item(), step)
            log("losses/entropy", law.entropy().mean().item(), step)
            log("charts/value_mean", value.mean().item(), step)
            log("charts/episodic_return", float(reward.mean()) * 50, step)


@training(
    field="defects of castings",
    fault="Two of five labels are wrong, and the net learns them by heart: the evaluation turns.",
    series=["validation_loss", "validation_accuracy"],
    onset=(2, 25),
    source="https://arxiv.org/abs/1611.03530",
)
def learns_wrong_labels(log: Log) -> None:
    rng = seeded(507)
    x, y, xv, yv = digits()
    wrong = torch.as_tensor(rng.random(len(y)) < 0.4)
    y = torch.where(wrong, torch.as_tensor(rng.integers(0, 10, len(y))), y)
    model = mlp(64, 256, 256, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(50):
        losses, hits = [], []
        for b in batches(rng, len(x), 32):
            out = model(x[b])
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
        loss, accuracy = evaluate(model, xv, yv)
        log("training_loss", float(np.mean(losses)), epoch)
        log("training_accuracy", float(np.mean(hits)), epoch)
        log("validation_loss", loss, epoch)
        log("validation_accuracy", accuracy, epoch)


@training(
    field="bird calls",
    fault="The averaged model gets the weights and not BatchNorm's buffers, and is what is evaluated.",
    series=["ema/val_loss", "ema/val_top1"],
    onset=(0, 4),
    source="https://github.com/huggingface/pytorch-image-models/blob/main/timm/utils/model_ema.py",
)
def average_without_buffers(log: Log) -> None:
    rng = seeded(508)
    x, y, xv, yv = digits()
    x, xv = 6 * x + 20, 6 * xv + 20

    def net() -> nn.Sequential:
        return nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))

    model, average = net(), net()
    average.load_state_dict(model.state_dict())
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(24):
        losses, hits = [], []
        for b in batches(rng, len(x), 32):
            out = model(x[b])
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
            with torch.no_grad():
                for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                    kept.lerp_(new, 0.05)
        loss, accuracy = evaluate(average, xv, yv)
        log("train/loss", float(np.mean(losses)), epoch)
        log("train/top1", float(np.mean(hits)), epoch)
        log("ema/val_loss", loss, epoch)
        log("ema/val_top1", accuracy, epoch)


@training(
    field="satellite tiles",
    fault="A vision transformer gets its whole rate at once, without a warm-up: it stays at chance.",
    series=["train/loss", "val/loss", "val/acc"],
    onset=(0, 120),
    source="https://arxiv.org/abs/2002.04745",
)
def tiles_without_warmup(log: Log) -> None:
    rng = seeded(509)
    x, y, xv, yv = digits()

    class Tiles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.place = nn.Linear(8, 32), nn.Parameter(0.02 * torch.randn(8, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.blocks, self.head = nn.TransformerEncoder(layer, 4), nn.Linear(32, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.blocks(self.embed(rows.view(-1, 8, 8)) + self.place).mean(1))

    model = Tiles()
    opt = torch.optim.Adam(model.parameters(), 2e-2)
    for step, b in zip(range(600), forever(rng, len(x), 32), strict=False):
        loss = fn.cross_entropy(model(x[b]), y[b])
        descend(opt, loss)
        log("train/loss", loss.item(), step)
        log("train/lr", 2e-2, step)
        log("train/grad_norm", grad_norm(model.parameters()), step)
        if step % 43 == 42:
            loss_v, accuracy = evaluate(model, xv, yv)
            log("val/loss", loss_v, step)
            log("val/acc", accuracy, step)


@training(
    field="river levels",
    fault="Tenth powers are fitted to rows of a narrow range: R2 rises in training, and falls far below 0.",
    series=["val_mse", "val_r2"],
    onset=(0, 30),
    source="https://scikit-learn.org/stable/auto_examples/model_selection/plot_underfitting_overfitting.html",
)
def only_training_improves(log: Log) -> None:
    rng = seeded(510)
    rows = rng.uniform(-1, 1, (400, 3)) * np.r_[np.full(100, 0.8), np.full(300, 1.4)][:, None]
    level = np.sin(2 * rows[:, :1]) + 0.5 * rows[:, 1:2] + 0.4 * rng.normal(size=(400, 1))
    powers = np.concatenate(
        [rows**k for k in range(1, 11)] + [np.cos(9 * rows @ rng.normal(size=(3, 60)))], 1
    )
    x, y = torch.tensor(powers, dtype=torch.float32), torch.tensor(level, dtype=torch.float32)
    model = mlp(x.shape[1], 128, 1)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(120):
        losses = [descend(opt, fn.mse_loss(model(x[b]), y[b])) for b in batches(rng, 100, 20)]
        with torch.no_grad():
            missed = fn.mse_loss(model(x[100:]), y[100:]).item()
        log("train_mse", float(np.mean(losses)), epoch)
        log("train_r2", 1 - float(np.mean(losses)) / y[:100].var().item(), epoch)
        log("val_mse", missed, epoch)
        log("val_r2", 1 - missed / y[100:].var().item(), epoch)


@training(
    field="lessons by difficulty",
    healthy=True,
    source="https://dl.acm.org/doi/10.1145/1553374.1553380",
    note="Two classes at first, two more each time: the loss rises five times, the evaluation gets better.",
)
def harder_lessons(log: Log) -> None:
    rng = seeded(511)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    step = 0
    for known in (2, 4, 6, 8, 10):
        rows = torch.nonzero(y < known)[:, 0]
        for b, _ in zip(forever(rng, len(rows), 32), range(160), strict=False):
            log("train/loss", descend(opt, fn.cross_entropy(model(x[rows[b]]), y[rows[b]])), step)
            log("curriculum/classes", known, step)
            if step % 40 == 39:
                log("val/accuracy", evaluate(model, xv, yv)[1], step)
            step += 1


@training(
    field="shapes from noise",
    healthy=True,
    source="https://arxiv.org/abs/1802.05957",
    note="Hinge losses in equilibrium: neither falls, and the distance of the samples gets small.",
)
def hinge_game(log: Log) -> None:
    rng = seeded(512)
    maker = mlp(4, 48, 48, 2)
    judge = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(2, 48)),
        nn.LeakyReLU(0.2),
        nn.utils.parametrizations.spectral_norm(nn.Linear(48, 48)),
        nn.LeakyReLU(0.2),
        nn.Linear(48, 1),
    )
    made = torch.optim.Adam(maker.parameters(), 5e-4, betas=(0.5, 0.9))
    judged = torch.optim.Adam(judge.parameters(), 1e-3, betas=(0.5, 0.9))

    def real(count: int) -> torch.Tensor:
        angle = torch.tensor(rng.uniform(0, 2 * math.pi, count), dtype=torch.float32)
        return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(count, 2)

    for step in range(1500):
        true, false = judge(real(128)), judge(maker(torch.randn(128, 4)).detach())
        loss_d = descend(judged, fn.relu(1 - true).mean() + fn.relu(1 + false).mean())
        loss_g = descend(made, -judge(maker(torch.randn(128, 4))).mean())
        log("D/hinge", loss_d, step)
        log("G/loss", loss_g, step)
        if step % 50 == 49:
            with torch.no_grad():
                away = (maker(torch.randn(400, 4)).norm(dim=1) - 1).abs().mean().item()
            log("samples/distance", away, step)


@training(
    field="a lander",
    healthy=True,
    source="https://spinningup.openai.com/en/latest/algorithms/sac.html",
    note="The critic's loss rises with the returns, the entropy's weight falls; the return gets better.",
)
def rewards_grow(log: Log) -> None:
    rng = seeded(513)
    critic, old = mlp(3, 32, 1), mlp(3, 32, 1)
    old.load_state_dict(critic.state_dict())
    opt = torch.optim.Adam(critic.parameters(), 3e-3)
    skill, spread, alpha = -1.0, 1.0, 0.2
    for step in range(3000):
        skill += 0.004 * (2.0 - skill) * float(rng.random() < 0.6)
        spread = 0.2 + 0.8 * math.exp(-step / 900)
        state = torch.tensor(rng.normal(size=(64, 2)), dtype=torch.float32)
        act = state[:, :1] + spread * torch.randn(64, 1)
        reward = 10 * (skill + 1) + 3 * skill * state[:, :1] - (act - state[:, :1]) ** 2
        after = torch.cat([torch.tensor(rng.normal(size=(64, 2)), dtype=torch.float32), act], 1)
        with torch.no_grad():
            aim = reward + 0.9 * old(after)
        loss = fn.mse_loss(critic(torch.cat([state, act], 1)), aim)
        descend(opt, loss)
        alpha *= 0.999
        with torch.no_grad():
            for kept, new in zip(old.parameters(), critic.parameters(), strict=True):
                kept.lerp_(new, 0.02)
        if step % 15 == 14:
            log("train/critic_loss", loss.item(), step)
            log("train/ent_coef", alpha, step)
            log("train/entropy", math.log(spread) + 1.42, step)
            log("rollout/ep_rew_mean", float(reward.mean()) * 20 - 200 + 8 * float(rng.normal()), step)


@training(
    field="handwriting in one cycle",
    healthy=True,
    source="https://arxiv.org/abs/1708.07120",
    note="The rate rises sixfold and falls: loss and accuracy are worse in the middle, best at the end.",
)
def one_cycle(log: Log) -> None:
    rng = seeded(514)
    x, y, xv, yv = digits()
    model = mlp(64, 96, 96, 10)
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    total = 1290
    for step, b in zip(range(total), forever(rng, len(x), 32), strict=False):
        part = step / total
        rate = 0.02 + 0.1 * (part / 0.4 if part < 0.4 else (1 - part) / 0.6)
        set_rate(opt, rate * (1 if part < 0.9 else (1 - part) / 0.1))
        loss = fn.cross_entropy(model(x[b] + 0.25 * torch.randn(32, 64)), y[b])
        log("train/loss", descend(opt, loss), step)
        log("lr", opt.param_groups[0]["lr"], step)
        if step % 43 == 42:
            held, accuracy = evaluate(model, xv, yv)
            log("valid/loss", held, step)
            log("valid/accuracy", accuracy, step)


@training(
    field="whole batches",
    healthy=True,
    source="https://arxiv.org/abs/2103.00065",
    note="Descent at the edge of stability: the loss spikes and comes back, and falls over many steps.",
)
def edge_of_stability(log: Log) -> None:
    seeded(515)
    x, y, xv, yv = digits()
    model = mlp(64, 48, 10, act=nn.Tanh)
    opt = torch.optim.SGD(model.parameters(), 1.9)
    for step in range(900):
        log("loss", descend(opt, fn.cross_entropy(model(x), y)), step)
        log("grad_norm", grad_norm(model.parameters()), step)
        if step % 30 == 29:
            loss, accuracy = evaluate(model, xv, yv)
            log("test_loss", loss, step)
            log("test_acc", accuracy, step)


@training(
    field="pictures that grow",
    healthy=True,
    source="https://arxiv.org/abs/1806.01593",
    note="Pictures of 4, then 8 pixels: steps take four times as long, the loss jumps, all as was meant.",
)
def larger_pictures(log: Log) -> None:
    rng = seeded(516)
    x, y, xv, yv = digits()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10)
    )
    opt = torch.optim.Adam(model.parameters(), 5e-3)

    def sized(rows: torch.Tensor, side: int) -> torch.Tensor:
        return fn.adaptive_avg_pool2d(rows.view(-1, 1, 8, 8), side)

    for step, b in zip(range(1000), forever(rng, len(x), 32), strict=False):
        side = 4 if step < 500 else 8
        log("train/loss", descend(opt, fn.cross_entropy(model(sized(x[b], side)), y[b])), step)
        log("train/image_size", side, step)
        log("time/step_s", 0.1 * (side / 4) ** 2 * float(1 + 0.03 * abs(rng.normal())), step)
        if step % 50 == 49:
            loss, accuracy = evaluate(model, sized(xv, 8), yv)
            log("val/loss", loss, step)
            log("val/accuracy", accuracy, step)
