"""Thirteen short trainings of further fields: eight with a mistake from posts and issue trackers, five sound.

Their author had read the rules. They were committed with their answers before any was judged.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as fn
from common import batches, descend, digits, evaluate, forever, grad_norm, mlp, seeded
from registry import Log, training
from torch import nn


@training(
    field="counting",
    fault="The last layer ends in a ReLU whose bias makes it 0 for all inputs: no gradient, one answer.",
    series=["train/mse", "val/mae"],
    onset=(0, 4),
    source="https://stats.stackexchange.com/questions/352036/what-should-i-do-when-my-neural-network-doesnt-learn",
)
def counts_nothing(log: Log) -> None:
    rng = seeded(401)
    x, _, xv, _ = digits()
    count, count_v = (1.0 * (part > 0.5).sum(1, keepdim=True) for part in (x, xv))
    model = nn.Sequential(*mlp(64, 48, 1), nn.ReLU())
    with torch.no_grad():
        model[2].bias.fill_(-40.0)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(18):
        losses = [descend(opt, fn.mse_loss(model(x[b]), count[b])) for b in batches(rng, len(x), 32)]
        log("train/mse", float(np.mean(losses)), epoch)
        with torch.no_grad():
            log("val/mae", (model(xv) - count_v).abs().mean().item(), epoch)


@training(
    field="house prices",
    fault="Score and loss have the wrong sign: the optimizer makes the error larger from the first step on.",
    series=["loss", "val_rmse"],
    onset=(0, 60),
    source="https://stackoverflow.com/questions/50855644",
)
def climbs_the_error(log: Log) -> None:
    rng = seeded(402)
    x = torch.tensor(rng.normal(size=(1500, 12)), dtype=torch.float32)
    price = x[:, :3].sum(1, keepdim=True) + 0.3 * x[:, 3:4] * x[:, 4:5] + 0.2 * torch.randn(1500, 1)
    model = mlp(12, 32, 1)
    opt = torch.optim.SGD(model.parameters(), 5e-4)
    for step, b in zip(range(600), forever(rng, 1200, 32), strict=False):
        loss = fn.mse_loss(model(x[b]), price[b])
        descend(opt, -loss)
        log("loss", loss.item(), step)
        if step % 40 == 39:
            with torch.no_grad():
                log("val_rmse", fn.mse_loss(model(x[1200:]), price[1200:]).sqrt().item(), step)


@training(
    field="recommendation of songs",
    fault="Negatives are drawn from the songs that were heard: the loss falls, the ranking stays chance.",
    series=["valid/hit_rate@10", "valid/ndcg@10"],
    onset=(0, 8),
    source="https://arxiv.org/abs/1708.05031",
)
def negatives_are_positives(log: Log) -> None:
    rng = seeded(403)
    users, items = 200, 120
    taste, kind = rng.normal(size=(users, 4)), rng.normal(size=(items, 4))
    liked = (taste @ kind.T).argsort(1)[:, -12:]
    for row in liked:
        rng.shuffle(row)
    u, i = nn.Embedding(users, 16), nn.Embedding(items, 16)
    opt = torch.optim.Adam([*u.parameters(), *i.parameters()], 5e-3, weight_decay=1e-4)
    for epoch in range(25):
        losses = []
        for b in batches(rng, users * 10, 64):
            who = b % users
            good = torch.as_tensor(liked[who, rng.integers(0, 10, len(b))])
            bad = torch.as_tensor(liked[who, rng.integers(0, 10, len(b))])
            apart = (u(who) * (i(good) - i(bad))).sum(1)
            losses.append(descend(opt, -fn.logsigmoid(apart).mean() + 1e-3 * i(good).pow(2).mean()))
        with torch.no_grad():
            scores = u.weight @ i.weight.T
            scores.scatter_(1, torch.as_tensor(liked[:, :10].copy()), -1e9)
            ranks = (scores > scores.gather(1, torch.as_tensor(liked[:, 10:11].copy()))).sum(1)
        log("train/bpr_loss", float(np.mean(losses)), epoch)
        log("valid/hit_rate@10", (ranks < 10).float().mean().item(), epoch)
        log("valid/ndcg@10", ((ranks < 10) / torch.log2(ranks + 2.0)).mean().item(), epoch)


@training(
    field="named entities",
    fault="Nearly all tokens have no entity, and the loss weighs each alike: no entity is ever found.",
    series=["dev/f1", "dev/recall"],
    onset=(0, 5),
    source="https://github.com/huggingface/transformers/issues",
)
def tags_nothing(log: Log) -> None:
    rng = seeded(404)
    x = torch.tensor(rng.normal(size=(4000, 16)), dtype=torch.float32)
    tag = (x[:, 0] + 0.8 * torch.randn(4000) > 3.0).long()
    model = mlp(16, 24, 2)
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(20):
        losses = [descend(opt, fn.cross_entropy(model(x[b]), tag[b])) for b in batches(rng, 3000, 64)]
        with torch.no_grad():
            found, right = model(x[3000:]).argmax(1) == 1, tag[3000:] == 1
        hits = float((found & right).sum())
        precision, recall = hits / max(float(found.sum()), 1), hits / float(right.sum())
        log("train/loss", float(np.mean(losses)), epoch)
        log("dev/precision", precision, epoch)
        log("dev/recall", recall, epoch)
        log("dev/f1", 2 * precision * recall / max(precision + recall, 1e-9), epoch)
        log("dev/accuracy", (found == right).float().mean().item(), epoch)


@training(
    field="control of an elevator",
    fault="The sign of the advantage is wrong: the policy makes likelier what brings less.",
    series=["rollout/return"],
    onset=(0, 40),
    source="https://spinningup.openai.com/en/latest/spinningup/rl_intro3.html",
)
def advantage_upside_down(log: Log) -> None:
    rng = seeded(405)
    policy = mlp(4, 24, 3)
    opt = torch.optim.Adam(policy.parameters(), 3e-3)
    baseline = 0.0
    for step in range(160):
        logs, returns = [], []
        for _ in range(8):
            floor, wanted, total, chances = rng.integers(0, 8), rng.integers(0, 8), 0.0, []
            for _ in range(12):
                view = torch.tensor([floor, wanted, wanted - floor, 8], dtype=torch.float32) / 8
                law = torch.distributions.Categorical(logits=policy(view))
                act = law.sample()
                chances.append(law.log_prob(act))
                floor = int(np.clip(floor + act.item() - 1, 0, 7))
                total -= abs(floor - wanted) / 8
            logs.append(torch.stack(chances).sum())
            returns.append(total)
        mean = float(np.mean(returns))
        advantage = torch.tensor([value - baseline for value in returns], dtype=torch.float32)
        baseline = 0.9 * baseline + 0.1 * mean
        log("train/policy_loss", descend(opt, (torch.stack(logs) * advantage).mean()), step)
        log("rollout/return", mean, step)


@training(
    field="traffic forecast",
    fault="The loss is summed over batch and sensors in training, and the rate was chosen for a mean.",
    series=["train/loss", "val/loss"],
    onset=(0, 40),
    source="https://discuss.pytorch.org/t/loss-reduction-sum-vs-mean-when-to-use-each/115641",
)
def summed_sensors(log: Log) -> None:
    rng = seeded(406)
    time = np.arange(2400)
    flow = np.stack([np.sin(time / (9 + k)) + 0.1 * rng.normal(size=2400) for k in range(10)], 1)
    flow = torch.tensor(flow, dtype=torch.float32)
    model = mlp(120, 48, 10)
    opt = torch.optim.SGD(model.parameters(), 3e-3, momentum=0.9)

    def rows(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.stack([flow[i : i + 12].flatten() for i in at.tolist()]), flow[at + 12]

    xv, yv = rows(torch.arange(2000, 2380))
    for step, b in zip(range(900), forever(rng, 1900, 32), strict=False):
        inputs, aim = rows(b)
        loss = fn.mse_loss(model(inputs), aim, reduction="sum")
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 50.0)
        opt.step()
        log("train/loss", loss.item(), step)
        if step % 30 == 29:
            with torch.no_grad():
                log("val/loss", fn.mse_loss(model(xv), yv).item(), step)


@training(
    field="reading of meters",
    fault="Weight decay of 30 with AdamW: the weights shrink faster than they learn, the loss goes to ln 10.",
    series=["train_loss", "val_loss", "val_accuracy"],
    onset=(0, 14),
    source="https://arxiv.org/abs/1711.05101",
)
def decays_away(log: Log) -> None:
    rng = seeded(407)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 64, 10)
    opt = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=30.0)
    warm = torch.optim.Adam(model.parameters(), 1e-3)
    for b in [b for _ in range(3) for b in batches(rng, len(x), 32)]:
        descend(warm, fn.cross_entropy(model(x[b]), y[b]))
    for epoch in range(24):
        losses = [descend(opt, fn.cross_entropy(model(x[b]), y[b])) for b in batches(rng, len(x), 32)]
        loss, accuracy = evaluate(model, xv, yv)
        log("train_loss", float(np.mean(losses)), epoch)
        log("val_loss", loss, epoch)
        log("val_accuracy", accuracy, epoch)


@training(
    field="translation of dates",
    fault="From step 500 on targets are no longer shifted: the decoder is given the letter it should say.",
    series=["train/loss", "val/exact_match"],
    onset=(500, 620),
    source="https://discuss.pytorch.org/t/seq2seq-target-shift/",
)
def sees_the_answer(log: Log) -> None:
    rng = seeded(408)
    words, length = 12, 6
    embed, rnn, head = nn.Embedding(words + 1, 24), nn.GRU(48, 48, batch_first=True), nn.Linear(48, words)
    opt = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *head.parameters()], 3e-3)

    def answer(source: torch.Tensor) -> torch.Tensor:
        return (source.flip(1) + 3) % words

    def logits(source: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return head(rnn(torch.cat([embed(source.flip(1)), embed(given)], 2))[0])

    test = torch.as_tensor(rng.integers(0, words, (200, length)))
    for step in range(1000):
        source = torch.as_tensor(rng.integers(0, words, (32, length)))
        target = answer(source)
        shifted = torch.cat([torch.full((32, 1), words), target[:, :-1]], 1)
        noise = torch.rand(32, length) < 0.3
        source_seen = torch.where(noise, torch.randint(0, words, (32, length)), source)
        out = logits(source_seen, shifted if step < 500 else target)
        log("train/loss", descend(opt, fn.cross_entropy(out.flatten(0, 1), target.flatten())), step)
        if step % 50 == 49:
            with torch.no_grad():
                said = torch.full((200, 1), words)
                for _ in range(length):
                    given = torch.cat([said, torch.zeros(200, length - said.shape[1], dtype=torch.long)], 1)
                    best = logits(test, given[:, :length]).argmax(2)[:, said.shape[1] - 1 : said.shape[1]]
                    said = torch.cat([said, best], 1)
            log("val/exact_match", (said[:, 1:] == answer(test)).all(1).float().mean().item(), step)


@training(
    field="survival",
    healthy=True,
    source="https://arxiv.org/abs/1606.00931",
    note="A partial likelihood falls by a few per cent, and the concordance goes from 0.5 to about 0.7.",
)
def survival(log: Log) -> None:
    rng = seeded(411)
    x = torch.tensor(rng.normal(size=(1600, 10)), dtype=torch.float32)
    lived = torch.tensor(rng.exponential(np.exp(-0.8 * x[:, 0].numpy() + 0.5 * x[:, 1].numpy())))
    model = mlp(10, 16, 1)
    opt = torch.optim.Adam(model.parameters(), 3e-4)
    for epoch in range(30):
        losses = []
        for b in batches(rng, 1200, 64):
            risk = model(x[b[lived[b].argsort(descending=True)]])[:, 0]
            losses.append(descend(opt, (risk.logcumsumexp(0) - risk).mean()))
        with torch.no_grad():
            risk, time = model(x[1200:])[:, 0], lived[1200:]
            pairs = time[:, None] < time[None, :]
            right = ((risk[:, None] > risk[None, :]) & pairs).sum() / pairs.sum()
        log("train/loss", float(np.mean(losses)), epoch)
        log("val/c_index", float(right), epoch)


@training(
    field="transfer",
    healthy=True,
    source="https://docs.fast.ai/tutorial.vision.html",
    note="A good model is tuned on more of the same: it is as good at the first evaluation as at the last.",
)
def already_good(log: Log) -> None:
    rng = seeded(412)
    x, y, xv, yv = digits()
    model = mlp(64, 96, 10)
    warm = torch.optim.Adam(model.parameters(), 1e-3)
    for b in [b for _ in range(25) for b in batches(rng, len(x), 32)]:
        descend(warm, fn.cross_entropy(model(x[b]), y[b]))
    opt = torch.optim.SGD(model.parameters(), 1e-3)
    for epoch in range(16):
        noisy = x + 0.15 * torch.randn_like(x)
        losses = [descend(opt, fn.cross_entropy(model(noisy[b]), y[b])) for b in batches(rng, len(x), 32)]
        loss, accuracy = evaluate(model, xv, yv)
        log("train/loss", float(np.mean(losses)), epoch)
        log("eval/loss", loss, epoch)
        log("eval/accuracy", accuracy, epoch)


@training(
    field="stock returns",
    healthy=True,
    source="https://arxiv.org/abs/1901.09729",
    note="Nearly all of the target is noise: the loss falls by two per cent, the correlation is 0.2.",
)
def mostly_noise(log: Log) -> None:
    rng = seeded(413)
    x = torch.tensor(rng.normal(size=(6000, 8)), dtype=torch.float32)
    aim = 0.2 * x[:, :1] + torch.randn(6000, 1)
    model = mlp(8, 16, 1)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step, b in zip(range(1500), forever(rng, 5000, 128), strict=False):
        log("train/loss", descend(opt, fn.mse_loss(model(x[b]), aim[b])), step)
        log("train/lr", 1e-3, step)
        if step % 100 == 99:
            with torch.no_grad():
                said, true = model(x[5000:])[:, 0], aim[5000:, 0]
                log("val/loss", fn.mse_loss(said, true).item(), step)
                log("val/correlation", torch.corrcoef(torch.stack([said, true]))[0, 1].item(), step)


@training(
    field="mazes",
    healthy=True,
    source="http://incompleteideas.net/book/the-book-2nd.html",
    note="The goal is far: for many episodes there is no reward; then it is found ever more often.",
)
def finds_the_exit_late(log: Log) -> None:
    rng = seeded(414)
    side = 8
    values = np.zeros((side * side, 4))
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    for episode in range(400):
        row, column, total = 0, 0, 0.0
        explore = max(0.1, 1 - episode / 250)
        for _ in range(60):
            here = row * side + column
            best = np.flatnonzero(values[here] == values[here].max())
            act = int(rng.integers(4)) if rng.random() < explore else int(rng.choice(best))
            row = int(np.clip(row + moves[act][0], 0, side - 1))
            column = int(np.clip(column + moves[act][1], 0, side - 1))
            reward = float(row == column == side - 1)
            there = row * side + column
            after = 0.0 if reward else 0.95 * values[there].max()
            values[here, act] += 0.2 * (reward + after - values[here, act])
            total += reward
            if reward:
                break
        log("episode/return", total, episode)
        log("train/epsilon", explore, episode)
        log("train/q_mean", float(values.mean()), episode)


@training(
    field="clocks",
    healthy=True,
    source="https://arxiv.org/abs/1706.02677",
    note="Linear warm-up, a cosine, dropout: the training loss lies above that of the evaluation all along.",
)
def dropout_above(log: Log) -> None:
    rng = seeded(415)
    x, y, xv, yv = digits()
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.5), nn.Linear(96, 10))
    opt = torch.optim.SGD(model.parameters(), 0.0, momentum=0.9)
    for step, b in zip(range(860), forever(rng, len(x), 32), strict=False):
        rate = 0.1 * min(1.0, step / 80) * (1 + math.cos(math.pi * step / 860)) / 2
        opt.param_groups[0]["lr"] = rate
        log("train/loss", descend(opt, fn.cross_entropy(model(x[b] + 0.2 * torch.randn(32, 64)), y[b])), step)
        log("train/lr", rate, step)
        log("train/grad_norm", grad_norm(model.parameters()), step)
        if step % 43 == 42:
            loss, accuracy = evaluate(model, xv, yv)
            log("val/loss", loss, step)
            log("val/acc", accuracy, step)
