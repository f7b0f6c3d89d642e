"""Twenty-four short trainings as people ask about them in forums: twelve with one mistake, twelve sound.

Each sound one lies near a fault. They were committed with their answers before any was judged; their author
knew the rules' names alone.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as fn
from common import (
    CharModel,
    batches,
    descend,
    digits,
    encode,
    evaluate,
    forever,
    grad_norm,
    mlp,
    seeded,
    set_rate,
    text,
    token_loss,
    windows,
)
from registry import Log, training
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score
from torch import nn


def recall_at_1(codes: torch.Tensor, labels: torch.Tensor) -> float:
    distances = torch.cdist(codes, codes)
    distances.fill_diagonal_(math.inf)
    return (labels[distances.argmin(1)] == labels).float().mean().item()


def mined(codes: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For each row the distance of its farthest fellow and of its nearest stranger."""
    distances = ((codes[:, None] - codes) ** 2).sum(2).add(1e-12).sqrt()
    same = labels[:, None] == labels
    return (distances * same).amax(1), (distances + 1e3 * same).amin(1)


@training(
    field="faces of a staff",
    fault="The hardest triplets, and much decay: all faces get one code, and the loss stays at the margin.",
    series=["train/triplet_loss", "train/dist_ap", "val/recall_at_1"],
    onset=(0, 200),
    source="https://github.com/omoindrot/tensorflow-triplet-loss/issues/38",
)
def triplets_at_the_margin(log: Log) -> None:
    rng = seeded(701)
    x, y, xv, yv = digits()
    model = mlp(64, 128, 128, 16)
    opt = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=0.05)
    stream = forever(rng, len(x), 40)
    for step in range(801):
        b = next(stream)
        near, far = mined(model(x[b]), y[b])
        loss = fn.relu(near**2 - far**2 + 0.2).mean()
        descend(opt, loss)
        if step % 20 == 0:
            log("train/triplet_loss", loss.item(), step)
            log("train/dist_ap", near.mean().item(), step)
            log("train/dist_an", far.mean().item(), step)
        if step % 100 == 0:
            with torch.no_grad():
                log("val/recall_at_1", recall_at_1(model(xv), yv), step)


@training(
    field="songs of birds",
    fault="A hidden folder in the validation directory comes first, so that there all labels are one higher.",
    series=["val_loss", "val_sparse_categorical_accuracy"],
    onset=(0, 5),
    source="https://keras.io/api/data_loading/image/",
)
def one_folder_too_many(log: Log) -> None:
    rng = seeded(702)
    x, y, xv, yv = digits()
    model = nn.Sequential(nn.Dropout(0.1), mlp(64, 64, 11))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(20):
        losses, hits = [], []
        for b in batches(rng, len(x), 32):
            out = model(x[b])
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
        missed, accuracy = evaluate(model, xv, yv + 1)
        log("loss", float(np.mean(losses)), epoch)
        log("sparse_categorical_accuracy", float(np.mean(hits)), epoch)
        log("val_loss", missed, epoch)
        log("val_sparse_categorical_accuracy", accuracy, epoch)


@training(
    field="noises of machines",
    fault="The rate is halved on a plateau of the loss of single batches: nothing is left after an epoch.",
    series=["learning rate", "batch loss", "dev accuracy"],
    onset=(4, 120),
    source="https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html",
)
def plateau_of_batches(log: Log) -> None:
    rng = seeded(703)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=5)
    step = 0
    for epoch in range(12):
        for b in batches(rng, len(x), 16):
            noisy = x[b] + 0.4 * torch.randn(16, 64)
            loss = descend(opt, fn.cross_entropy(model(noisy), y[b]))
            schedule.step(loss)
            step += 1
            if step % 4 == 0:
                log("batch loss", loss, step)
                log("learning rate", opt.param_groups[0]["lr"], step)
        missed, accuracy = evaluate(model, xv, yv)
        log("dev loss", missed, epoch)
        log("dev accuracy", accuracy, epoch)


def reach(log: Log, target_entropy: float, seed: int) -> None:
    """Soft actor and critic for an arm that has one move to come near a goal, with a learned temperature."""
    rng = seeded(seed)
    actor, critic = mlp(2, 32, 4), mlp(4, 48, 1)
    log_alpha = torch.zeros(1, requires_grad=True)
    opts = [
        torch.optim.Adam(actor.parameters(), 1e-3),
        torch.optim.Adam(critic.parameters(), 3e-3),
        torch.optim.Adam([log_alpha], 4e-3),
    ]

    def act(goal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = actor(goal).chunk(2, 1)
        spread = spread.clamp(-5, 1).exp()
        raw = mean + spread * torch.randn_like(mean)
        dense = -0.5 * ((raw - mean) / spread) ** 2 - spread.log() - 0.919
        move = raw.tanh()
        return move, (dense - (1 - move**2 + 1e-6).log()).sum(1)

    goals, moves, gains = [], [], []
    for step in range(1, 1501):
        goal = torch.tensor(rng.uniform(-0.8, 0.8, (8, 2)), dtype=torch.float32)
        with torch.no_grad():
            move, _ = act(goal)
        gain = 2 - 4 * ((goal - move) ** 2).sum(1) + 0.1 * torch.randn(8)
        goals.append(goal), moves.append(move), gains.append(gain)
        pick = rng.integers(0, len(goals), 8)
        g, m, r = (torch.cat([one[i] for i in pick]) for one in (goals, moves, gains))
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            after, dense = act(g)
            bound = r + 0.8 * (critic(torch.cat([g, after], 1))[:, 0] - alpha * dense)
        td = fn.mse_loss(critic(torch.cat([g, m], 1))[:, 0], bound)
        descend(opts[1], td)
        after, dense = act(g)
        aim = (alpha * dense - critic(torch.cat([g, after], 1))[:, 0]).mean()
        descend(opts[0], aim)
        descend(opts[2], -(log_alpha.exp() * (dense.detach() + target_entropy)).mean())
        if step % 25 == 0:
            log("train/ent_coef", log_alpha.exp().item(), step)
            log("train/critic_loss", td.item(), step)
            log("train/actor_loss", aim.item(), step)
            log("rollout/ep_rew_mean", torch.cat(gains[-25:]).mean().item(), step)


@training(
    field="an arm that reaches",
    fault="The entropy's target has the wrong sign: no policy reaches it, and its weight grows for ever.",
    series=["train/ent_coef", "train/critic_loss", "train/actor_loss"],
    onset=(25, 900),
    source="https://github.com/pranz24/pytorch-soft-actor-critic/issues/34",
)
def entropy_without_end(log: Log) -> None:
    reach(log, 2.0, 704)


@training(
    field="letters from noise",
    fault="A Wasserstein critic without clip or penalty: nothing bounds it, and both losses run away.",
    series=["critic/loss", "gen/loss", "critic/grad_norm"],
    onset=(10, 400),
    source="https://github.com/torchgan/torchgan/pull/42",
)
def critic_without_bound(log: Log) -> None:
    rng = seeded(705)
    x = digits()[0]
    gen, critic = nn.Sequential(mlp(16, 96, 64), nn.Sigmoid()), mlp(64, 96, 96, 1)
    opt_g = torch.optim.Adam(gen.parameters(), 2e-4, betas=(0.5, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), 1e-3, betas=(0.5, 0.9))
    stream = forever(rng, len(x), 32)
    for step in range(600):
        for _ in range(3):
            real = x[next(stream)]
            fake = gen(torch.randn(32, 16)).detach()
            loss = critic(fake).mean() - critic(real).mean()
            descend(opt_c, loss)
        told = -critic(gen(torch.randn(32, 16))).mean()
        descend(opt_g, told)
        if step % 10 == 0:
            log("critic/loss", loss.item(), step)
            log("critic/grad_norm", grad_norm(critic.parameters()), step)
            log("gen/loss", told.item(), step)


@training(
    field="used cars",
    fault="Prices are learned in full, not scaled: outputs hardly leave zero, the score is below 0.",
    series=["loss", "val_loss", "val_r2"],
    onset=(0, 5),
    source="https://karpathy.github.io/2019/04/25/recipe/",
)
def prices_in_full(log: Log) -> None:
    rng = seeded(706)
    x = torch.randn(1600, 12)
    price = 24000 + 6000 * (x @ torch.randn(12)) / 3.5 + 1500 * torch.randn(1600)
    model = mlp(12, 32, 1)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(25):
        losses, off = [], []
        for b in batches(rng, 1300, 32):
            out = model(x[b])[:, 0]
            off.append((out - price[b]).abs().mean().item())
            losses.append(descend(opt, fn.mse_loss(out, price[b])))
        with torch.no_grad():
            miss = model(x[1300:])[:, 0] - price[1300:]
        log("loss", float(np.mean(losses)), epoch)
        log("mae", float(np.mean(off)), epoch)
        log("val_loss", (miss**2).mean().item(), epoch)
        log("val_mae", miss.abs().mean().item(), epoch)
        log("val_r2", 1 - ((miss**2).mean() / price[1300:].var()).item(), epoch)


@training(
    field="depth of rooms",
    fault="Learned task weights without their own term: they go to 0 and the loss too; nothing improves.",
    series=["Loss/total", "Metrics/depth_rmse", "Metrics/room_acc", "Weights/depth"],
    onset=(0, 400),
    source="https://arxiv.org/abs/1705.07115",
)
def weights_of_tasks_vanish(log: Log) -> None:
    rng = seeded(707)
    x, y, xv, yv = digits()
    tilt = torch.randn(64, 1) / 8
    body, depth_head, room_head = mlp(64, 48), mlp(48, 1), mlp(48, 10)
    logs = torch.zeros(2, requires_grad=True)
    weights = [*body.parameters(), *depth_head.parameters(), *room_head.parameters()]
    opt = torch.optim.SGD([{"params": weights, "lr": 0.01}, {"params": [logs], "lr": 0.2}])
    stream = forever(rng, len(x), 32)
    for step in range(1000):
        b = next(stream)
        inside = body(x[b]).relu()
        depth = fn.mse_loss(depth_head(inside), 3 + x[b] @ tilt)
        room = fn.cross_entropy(room_head(inside), y[b])
        total = (-logs[0]).exp() * depth + (-logs[1]).exp() * room
        descend(opt, total)
        if step % 20 == 0:
            log("Loss/total", total.item(), step)
            log("Loss/depth", depth.item(), step)
            log("Loss/room", room.item(), step)
            log("Weights/depth", (-logs[0]).exp().item(), step)
            log("Weights/room", (-logs[1]).exp().item(), step)
        if step % 100 == 0:
            with torch.no_grad():
                inside = body(xv).relu()
                off = fn.mse_loss(depth_head(inside), 3 + xv @ tilt)
                right = (room_head(inside).argmax(1) == yv).float().mean()
            log("Metrics/depth_rmse", off.sqrt().item(), step)
            log("Metrics/room_acc", right.item(), step)


@training(
    field="notes of doctors",
    fault="The warm-up takes 20,000 steps and the run has 600: the rate never comes near what was asked for.",
    series=["train/loss", "train/learning_rate", "eval/loss"],
    onset=(0, 600),
    source="https://github.com/Morizeyao/GPT2-Chinese/issues/60",
)
def warm_up_outlasts_the_run(log: Log) -> None:
    rng = seeded(708)
    ids, size = encode(text(rng, 400))
    model = CharModel(size, 32)
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(1, 601):
        rate = 5e-4 * step / 20000
        set_rate(opt, rate)
        loss = descend(opt, token_loss(model, *windows(rng, ids[:-4000], 16, 32)))
        if step % 10 == 0:
            log("train/loss", loss, step)
            log("train/learning_rate", rate, step)
            log("train/grad_norm", grad_norm(model.parameters()), step)
            log("train/epoch", step / 200, step)
        if step % 100 == 0:
            with torch.no_grad():
                log("eval/loss", token_loss(model, *windows(rng, ids[-4000:], 32, 32)).item(), step)


@training(
    field="ratings of films",
    fault="The penalty on the factors is a hundred times too large: all become 0, each film gets the mean.",
    series=["Train RMSE", "Test RMSE", "Norm of user factors"],
    onset=(0, 20),
    source="https://surprise.readthedocs.io/en/stable/matrix_factorization.html",
)
def penalty_flattens_all(log: Log) -> None:
    rng = np.random.default_rng(709)
    users, films, width = 120, 80, 6
    taste, kind = rng.normal(size=(users, 3)), rng.normal(size=(films, 3))
    seen = rng.permutation(users * films)[:5000]
    u, i = seen // films, seen % films
    stars = 3.5 + 0.6 * (taste[u] * kind[i]).sum(1) + 0.3 * rng.normal(size=len(u))
    p, q = 0.5 * rng.normal(size=(users, width)), 0.5 * rng.normal(size=(films, width))
    mean, cut = stars[:4000].mean(), 4000
    for epoch in range(40):
        for row in rng.permutation(cut):
            a, b = u[row], i[row]
            miss = stars[row] - mean - p[a] @ q[b]
            p[a], q[b] = p[a] + 0.02 * (miss * q[b] - 4 * p[a]), q[b] + 0.02 * (miss * p[a] - 4 * q[b])
        miss = stars - mean - (p[u] * q[i]).sum(1)
        log("Train RMSE", float(np.sqrt((miss[:cut] ** 2).mean())), epoch)
        log("Test RMSE", float(np.sqrt((miss[cut:] ** 2).mean())), epoch)
        log("Norm of user factors", float(np.linalg.norm(p)), epoch)
        log("Norm of item factors", float(np.linalg.norm(q)), epoch)


def distilled(log: Log, taught: bool, seed: int) -> None:
    """Teach a small model by the answers of a large one, which was trained before or not."""
    rng = seeded(seed)
    x, y, xv, yv = digits()
    teacher, pupil = mlp(64, 128, 128, 10), mlp(64, 16, 10)
    if taught:
        opt = torch.optim.Adam(teacher.parameters(), 2e-3)
        for _ in range(8):
            for b in batches(rng, len(x), 64):
                descend(opt, fn.cross_entropy(teacher(x[b]), y[b]))
    else:
        teacher[-1].weight.data *= 12
    opt = torch.optim.Adam(pupil.parameters(), 2e-3)
    step = 0
    for epoch in range(16):
        for b in batches(rng, len(x), 64):
            out = pupil(x[b])
            with torch.no_grad():
                told = (teacher(x[b]) / 4).softmax(1)
            kd = fn.kl_div((out / 4).log_softmax(1), told, reduction="batchmean") * 16
            hard = fn.cross_entropy(out, y[b])
            descend(opt, kd + 0.02 * hard)
            step += 1
            if step % 7 == 0:
                log("kd_loss", kd.item(), step)
                log("hard_loss", hard.item(), step)
        log("student/top1", evaluate(pupil, xv, yv)[1], epoch)
        log("teacher/top1", evaluate(teacher, xv, yv)[1], epoch)


@training(
    field="a small model for phones",
    fault="The teacher's checkpoint is never loaded: the pupil learns to answer as an untrained model does.",
    series=["student/top1", "teacher/top1", "hard_loss"],
    onset=(0, 112),
    source="https://arxiv.org/abs/1503.02531",
)
def pupil_of_a_beginner(log: Log) -> None:
    distilled(log, False, 710)


@training(
    field="readmission to hospital",
    fault="A column is written at discharge for past patients alone: worthless for those it must judge.",
    series=["validation_0-logloss", "validation_1-logloss", "validation_1-auc"],
    onset=(0, 10),
    source="https://www.kaggle.com/code/alexisbcook/data-leakage",
)
def written_at_discharge(log: Log) -> None:
    rng = np.random.default_rng(711)
    x = rng.normal(size=(1600, 8))
    y = (x[:, 0] + 0.7 * x[:, 1] + 1.2 * rng.normal(size=1600) > 0).astype(int)
    written = np.where((np.arange(1600) < 1000) & (rng.random(1600) < 0.93), y, 0)[:, None]
    x = np.concatenate([x, written], 1)
    model = GradientBoostingClassifier(n_estimators=60, max_depth=3, random_state=0).fit(x[:1000], y[:1000])
    for rounds, (seen, new) in enumerate(
        zip(model.staged_predict_proba(x[:1000]), model.staged_predict_proba(x[1000:]), strict=True)
    ):
        log("validation_0-logloss", log_loss(y[:1000], seen), rounds)
        log("validation_0-auc", roc_auc_score(y[:1000], seen[:, 1]), rounds)
        log("validation_1-logloss", log_loss(y[1000:], new), rounds)
        log("validation_1-auc", roc_auc_score(y[1000:], new[:, 1]), rounds)


def rounded(weights: torch.Tensor, largest: float, levels: int) -> torch.Tensor:
    """Weights in steps of a scale; the gradient passes as if they were not rounded."""
    scale = largest / levels
    return weights + ((weights / scale).round() * scale - weights).detach()


@training(
    field="a camera's chip",
    fault="Rounding begins at step 400, with a scale of one outlier: all weights but it become 0 for good.",
    series=["qat/loss", "qat/val_top1"],
    onset=(380, 450),
    source="https://github.com/qualcomm/aimet/issues/1517",
)
def scale_of_an_outlier(log: Log) -> None:
    rng = seeded(712)
    x, y, xv, yv = digits()
    first, last = nn.Linear(64, 64), nn.Linear(64, 10)
    opt = torch.optim.Adam([*first.parameters(), *last.parameters()], 1e-3)
    stream = forever(rng, len(x), 32)

    def model(x: torch.Tensor, step: int) -> torch.Tensor:
        if step < 400:
            return last(first(x).relu())
        inside = fn.linear(x, rounded(first.weight, 60.0, 7), first.bias).relu()
        return fn.linear(inside, rounded(last.weight, 60.0, 7), last.bias)

    for step in range(1000):
        b = next(stream)
        loss = descend(opt, fn.cross_entropy(model(x[b], step), y[b]))
        if step % 10 == 0:
            log("qat/loss", loss, step)
            log("qat/observer_max", 60.0 if step >= 400 else 0.4, step)
        if step % 50 == 0:
            with torch.no_grad():
                log("qat/val_top1", (model(xv, step).argmax(1) == yv).float().mean().item(), step)


@training(
    field="faces at a door",
    healthy=True,
    source="https://arxiv.org/abs/1703.07737",
    note="The hardest triplets keep the loss near its start for half of the run; the recall is good by then.",
)
def triplets_get_harder(log: Log) -> None:
    rng = seeded(721)
    x, y, xv, yv = digits()
    model = mlp(64, 96, 16)
    opt = torch.optim.Adam(model.parameters(), 3e-4)
    stream = forever(rng, len(x), 40)
    for step in range(801):
        b = next(stream)
        near, far = mined(fn.normalize(model(x[b]), dim=1), y[b])
        loss = fn.softplus(near - far).mean()
        descend(opt, loss)
        if step % 20 == 0:
            log("train/triplet_loss", loss.item(), step)
            log("train/dist_ap", near.mean().item(), step)
            log("train/dist_an", far.mean().item(), step)
        if step % 100 == 0:
            with torch.no_grad():
                log("val/recall_at_1", recall_at_1(fn.normalize(model(xv), dim=1), yv), step)


@training(
    field="numbers read aloud",
    healthy=True,
    source="https://distill.pub/2017/ctc/",
    note="The loss falls to the one of answering blanks, stays there for a time, and then goes down.",
)
def blanks_at_first(log: Log) -> None:
    rng = seeded(722)
    sounds = rng.normal(size=(11, 10))

    def heard(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        words = rng.integers(1, 11, (size, 4))
        frames = np.zeros((size, 16, 10))
        for place in range(4):
            frames[:, 4 * place + 1 : 4 * place + 3] = sounds[words[:, place], None]
        return torch.tensor(frames + 0.6 * rng.normal(size=frames.shape), dtype=torch.float32), torch.tensor(
            words
        )

    rnn, head = nn.GRU(10, 32, batch_first=True, bidirectional=True), nn.Linear(64, 11)
    opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], 1e-3)
    held, spoken = heard(100)
    for step in range(701):
        frames, words = heard(16)
        out = head(rnn(frames)[0]).log_softmax(2).transpose(0, 1)
        loss = descend(opt, fn.ctc_loss(out, words, torch.full((16,), 16), torch.full((16,), 4)))
        if step % 10 == 0:
            log("ctc_loss", loss, step)
        if step % 50 == 0:
            with torch.no_grad():
                best = head(rnn(held)[0]).argmax(2).tolist()
            wrong = []
            for row, word in zip(best, spoken.tolist(), strict=True):
                said = [c for c, before in zip(row, [0, *row], strict=False) if c not in (0, before)]
                wrong.append(float(said != word))
            log("dev_ser", float(np.mean(wrong)), step)


@training(
    field="keyboards of many phones",
    healthy=True,
    source="https://arxiv.org/abs/1602.05629",
    note="Each phone has two of ten classes: its own loss falls at once, and is high again after averaging.",
)
def averaged_over_phones(log: Log) -> None:
    rng = seeded(723)
    x, y, xv, yv = digits()
    shards = [torch.nonzero((y == one) | (y == (one + 3) % 10))[:, 0] for one in range(10)]
    model, local = mlp(64, 48, 10), mlp(64, 48, 10)
    step = 0
    for turn in range(60):
        total = {key: torch.zeros_like(value) for key, value in model.state_dict().items()}
        chosen = rng.choice(10, 6, replace=False)
        for shard in chosen:
            local.load_state_dict(model.state_dict())
            opt = torch.optim.SGD(local.parameters(), 0.1)
            for _ in range(5):
                b = shards[shard][torch.as_tensor(rng.integers(0, len(shards[shard]), 20))]
                log("client/loss", descend(opt, fn.cross_entropy(local(x[b]), y[b])), step)
                step += 1
            for key, value in local.state_dict().items():
                total[key] += value / len(chosen)
        model.load_state_dict(total)
        missed, accuracy = evaluate(model, xv, yv)
        log("server/test_loss", missed, turn)
        log("server/test_acc", accuracy, turn)


@training(
    field="a pendulum's path",
    healthy=True,
    source="https://arxiv.org/abs/1211.5063",
    note="The rate starts too high: in the first steps the loss is ten times its start, and it comes back.",
)
def diverges_and_recovers(log: Log) -> None:
    rng = seeded(724)
    rnn, head = nn.RNN(2, 32, batch_first=True), nn.Linear(32, 2)
    nn.init.normal_(rnn.weight_hh_l0, std=0.4)
    weights = [*rnn.parameters(), *head.parameters()]
    opt = torch.optim.RMSprop(weights, 3e-2)

    def paths(size: int) -> torch.Tensor:
        phase, speed = rng.uniform(0, 6.28, (size, 1)), rng.uniform(0.2, 0.5, (size, 1))
        angle = phase + speed * np.arange(25)
        return torch.tensor(np.stack([np.sin(angle), np.cos(angle)], 2), dtype=torch.float32)

    held = paths(100)
    for step in range(500):
        set_rate(opt, 3e-2 if step < 15 else 1e-3)
        path = paths(16)
        loss = fn.mse_loss(head(rnn(path[:, :-1])[0]), path[:, 1:])
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(weights, 1.0)
        opt.step()
        if step % 2 == 0:
            log("mse", loss.item(), step)
            log("gradient norm", norm.item(), step)
            log("lr", opt.param_groups[0]["lr"], step)
        if step % 50 == 49:
            with torch.no_grad():
                log("mse held out", fn.mse_loss(head(rnn(held[:, :-1])[0]), held[:, 1:]).item(), step)


@training(
    field="labels of a crowd",
    healthy=True,
    source="https://arxiv.org/abs/1705.10694",
    note="A third of the training labels is wrong: training stops at 0.64, the clean set is at 0.92.",
)
def labels_of_a_crowd(log: Log) -> None:
    rng = seeded(725)
    x, y, xv, yv = digits()
    wrong = torch.as_tensor(rng.random(len(y)) < 0.35)
    y = torch.where(wrong, torch.as_tensor(rng.integers(0, 10, len(y))), y)
    model = mlp(64, 24, 10)
    opt = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.1)
    for epoch in range(20):
        losses, hits = [], []
        for b in batches(rng, len(x), 32):
            out = model(x[b] + 0.15 * torch.randn(32, 64))
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
        missed, accuracy = evaluate(model, xv, yv)
        log("training_loss", float(np.mean(losses)), epoch)
        log("training_accuracy", float(np.mean(hits)), epoch)
        log("clean_loss", missed, epoch)
        log("clean_accuracy", accuracy, epoch)


@training(
    field="an arm that learns to reach",
    healthy=True,
    source="https://arxiv.org/abs/1812.05905",
    note="The actor's loss rises before it falls below 0, and the weight of the entropy falls to the end.",
)
def temperature_settles(log: Log) -> None:
    reach(log, -2.0, 726)


@training(
    field="pictures without labels",
    healthy=True,
    source="https://arxiv.org/abs/2006.07733",
    note="The loss falls at once, then rises as the codes spread; the neighbours get better all along.",
)
def codes_spread_out(log: Log) -> None:
    rng = seeded(727)
    x, y, xv, yv = digits()
    online, target, guess = mlp(88, 96, 24), mlp(88, 96, 24), mlp(24, 48, 24)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam([*online.parameters(), *guess.parameters()], 1e-3)
    stream = forever(rng, len(x), 64)

    def view(x: torch.Tensor) -> torch.Tensor:
        seen = (x + 0.25 * torch.randn_like(x)) * (torch.rand_like(x) > 0.1)
        return torch.cat([seen, 1.2 * torch.randn(len(x), 24)], 1)

    for step in range(1001):
        b = next(stream)
        one, two = view(x[b]), view(x[b])
        with torch.no_grad():
            aims = target(one), target(two)
        loss = sum(
            2 - 2 * fn.cosine_similarity(guess(online(seen)), aim).mean()
            for seen, aim in zip((two, one), aims, strict=True)
        )
        value = descend(opt, loss)
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        if step % 20 == 0:
            log("byol/loss", value, step)
            with torch.no_grad():
                log("byol/z_std", fn.normalize(online(view(x[b])), dim=1).std(0).mean().item(), step)
        if step % 100 == 0:
            with torch.no_grad():
                known, asked = (fn.normalize(online(view(one)), dim=1) for one in (x, xv))
                log("knn/top1", (y[torch.cdist(asked, known).argmin(1)] == yv).float().mean().item(), step)


@training(
    field="a contest with five folds",
    healthy=True,
    source="https://www.kaggle.com/code/alexisbcook/cross-validation",
    note="Five models are trained one after the other under the same names: each begins anew.",
)
def five_folds(log: Log) -> None:
    rng = seeded(728)
    x, y, _, _ = digits()
    parts = np.array_split(rng.permutation(len(x)), 5)
    epoch = 0
    for fold in range(5):
        out = torch.as_tensor(parts[fold])
        known = torch.as_tensor(np.concatenate([part for k, part in enumerate(parts) if k != fold]))
        model = mlp(64, 48, 10)
        opt = torch.optim.Adam(model.parameters(), 1e-3)
        for _ in range(10):
            losses = [
                descend(opt, fn.cross_entropy(model(x[known[b]]), y[known[b]]))
                for b in batches(rng, len(known), 32)
            ]
            missed, accuracy = evaluate(model, x[out], y[out])
            log("fold", fold, epoch)
            log("train_loss", float(np.mean(losses)), epoch)
            log("valid_loss", missed, epoch)
            log("valid_acc", accuracy, epoch)
            epoch += 1


@training(
    field="sales of a shop",
    healthy=True,
    source="https://otexts.com/fpp3/tscv.html",
    note="It is evaluated on the week to come, and in some weeks people buy as they never did before.",
)
def week_by_week(log: Log) -> None:
    rng = np.random.default_rng(729)
    days = np.arange(7 * 80)
    sold = (
        80
        + 0.05 * days
        + 25 * np.sin(2 * np.pi * days / 7)
        + 10 * np.sin(2 * np.pi * days / 91)
        + 5 * rng.normal(size=len(days))
    )
    sold[(days // 7) % 13 == 11] *= rng.uniform(1.2, 1.7)
    x = np.stack([np.ones(len(days)), *(np.roll(sold, 7 * k) for k in (1, 2, 3))], 1)
    x[:, 1:] = (x[:, 1:] - 85) / 25
    weights = np.array([60.0, 0.0, 0.0, 0.0])
    for week in range(3, 80):
        losses = []
        for _ in range(20):
            row = rng.integers(21, 7 * week) if week > 3 else 21
            miss = sold[row] - x[row] @ weights
            weights += 0.02 * miss * x[row]
            losses.append(miss**2)
        ahead = slice(7 * week, 7 * week + 7)
        log("fit/mse", float(np.mean(losses)), week)
        log("next_week/mape", float(np.mean(np.abs(sold[ahead] - x[ahead] @ weights) / sold[ahead])), week)


@training(
    field="a network that is thinned out",
    healthy=True,
    source="https://arxiv.org/abs/1710.01878",
    note="A share of the weights is set to 0 every 100 steps: the loss jumps, recovers, ends a bit higher.",
)
def thinned_in_steps(log: Log) -> None:
    rng = seeded(730)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    masks = [torch.ones_like(layer.weight) for layer in model if isinstance(layer, nn.Linear)]
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    stream = forever(rng, len(x), 32)
    sparsity = 0.0
    for step in range(1001):
        if step in (400, 500, 600, 700):
            sparsity = 1 - (1 - sparsity) * 0.55
            for layer, mask in zip(layers, masks, strict=True):
                mask.copy_(layer.weight.abs() > layer.weight.abs().quantile(sparsity))
        with torch.no_grad():
            for layer, mask in zip(layers, masks, strict=True):
                layer.weight.mul_(mask)
        b = next(stream)
        loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
        if step % 10 == 0:
            log("loss", loss, step)
            log("sparsity", sparsity, step)
        if step % 50 == 0:
            missed, accuracy = evaluate(model, xv, yv)
            log("val/loss", missed, step)
            log("val/acc", accuracy, step)


@training(
    field="verdicts by a large model",
    healthy=True,
    source="https://huggingface.co/docs/transformers/training",
    note="Three evaluations, and batches of 16: the training loss is least in the middle of the run.",
)
def three_epochs(log: Log) -> None:
    rng = seeded(731)
    x, y, xv, yv = digits()
    model = mlp(64, 96, 10)
    before = torch.optim.Adam(model.parameters(), 1e-3)
    for b in batches(rng, len(x), 32):
        descend(before, fn.cross_entropy(model(x[b]), (y[b] + 1) % 10))
    opt = torch.optim.AdamW(model.parameters(), 8e-3)
    step, steps = 0, 3 * (len(x) // 16)
    for epoch in range(3):
        for b in batches(rng, len(x), 16):
            rate = 8e-3 * min((step + 1) / 30, (steps - step) / (steps - 30))
            set_rate(opt, rate)
            loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
            step += 1
            if step % 20 == 0:
                log("train/loss", loss, step)
                log("train/learning_rate", rate, step)
        missed, accuracy = evaluate(model, xv[:120], yv[:120])
        log("eval/loss", missed, step)
        log("eval/accuracy", accuracy, step)
        log("train/epoch", epoch + 1, step)


@training(
    field="few labels and many pictures",
    healthy=True,
    source="https://arxiv.org/abs/1703.01780",
    note="The weight of the consistency grows from 0, and the whole loss rises with it for half of the run.",
)
def consistency_ramps_up(log: Log) -> None:
    rng = seeded(732)
    x, y, xv, yv = digits()
    model, mean = mlp(64, 64, 10), mlp(64, 64, 10)
    mean.load_state_dict(model.state_dict())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    few, many = forever(rng, 200, 20), forever(rng, len(x), 60)
    for step in range(800):
        b, c = next(few), next(many)
        weight = 200 * math.exp(-5 * (1 - min(1.0, step / 400)) ** 2)
        hard = fn.cross_entropy(model(x[b]), y[b])
        with torch.no_grad():
            told = mean(x[c] + 0.2 * torch.randn(60, 64)).softmax(1)
        soft = fn.mse_loss(model(x[c] + 0.2 * torch.randn(60, 64)).softmax(1), told)
        descend(opt, hard + weight * soft)
        with torch.no_grad():
            for slow, fast in zip(mean.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.02)
        if step % 10 == 0:
            log("class_loss", hard.item(), step)
            log("cons_loss", (weight * soft).item(), step)
            log("cons_weight", weight, step)
            log("total_loss", (hard + weight * soft).item(), step)
        if step % 80 == 0:
            log("student_acc", evaluate(model, xv, yv)[1], step)
            log("ema_acc", evaluate(mean, xv, yv)[1], step)
