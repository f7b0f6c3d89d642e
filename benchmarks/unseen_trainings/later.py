"""Sixteen trainings that were written later than the others: fields and mistakes that those lack.

Their author had not read the rules, but had read which of the earlier faults the rules missed. They were
committed with their answers before any was judged.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as fn
from common import descend, digits, evaluate, forever, grad_norm, mlp, seeded
from registry import Log, training
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeRegressor
from torch import nn


@training(
    field="learning to rank",
    healthy=True,
    source="https://www.microsoft.com/en-us/research/publication/from-ranknet-to-lambdarank-to-lambdamart-an-overview/",
    note="The pairwise loss levels off far above zero, since grades are noisy; NDCG still rises a little.",
)
def ranked_answers(log: Log) -> None:
    rng = seeded(201)
    queries, answers, width = 240, 12, 16
    x = rng.normal(size=(queries, answers, width)).astype(np.float32)
    truth = np.tanh(x @ rng.normal(size=width) / 3) + 0.5 * np.sin(x[..., 0] * x[..., 1])
    grade = np.digitize(truth + rng.normal(0, 0.5, truth.shape), [-0.8, 0, 0.8])
    items, grades = torch.tensor(x), torch.tensor(grade)
    model = mlp(width, 32, 1)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    discount = 1 / np.log2(np.arange(answers) + 2)

    def ndcg(rows: slice) -> float:
        with torch.no_grad():
            order = model(items[rows])[..., 0].argsort(1, descending=True)
        gain = 2.0 ** grades[rows].numpy() - 1
        ideal = (-np.sort(-gain, 1) * discount).sum(1)
        return float(np.mean((np.take_along_axis(gain, order.numpy(), 1) * discount).sum(1) / ideal))

    for step, b in zip(range(1200), forever(rng, 200, 16), strict=False):
        score, aim = model(items[b])[..., 0], grades[b]
        better = (aim[:, :, None] > aim[:, None, :]).float()
        loss = fn.softplus(score[:, None, :] - score[:, :, None])
        log("train/ranknet", descend(opt, (loss * better).sum() / better.sum()), step)
        if step % 60 == 59:
            log("train/ndcg", ndcg(slice(200)), step)
            log("valid/ndcg", ndcg(slice(200, None)), step)


@training(
    field="speech",
    healthy=True,
    source="https://distill.pub/2017/ctc/",
    note="The loss first falls to that of blanks alone, and falls again; the error rate is 1 till then.",
)
def spoken_codes(log: Log) -> None:
    rng = seeded(202)
    words = torch.tensor(rng.integers(1, 7, (700, 5)))
    shown = fn.one_hot(words.repeat_interleave(4, 1), 7).float() + 0.5 * torch.randn(700, 20, 7)
    rnn, head = nn.GRU(7, 24, batch_first=True, bidirectional=True), nn.Linear(48, 7)
    opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], 2e-3)

    def logits(rows: torch.Tensor) -> torch.Tensor:
        return head(rnn(shown[rows])[0]).log_softmax(-1)

    def ctc(rows: torch.Tensor) -> torch.Tensor:
        n = len(rows)
        return fn.ctc_loss(
            logits(rows).transpose(0, 1), words[rows], torch.full((n,), 20), torch.full((n,), 5)
        )

    def error_rate() -> float:
        wrong = 0
        for path, word in zip(logits(held).argmax(-1).tolist(), words[held].tolist(), strict=True):
            read = [c for i, c in enumerate(path) if c and (i == 0 or c != path[i - 1])]
            row = list(range(len(word) + 1))
            for i, c in enumerate(read, 1):
                last, row[0] = row[0], i
                for j, w in enumerate(word, 1):
                    last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (c != w))
            wrong += row[-1]
        return wrong / (5 * len(held))

    held = torch.arange(600, 700)
    for step, b in zip(range(900), forever(rng, 600, 24), strict=False):
        log("train/ctc", descend(opt, ctc(b)), step)
        if step % 45 == 44:
            with torch.no_grad():
                log("dev/ctc", ctc(held).item(), step)
                log("dev/cer", error_rate(), step)


@training(
    field="contrastive",
    healthy=True,
    source="https://arxiv.org/abs/2103.00020",
    note="The temperature is learned and drifts all the time; ten names among 64 rows keep the loss near 2.",
)
def pictures_and_names(log: Log) -> None:
    rng = seeded(203)
    x, y, xv, yv = digits()
    names = torch.randn(10, 24)

    def described(labels: torch.Tensor) -> torch.Tensor:
        return names[labels] + 0.4 * torch.randn(len(labels), 24)

    image, text, scale = mlp(64, 64, 16), mlp(24, 32, 16), nn.Parameter(torch.tensor(2.66))
    opt = torch.optim.AdamW([*image.parameters(), *text.parameters(), scale], 1e-3, weight_decay=0.05)

    def similar(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return scale.exp() * fn.normalize(image(a), dim=1) @ fn.normalize(text(b), dim=1).T

    for step, b in zip(range(1000), forever(rng, len(x), 64), strict=False):
        logits, aim = similar(x[b], described(y[b])), torch.arange(64)
        loss = descend(opt, (fn.cross_entropy(logits, aim) + fn.cross_entropy(logits.T, aim)) / 2)
        with torch.no_grad():
            scale.clamp_(max=np.log(100))
        log("contrastive_loss", loss, step)
        log("logit_scale", scale.exp().item(), step)
        if step % 100 == 99:
            with torch.no_grad():
                found = similar(xv, names).argmax(1)
            log("eval/zero_shot_top1", (found == yv).float().mean().item(), step)


@training(
    field="boosted trees",
    healthy=True,
    source="https://lightgbm.readthedocs.io/en/stable/Python-Intro.html",
    note="The training loss falls without end, the validation loss is level after some hundred rounds.",
)
def boosted_tumours(log: Log) -> None:
    rng = seeded(204)
    x, y = load_breast_cancer(return_X_y=True)
    order = rng.permutation(len(y))
    x, y = x[order], y[order].astype(float)
    cut, margin = 400, np.full(len(y), np.log(0.63 / 0.37))

    def loss(rows: slice) -> float:
        return float(np.mean(np.logaddexp(0, margin[rows]) - y[rows] * margin[rows]))

    for tree in range(150):
        chance = 1 / (1 + np.exp(-margin[:cut]))
        rows = rng.choice(cut, 280, replace=False)
        leaf = DecisionTreeRegressor(max_depth=3, min_samples_leaf=8, random_state=tree)
        leaf.fit(x[rows], (y[:cut] - chance)[rows])
        margin += 0.12 * leaf.predict(x)
        log("training/binary_logloss", loss(slice(cut)), tree)
        log("valid_1/binary_logloss", loss(slice(cut, None)), tree)
        log("valid_1/error", float(np.mean((margin[cut:] > 0) != y[cut:])), tree)


@training(
    field="policy gradient",
    healthy=True,
    source="https://spinningup.openai.com/en/latest/spinningup/rl_intro3.html",
    note="The policy's loss is noise about zero; the return is very noisy and rises.",
)
def corridor(log: Log) -> None:
    rng = seeded(205)
    table = torch.zeros(9, 2, requires_grad=True)
    value = np.zeros(9)
    opt = torch.optim.Adam([table], 0.03)
    for step in range(700):
        places, acts, gains, returns = [], [], [], []
        for _ in range(6):
            place, path, rewards = 4, [], []
            for _ in range(30):
                act = int(rng.random() < torch.sigmoid(table[place, 1] - table[place, 0]).item())
                path.append((place, act))
                place += 1 if (act == 1) != (rng.random() < 0.1) else -1
                rewards.append({0: 1.0, 8: 5.0}.get(place, -0.05))
                if place in (0, 8):
                    break
            total = 0.0
            for (at, act), reward in zip(reversed(path), reversed(rewards), strict=True):
                total = reward + 0.98 * total
                places.append(at), acts.append(act), gains.append(total - value[at])
                value[at] += 0.02 * (total - value[at])
            returns.append(sum(rewards))
        log_p = table[places].log_softmax(1)
        entropy = -(log_p.exp() * log_p).sum(1).mean()
        policy = -(log_p[range(len(acts)), acts] * torch.tensor(gains)).mean()
        descend(opt, policy - 0.02 * entropy)
        log("loss/policy", policy.item(), step)
        log("policy/entropy", entropy.item(), step)
        log("rollout/return", np.mean(returns), step)
        log("rollout/length", len(acts) / 6, step)


@training(
    field="graphs",
    healthy=True,
    source="https://arxiv.org/abs/1609.02907",
    note="With much dropout and few labels the training loss stays above that of the evaluation.",
)
def cited_papers(log: Log) -> None:
    rng = seeded(206)
    n, classes = 500, 5
    y = torch.tensor(rng.integers(0, classes, n))
    near = rng.random((n, n)) < np.where(y[:, None] == y[None], 0.03, 0.003)
    near = near | near.T | np.eye(n, dtype=bool)
    degree = near.sum(1) ** -0.5
    graph = torch.tensor(near * degree[:, None] * degree[None], dtype=torch.float32)
    x = torch.randn(n, 32) + 0.8 * fn.one_hot(y, 32)
    first, second = nn.Linear(32, 32), nn.Linear(32, classes)
    opt = torch.optim.Adam([*first.parameters(), *second.parameters()], 5e-3, weight_decay=5e-4)

    def out(chance: float) -> torch.Tensor:
        h = fn.dropout(fn.relu(graph @ first(fn.dropout(x, chance))), chance)
        return graph @ second(h)

    for epoch in range(200):
        logits = out(0.6)
        loss = descend(opt, fn.cross_entropy(logits[:150], y[:150]))
        with torch.no_grad():
            held = out(0.0)[150:]
        log("loss/train", loss, epoch)
        log("loss/val", fn.cross_entropy(held, y[150:]).item(), epoch)
        log("acc/val", (held.argmax(1) == y[150:]).float().mean().item(), epoch)


@training(
    field="quantised",
    healthy=True,
    source="https://docs.pytorch.org/docs/stable/quantization.html",
    note="From step 600 on weights are rounded to 3 bits: the loss jumps, and mostly recovers.",
)
def rounded_weights(log: Log) -> None:
    rng = seeded(207)
    x, y, xv, yv = digits()
    model = mlp(64, 48, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)

    def forward(rows: torch.Tensor, bits: int) -> torch.Tensor:
        for index, layer in enumerate(part for part in model if isinstance(part, nn.Linear)):
            weight = layer.weight
            if bits < 32:
                unit = weight.detach().abs().max() / (2 ** (bits - 1) - 1)
                weight = weight + ((weight / unit).round() * unit - weight).detach()
            rows = fn.linear(fn.relu(rows) if index else rows, weight, layer.bias)
        return rows

    for step, b in zip(range(1200), forever(rng, len(x), 32), strict=False):
        bits = 32 if step < 600 else 3
        noisy = x[b] + 0.15 * torch.randn(32, 64)
        log("train/loss", descend(opt, fn.cross_entropy(forward(noisy, bits), y[b])), step)
        log("qat/bits", bits, step)
        if step % 50 == 49:
            with torch.no_grad():
                held = forward(xv, bits)
            log("val/loss", fn.cross_entropy(held, yv).item(), step)
            log("val/acc", (held.argmax(1) == yv).float().mean().item(), step)


@training(
    field="curriculum",
    healthy=True,
    source="https://arxiv.org/abs/1410.4615",
    note="The sums become longer when the accuracy is enough: the loss has teeth till the rule is found.",
)
def longer_sums(log: Log) -> None:
    rng = seeded(208)
    embed, rnn, head = nn.Embedding(4, 12), nn.GRU(12, 32, batch_first=True), nn.Linear(32, 4)
    opt = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *head.parameters()], 3e-3)
    length, recent = 2, 0.0
    for step in range(1000):
        x = torch.tensor(rng.integers(0, 4, (48, length)))
        logits = head(rnn(embed(x))[0][:, -1])
        aim = x.sum(1) % 4
        loss = descend(opt, fn.cross_entropy(logits, aim))
        accuracy = (logits.argmax(1) == aim).float().mean().item()
        recent += 0.1 * (accuracy - recent)
        log("train/loss", loss, step)
        log("train/accuracy", accuracy, step)
        log("curriculum/length", length, step)
        if recent > 0.95:
            length, recent = length + 1, 0.0


@training(
    field="classification",
    fault="After the third epoch the inputs are shuffled in place and their labels are not.",
    series=["train/loss", "val/loss", "val/acc"],
    onset=(129, 175),
    source="https://stackoverflow.com/questions/4601373/better-way-to-shuffle-two-numpy-arrays-in-unison",
)
def shuffled_apart(log: Log) -> None:
    rng = seeded(221)
    x, y, xv, yv = digits()
    model = mlp(64, 128, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step, b in zip(range(860), forever(rng, len(x), 32), strict=False):
        if step == 129:
            x = x[torch.randperm(len(x))]
        log("train/loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        if step % 43 == 42:
            loss, accuracy = evaluate(model, xv, yv)
            log("val/loss", loss, step)
            log("val/acc", accuracy, step)


@training(
    field="segmentation",
    fault="The loss is the sum over all pixels, with a rate that was meant for their mean.",
    series=["train/bce", "train/grad_norm"],
    onset=(0, 60),
    source="https://discuss.pytorch.org/t/loss-reduction-sum-vs-mean-when-to-use-each/115641",
)
def summed_pixels(log: Log) -> None:
    rng = seeded(222)
    x, _, xv, _ = digits()
    model = mlp(64, 64, 64, 64)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for step, b in zip(range(700), forever(rng, len(x), 32), strict=False):
        mask = (x[b] > 0.5).float()
        loss = fn.binary_cross_entropy_with_logits(
            model(x[b] + 0.1 * torch.randn(32, 64)), mask, reduction="sum"
        )
        log("train/bce", descend(opt, loss), step)
        log("train/grad_norm", grad_norm(model.parameters()), step)
        log("train/lr", 0.05, step)
        if step % 70 == 69:
            with torch.no_grad():
                got, wanted = model(xv) > 0, xv > 0.5
            log("val/iou", ((got & wanted).sum() / (got | wanted).sum()).item(), step)


@training(
    field="translation",
    fault="The transformer normalises after each block and gets its whole rate at once, without a warm-up.",
    series=["train/loss", "valid/loss"],
    onset=(0, 150),
    source="https://arxiv.org/abs/2002.04745",
)
def no_warmup(log: Log) -> None:
    rng = seeded(223)
    table = torch.tensor(rng.permutation(16))
    embed, place, head = nn.Embedding(16, 32), nn.Parameter(0.1 * torch.randn(10, 32)), nn.Linear(32, 16)
    body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), 6)
    parameters = [*embed.parameters(), place, *head.parameters(), *body.parameters()]
    opt = torch.optim.Adam(parameters, 1e-2, betas=(0.9, 0.98))

    def loss() -> torch.Tensor:
        x = torch.tensor(rng.integers(0, 16, (24, 10)))
        return fn.cross_entropy(head(body(embed(x) + place)).flatten(0, 1), table[x].flip(1).flatten())

    for step in range(600):
        log("train/loss", descend(opt, loss()), step)
        log("train/grad_norm", grad_norm(parameters), step)
        log("train/lr", 1e-2, step)
        if step % 50 == 49:
            with torch.no_grad():
                log("valid/loss", np.mean([loss().item() for _ in range(4)]), step)


@training(
    field="classification",
    fault="The job goes on in the same process: the optimizer is restored, the weights are new.",
    series=["train/loss", "val/acc"],
    onset=(500, 549),
    source="https://github.com/Lightning-AI/pytorch-lightning/issues/8126",
)
def restarted_without_weights(log: Log) -> None:
    rng = seeded(224)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step, b in zip(range(900), forever(rng, len(x), 32), strict=False):
        if step == 500:
            moments = opt.state_dict()
            model = mlp(64, 64, 10)
            opt = torch.optim.Adam(model.parameters(), 1e-3)
            opt.load_state_dict(moments)
        log("train/loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        log("train/lr", 1e-3, step)
        if step % 50 == 49:
            log("val/acc", evaluate(model, xv, yv)[1], step)


@training(
    field="sequence to sequence",
    fault="From step 600 on the decoder gets its own outputs only: the share of true ones is an integer.",
    series=["train/loss", "train/token_acc"],
    onset=(600, 601),
    source="https://arxiv.org/abs/1506.03099",
)
def teacher_leaves(log: Log) -> None:
    rng = seeded(225)
    embed, reader, writer, head = (
        nn.Embedding(13, 24),
        nn.GRU(24, 40, batch_first=True),
        nn.GRUCell(24, 40),
        nn.Linear(40, 13),
    )
    parts = nn.ModuleList([embed, reader, writer, head])
    opt = torch.optim.Adam(parts.parameters(), 2e-3)
    for step in range(1000):
        x = torch.tensor(rng.integers(0, 12, (24, 6)))
        state, token, losses, hits = reader(embed(x))[1][0], torch.full((24,), 12), [], []
        for at in range(6):
            state = writer(embed(token), state)
            logits, aim = head(state), x[:, 5 - at]
            losses.append(fn.cross_entropy(logits, aim))
            hits.append((logits.argmax(1) == aim).float().mean().item())
            token = aim if int(1.6 - step / 1000) else logits.argmax(1).detach()
        log("train/loss", descend(opt, torch.stack(losses).mean()), step)
        log("train/token_acc", float(np.mean(hits)), step)


@training(
    field="diffusion",
    fault="The averaged weights are evaluated, decay 0.9999 without correction: they stay what was drawn.",
    series=["eval/ema_loss"],
    onset=(0, 100),
    source="https://github.com/lucidrains/denoising-diffusion-pytorch/issues",
)
def cold_average(log: Log) -> None:
    rng = seeded(226)
    x, _, xv, _ = digits()
    x, xv = 2 * x - 1, 2 * xv - 1
    model = mlp(65, 128, 128, 64, act=nn.SiLU)
    slow = copy.deepcopy(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)

    def loss(net: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        t, noise = torch.rand(len(rows), 1), torch.randn_like(rows)
        kept = torch.cos(t * np.pi / 2)
        return fn.mse_loss(net(torch.cat([kept * rows + (1 - kept**2).sqrt() * noise, t], 1)), noise)

    for step, b in zip(range(1200), forever(rng, len(x), 48), strict=False):
        log("train/loss", descend(opt, loss(model, x[b])), step)
        with torch.no_grad():
            for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 1e-4)
            if step % 100 == 99:
                log("eval/ema_loss", loss(slow, xv).item(), step)


@training(
    field="mixture of experts",
    fault="Without a loss that balances them the gate sends nearly all to one of six experts.",
    series=[*(f"moe/load/{expert}" for expert in range(6)), "moe/gate_entropy"],
    onset=(0, 200),
    source="https://arxiv.org/abs/1701.06538",
)
def one_expert(log: Log) -> None:
    rng = seeded(227)
    x, y, xv, yv = digits()
    gate, experts = nn.Linear(64, 6), nn.ModuleList(mlp(64, 24, 10) for _ in range(6))
    opt = torch.optim.Adam(
        [{"params": experts.parameters()}, {"params": gate.parameters(), "lr": 2e-2}], 1e-3
    )
    with torch.no_grad():
        gate.bias[2] = 1.0

    def out(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        share, pick = gate(rows).softmax(1).max(1)
        every = torch.stack([expert(rows) for expert in experts], 1)
        return share[:, None] * every[torch.arange(len(rows)), pick], pick, share

    for step, b in zip(range(900), forever(rng, len(x), 48), strict=False):
        logits, pick, _ = out(x[b])
        log("train/loss", descend(opt, fn.cross_entropy(logits, y[b])), step)
        if step % 5 == 0:
            load = torch.bincount(pick, minlength=6) / len(pick)
            for index, part in enumerate(load.tolist()):
                log(f"moe/load/{index}", part, step)
            log("moe/gate_entropy", -(load * (load + 1e-9).log()).sum().item(), step)
        if step % 90 == 89:
            with torch.no_grad():
                log("val/acc", (out(xv)[0].argmax(1) == yv).float().mean().item(), step)


@training(
    field="preferences",
    fault="The policy learns what the reward model likes by mistake: the true reward falls while it rises.",
    series=["eval/true_reward"],
    onset=(125, 300),
    source="https://arxiv.org/abs/2210.10760",
)
def reward_is_hacked(log: Log) -> None:
    rng = seeded(228)
    width = 12
    wish = rng.normal(size=width)
    flaw = rng.normal(size=width)
    flaw -= flaw @ wish / (wish @ wish) * wish
    centre, spread = np.zeros(width), 0.4
    for step in range(1000):
        acts = centre + spread * rng.normal(size=(32, width))
        true = acts @ wish - 0.45 * (acts**2).sum(1)
        # The model's flaw pays only where it saw no example, far from where the policy begins.
        proxy = acts @ wish - 0.35 * (acts**2).sum(1) + 1.2 * np.maximum(acts @ flaw - 1.5, 0)
        gain = proxy - proxy.mean()
        centre += 0.004 * (gain[:, None] * (acts - centre)).mean(0) / spread**2
        log("train/reward", proxy.mean(), step)
        log("train/kl", (centre**2).sum() / (2 * spread**2), step)
        if step % 25 == 24:
            log("eval/true_reward", true.mean(), step)
