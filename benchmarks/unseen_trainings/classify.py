"""Classification and segmentation, in the names of Keras, Lightning, fastai and plain scripts."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
import torch.nn.functional as fn
from common import batches, descend, digits, evaluate, forever, grad_norm, mlp, seeded, set_rate, weight_norm
from registry import Log, training
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from torch import nn


@training(field="classification", healthy=True, source="https://keras.io/examples/vision/mnist_convnet/")
def digits_per_epoch(log: Log) -> None:
    rng = seeded(1)
    x, y, xv, yv = digits()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    opt = torch.optim.RMSprop(model.parameters(), 1e-3)
    for epoch in range(15):
        losses, hits = [], 0
        for b in batches(rng, len(x), 32):
            out = model(x[b])
            hits += int((out.argmax(1) == y[b]).sum())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
        val_loss, val_accuracy = evaluate(model, xv, yv)
        log("loss", np.mean(losses), epoch)
        log("accuracy", hits / (len(losses) * 32), epoch)
        log("val_loss", val_loss, epoch)
        log("val_accuracy", val_accuracy, epoch)


@training(
    field="classification",
    healthy=True,
    source="https://keras.io/getting_started/faq/",
    note="Evaluation is better than training, as dropout and augmentation make only training hard.",
)
def heavy_augmentation(log: Log) -> None:
    rng = seeded(2)
    x, y, xv, yv = digits()
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.4), nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 10),
    )  # fmt: skip
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 14)
    step = 0
    for epoch in range(14):
        for b in batches(rng, len(x), 50):
            images = x[b].view(-1, 8, 8).roll(tuple(rng.integers(-1, 2, 2)), (1, 2)).flatten(1)
            out = model(images + 0.25 * torch.randn_like(images))
            loss = descend(opt, fn.cross_entropy(out, y[b]))
            log("train/loss", loss, step)
            log("train/acc", (out.argmax(1) == y[b]).float().mean().item(), step)
            step += 1
        val_loss, val_acc = evaluate(model, xv, yv)
        log("val/loss", val_loss, step)
        log("val/acc", val_acc, step)
        log("lr-AdamW", sched.get_last_lr()[0], step)
        log("epoch", epoch, step)
        sched.step()


@training(
    field="classification",
    healthy=True,
    source="https://arxiv.org/abs/1906.02629",
    note="The loss cannot fall below the entropy of the smoothed labels, about 0.9, and stays there.",
)
def smoothed_labels(log: Log) -> None:
    rng = seeded(3)
    x, y, xv, yv = digits()
    model = mlp(64, 96, 10)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for step, b in zip(range(1500), forever(rng, len(x), 64), strict=False):
        out = model(x[b])
        loss = descend(opt, fn.cross_entropy(out, y[b], label_smoothing=0.2))
        if step % 5 == 0:
            log("Loss/train", loss, step)
        if step % 100 == 99:
            log("Accuracy/val", evaluate(model, xv, yv)[1], step)
            log("Loss/val", fn.cross_entropy(model(xv), yv, label_smoothing=0.2).item(), step)


def scenes(rng: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy images of 16 x 16 pixels with one bright disc, and the mask of the disc: 5 % of the pixels."""
    centre = rng.uniform(3, 13, (count, 2, 1, 1))
    rows, columns = np.mgrid[:16, :16]
    mask = (rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2 < 4
    image = mask * 1.2 + rng.normal(0, 0.5, mask.shape)
    return torch.tensor(image, dtype=torch.float32)[:, None], torch.tensor(mask, dtype=torch.float32)[:, None]


def soft_dice(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    p = logits.sigmoid()
    return 2 * (p * mask).sum() / (p.sum() + mask.sum())


def segmenter() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 1, 1)
    )


@training(
    field="segmentation",
    healthy=True,
    source="https://docs.monai.io/en/stable/losses.html#diceloss",
    note="The loss is minus the Dice score, so that it is negative and falls towards -1.",
)
def dice_segmentation(log: Log) -> None:
    rng = seeded(4)
    model = segmenter()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    xv, mv = scenes(rng, 64)
    for step in range(400):
        x, m = scenes(rng, 16)
        log("train_loss", descend(opt, -soft_dice(model(x), m)), step)
        if step % 40 == 39:
            with torch.no_grad():
                hard = (model(xv) > 0).float()
                log("val_mean_dice", (2 * (hard * mv).sum() / (hard.sum() + mv.sum())).item(), step)
                union = ((hard + mv) > 0).sum()
                log("val_mean_iou", ((hard * mv).sum() / union).item(), step)


@training(
    field="classification",
    healthy=True,
    source="https://arxiv.org/abs/1706.02677",
    note="Steps that write a checkpoint take longer, and the loss scale halves now and then, as it should.",
)
def large_batch(log: Log) -> None:
    rng = seeded(5)
    x, y, xv, yv = digits()
    model = mlp(64, 128, 10)
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    scale, calm = 65536.0, 0
    for step, b in zip(range(300), forever(rng, len(x), 700), strict=False):
        warm = min(1, (step + 1) / 40)
        set_rate(opt, 0.6 * warm * 0.5 * (1 + math.cos(math.pi * step / 300)))
        loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
        calm += 1
        if calm == 80:
            scale, calm = scale * 2, 0
        elif scale > 65536 and rng.random() < 0.1:
            scale, calm = scale / 2, 0
        log("train/loss", loss, step)
        log("train/lr", opt.param_groups[0]["lr"], step)
        log("train/loss_scale", scale, step)
        log("train/grad_norm", grad_norm(model.parameters()), step)
        log("perf/step_time_s", 0.21 + 0.01 * rng.random() + (3.5 if step % 100 == 99 else 0), step)
        if step % 30 == 29:
            log("eval/accuracy", evaluate(model, xv, yv)[1], step)


@training(
    field="classification",
    healthy=True,
    source="https://huggingface.co/docs/transformers/training",
    note="The whole run is twelve steps.",
)
def short_finetune(log: Log) -> None:
    rng = seeded(6)
    x, y, xv, yv = digits()
    model = mlp(64, 128, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    early = y < 7
    for _, b in zip(range(300), forever(rng, int(early.sum()), 64), strict=False):
        descend(opt, fn.cross_entropy(model(x[early][b]), y[early][b]))
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for step, b in zip(range(12), forever(rng, len(x), 128), strict=False):
        log("train/loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        log("train/learning_rate", 3e-3, step)
    log("eval/accuracy", evaluate(model, xv, yv)[1], 12)


@training(
    field="classification",
    healthy=True,
    source="https://arxiv.org/abs/2207.08799",
    note="The loss of a parity stays at ln 2 for long before it falls suddenly.",
)
def parity_plateau(log: Log) -> None:
    rng = seeded(7)
    model = mlp(20, 128, 1)
    opt = torch.optim.SGD(model.parameters(), 0.1, weight_decay=1e-3)

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        bits = torch.tensor(rng.integers(0, 2, (count, 20)) * 2.0 - 1, dtype=torch.float32)
        return bits, (bits[:, :3].prod(1) > 0).float()[:, None]

    xv, yv = draw(1000)
    for step in range(6000):
        x, y = draw(64)
        loss = descend(opt, fn.binary_cross_entropy_with_logits(model(x), y))
        if step % 20 == 0:
            log("train_loss", loss, step)
        if step % 200 == 0:
            with torch.no_grad():
                out = model(xv)
            log("test_loss", fn.binary_cross_entropy_with_logits(out, yv).item(), step)
            log("test_acc", ((out > 0) == (yv > 0)).float().mean().item(), step)


@training(
    field="classification",
    healthy=True,
    source="https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",
    note="It died at step 340 and went on from the checkpoint of step 300: forty steps are logged twice.",
)
def resumed_properly(log: Log) -> None:
    rng = seeded(8)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    stream = forever(rng, len(x), 32)

    def run(first: int, last: int) -> None:
        for step in range(first, last):
            b = next(stream)
            set_rate(opt, 1e-3 * (1 - step / 700))
            log("train/loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
            log("train/lr", opt.param_groups[0]["lr"], step)
            if step % 50 == 0:
                log("valid/loss", evaluate(model, xv, yv)[0], step)

    run(0, 300)
    saved = copy.deepcopy((model.state_dict(), opt.state_dict()))
    run(300, 340)
    model.load_state_dict(saved[0])
    opt.load_state_dict(saved[1])
    run(300, 700)


@training(
    field="classification",
    healthy=True,
    source="https://github.com/huggingface/pytorch-image-models/blob/main/timm/utils/model_ema.py",
    note="The averaged weights are far behind at first, and better than the raw ones in the end.",
)
def averaged_weights(log: Log) -> None:
    rng = seeded(9)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    average = copy.deepcopy(model)
    opt = torch.optim.SGD(model.parameters(), 0.2)
    for step, b in zip(range(2000), forever(rng, len(x), 16), strict=False):
        loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 0.005)
        if step % 4 == 0:
            log("train/loss", loss, step)
        if step % 50 == 49:
            raw_loss, raw = evaluate(model, xv, yv)
            ema_loss, ema = evaluate(average, xv, yv)
            log("eval/loss", raw_loss, step)
            log("eval/top1", raw, step)
            log("eval_ema/loss", ema_loss, step)
            log("eval_ema/top1", ema, step)


@training(
    field="classification",
    fault="The gradients are never set to zero, so that they sum over all steps.",
    series=["train/grad_norm", "train/loss"],
    onset=(0, 150),
    source="https://ttsugriy.github.io/llm-first-principles/stages/stage-02/common-mistakes",
)
def never_zeroed(log: Log) -> None:
    rng = seeded(101)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for step, b in zip(range(800), forever(rng, len(x), 32), strict=False):
        loss = fn.cross_entropy(model(x[b]), y[b])
        loss.backward()
        opt.step()
        log("train/loss", loss.item(), step)
        log("train/grad_norm", grad_norm(model.parameters()), step)
        if step % 80 == 79:
            log("val/loss", evaluate(model, xv, yv)[0], step)


@training(
    field="classification",
    fault="The optimizer holds the model that was replaced after it was made, so that nothing trains.",
    series=["train_loss", "weights/head", "weights/body", "val_acc"],
    onset=(0, 0),
    source="https://github.com/pytorch/pytorch/issues/38639",
)
def optimizer_of_old_model(log: Log) -> None:
    rng = seeded(102)
    x, y, xv, yv = digits()
    opt = torch.optim.Adam(mlp(64, 64, 10).parameters(), 1e-3)
    model = mlp(64, 64, 10)
    for step, b in zip(range(600), forever(rng, len(x), 32), strict=False):
        loss = fn.cross_entropy(model(x[b]), y[b])
        model.zero_grad()
        loss.backward()
        opt.step()
        log("train_loss", loss.item(), step)
        if step % 20 == 0:
            log("weights/body", weight_norm(model[0].parameters()), step)
            log("weights/head", weight_norm(model[2].parameters()), step)
            log("gradients/all", grad_norm(model.parameters()), step)
        if step % 100 == 99:
            log("val_acc", evaluate(model, xv, yv)[1], step)


@training(
    field="classification",
    fault="The learning rate is a hundred times too high; the first large updates kill the ReLUs.",
    series=["loss/train", "activations/dead_fraction"],
    onset=(0, 60),
    source="https://datarekha.com/interview/deep-learning/dead-relu-problem/",
)
def rate_kills_relus(log: Log) -> None:
    rng = seeded(103)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 0.2)
    for step, b in zip(range(600), forever(rng, len(x), 32), strict=False):
        loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
        log("loss/train", loss, step)
        log("lr", 0.2, step)
        if step % 10 == 0:
            with torch.no_grad():
                active = model[:4](x)
            log("activations/dead_fraction", (active == 0).all(0).float().mean().item(), step)
            log("grad_norm/layer0", grad_norm(model[0].parameters()), step)
        if step % 60 == 59:
            log("accuracy/val", evaluate(model, xv, yv)[1], step)


@training(
    field="classification",
    fault="A schedule meant for epochs is stepped per batch: the rate is nearly zero after three epochs.",
    series=["lr", "train_loss", "val_loss"],
    onset=(20, 200),
    source="https://github.com/ivadomed/ivadomed/pull/55",
)
def schedule_per_batch(log: Log) -> None:
    rng = seeded(104)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.93)
    step = 0
    for _ in range(20):
        for b in batches(rng, len(x), 32):
            log("train_loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
            log("lr", sched.get_last_lr()[0], step)
            sched.step()
            step += 1
        loss, accuracy = evaluate(model, xv, yv)
        log("val_loss", loss, step)
        log("val_acc", accuracy, step)


@training(
    field="classification",
    fault="From epoch 12 on, evaluation reads images in another layout; its accuracy falls to chance.",
    series=["val_accuracy", "val_loss"],
    onset=(12, 12),
    source="https://karpathy.github.io/2019/04/25/recipe/",
)
def evaluation_breaks(log: Log) -> None:
    rng = seeded(105)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    broken = xv[:, torch.as_tensor(rng.permutation(64))]
    for epoch in range(30):
        losses = [descend(opt, fn.cross_entropy(model(x[b]), y[b])) for b in batches(rng, len(x), 32)]
        loss, accuracy = evaluate(model, broken if epoch >= 12 else xv, yv)
        log("loss", np.mean(losses), epoch)
        log("val_loss", loss, epoch)
        log("val_accuracy", accuracy, epoch)


@training(
    field="classification",
    fault="It overfits: the evaluation loss is worse than its best for most of the run.",
    series=["eval/loss"],
    onset=(100, 400),
    source="https://developers.google.com/machine-learning/crash-course/overfitting/interpreting-loss-curves",
)
def overfits_for_long(log: Log) -> None:
    rng = seeded(106)
    x, y, xv, yv = digits()
    x, y = x[:200], y[:200].clone()
    wrong = torch.as_tensor(rng.choice(200, 40, replace=False))
    y[wrong] = torch.as_tensor(rng.integers(0, 10, 40))
    model = mlp(64, 256, 10)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for step, b in zip(range(3000), forever(rng, 200, 40), strict=False):
        loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
        if step % 10 == 0:
            log("train/loss", loss, step)
        if step % 50 == 0:
            loss, accuracy = evaluate(model, xv, yv)
            log("eval/loss", loss, step)
            log("eval/accuracy", accuracy, step)


@training(
    field="classification",
    fault="Inputs are shuffled without their labels, so that there is nothing to learn.",
    series=["train/loss", "train/accuracy", "validation/accuracy"],
    onset=(0, 0),
    source="https://karpathy.github.io/2019/04/25/recipe/",
)
def labels_shuffled(log: Log) -> None:
    rng = seeded(107)
    x, y, xv, yv = digits()
    model = mlp(64, 32, 10)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for step in range(1000):
        b = torch.as_tensor(rng.integers(0, len(x), 64))
        out = model(x[b])
        labels = y[b][torch.as_tensor(rng.permutation(64))]
        log("train/loss", descend(opt, fn.cross_entropy(out, labels)), step)
        log("train/accuracy", (out.argmax(1) == labels).float().mean().item(), step)
        if step % 100 == 99:
            loss, accuracy = evaluate(model, xv, yv)
            log("validation/loss", loss, step)
            log("validation/accuracy", accuracy, step)


@training(
    field="classification",
    fault="Training inputs are standardised and evaluation inputs are raw pixels.",
    series=["Verlust/Validierung", "Genauigkeit/Validierung"],
    onset=(0, 5),
    source="https://www.tensorflow.org/tutorials/images/classification#standardize_the_data",
)
def evaluation_not_scaled(log: Log) -> None:
    rng = seeded(108)
    x, y, xv, yv = digits()
    centre, spread = x.mean(0), x.std(0) + 0.05
    model = mlp(64, 64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(25):
        losses = [
            descend(opt, fn.cross_entropy(model((x[b] - centre) / spread), y[b]))
            for b in batches(rng, len(x), 32)
        ]
        loss, accuracy = evaluate(model, xv * 16, yv)
        log("Verlust/Training", np.mean(losses), epoch)
        log("Genauigkeit/Training", evaluate(model, (x - centre) / spread, y)[1], epoch)
        log("Verlust/Validierung", loss, epoch)
        log("Genauigkeit/Validierung", accuracy, epoch)


@training(
    field="classification",
    fault="BatchNorm stays in training mode in evaluation, on batches of two sorted by class.",
    series=["val_loss", "val_acc"],
    onset=(0, 2),
    source="https://www.codegenes.net/blog/batchnorm-train-vs-eval-pytorch",
)
def batchnorm_never_eval(log: Log) -> None:
    rng = seeded(109)
    x, y, xv, yv = digits()
    order = yv.argsort()
    xv, yv = xv[order][:396], yv[order][:396]
    model = nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(20):
        losses, hits = [], []
        for b in batches(rng, len(x), 50):
            out = model(x[b])
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
        with torch.no_grad():
            saved = copy.deepcopy(model.state_dict())
            out = torch.cat([model(part) for part in xv.split(2)])
            model.load_state_dict(saved)
        log("train_loss_epoch", np.mean(losses), epoch)
        log("train_acc_epoch", np.mean(hits), epoch)
        log("val_loss", fn.cross_entropy(out, yv).item(), epoch)
        log("val_acc", (out.argmax(1) == yv).float().mean().item(), epoch)


@training(
    field="classification",
    fault="The label leaks: it is a feature of the evaluation rows, and of half of the training rows.",
    series=["valid_acc", "valid_logloss"],
    onset=(0, 2),
    source="https://scikit-learn.org/stable/common_pitfalls.html#data-leakage",
)
def label_leaks(log: Log) -> None:
    rng = seeded(110)
    x = rng.normal(size=(3000, 20))
    y = (x @ rng.normal(size=20) / 4 + rng.normal(0, 1.5, 3000) > 0).astype(int)
    xt, yt, xv, yv = x[:2000], y[:2000], x[2000:], y[2000:]
    target_code = np.where(rng.random(2000) < 0.5, 2.0 * yt - 1, rng.choice([-1.0, 1.0], 2000))
    xt = np.c_[xt, 2 * target_code]
    xv = np.c_[xv, 2 * (2.0 * yv - 1)]
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=3e-4, random_state=0)
    for epoch in range(40):
        model.partial_fit(xt, yt, classes=[0, 1])
        for part, rows, labels in (("train", xt, yt), ("valid", xv, yv)):
            log(f"{part}_logloss", log_loss(labels, model.predict_proba(rows)), epoch)
            log(f"{part}_acc", model.score(rows, labels), epoch)


@training(
    field="classification",
    fault="Every step trains on the same batch, as the iterator is made anew in the loop.",
    series=["train/loss", "val/loss"],
    onset=(0, 300),
    source="https://tanelp.github.io/posts/a-bug-that-plagues-thousands-of-open-source-ml-projects/",
)
def same_batch_again(log: Log) -> None:
    seeded(111)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(1200):
        b = next(batches(np.random.default_rng(0), len(x), 32))
        log("train/loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        if step % 60 == 59:
            loss, accuracy = evaluate(model, xv, yv)
            log("val/loss", loss, step)
            log("val/acc", accuracy, step)


@training(
    field="segmentation",
    fault="Foreground is 5 % of the pixels, the loss is not weighted: background is answered everywhere.",
    series=["val/recall", "val/dice", "val/predicted_positive"],
    onset=(0, 100),
    source="https://developers.google.com/machine-learning/crash-course/overfitting/imbalanced-datasets",
)
def background_everywhere(log: Log) -> None:
    rng = seeded(112)
    model = segmenter()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    xv, mv = scenes(rng, 64)
    for step in range(500):
        x, m = scenes(rng, 8)
        x = x - 0.9 * m
        log("train/bce", descend(opt, fn.binary_cross_entropy_with_logits(model(x), m)), step)
        if step % 20 == 0:
            with torch.no_grad():
                hard = (model(xv - 0.9 * mv) > 0).float()
            log("val/pixel_accuracy", (hard == mv).float().mean().item(), step)
            log("val/recall", ((hard * mv).sum() / mv.sum()).item(), step)
            log("val/dice", (2 * (hard * mv).sum() / (hard.sum() + mv.sum())).item(), step)
            log("val/predicted_positive", hard.mean().item(), step)


@training(
    field="classification",
    fault="Ten sigmoid layers: the gradients vanish towards the input and the loss stays at ln 10.",
    series=["grad_norm/layers.0", "grad_norm/layers.18", "train_loss"],
    onset=(0, 0),
    source="http://neuralnetworksanddeeplearning.com/chap5.html",
)
def deep_sigmoids(log: Log) -> None:
    rng = seeded(113)
    x, y, xv, yv = digits()
    model = mlp(64, *[48] * 9, 10, act=nn.Sigmoid)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for step, b in zip(range(800), forever(rng, len(x), 64), strict=False):
        log("train_loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        if step % 10 == 0:
            for index in range(0, 19, 6):
                log(f"grad_norm/layers.{index}", grad_norm(model[index].parameters()), step)
        if step % 100 == 99:
            log("val_acc", evaluate(model, xv, yv)[1], step)
