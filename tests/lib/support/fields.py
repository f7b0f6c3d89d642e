"""Made trainings of many fields, with the names that their frameworks record: sound and faulty ones."""

import numpy as np

START = 1_700_000_000.0


def every(n, values, first=None):
    """Points n steps apart, a fifth of a second a step."""
    values = np.asarray(values, float)
    steps = np.arange(1, len(values) + 1) * n if first is None else first + np.arange(len(values)) * n
    return steps, values, START + 0.2 * steps


def ar(rng, count, scale, memory=0.0, tails=None):
    shocks = rng.standard_t(tails, count) if tails else rng.normal(size=count)
    out = np.empty(count)
    last = 0.0
    for at in range(count):
        last = memory * last + shocks[at]
        out[at] = last
    return scale * out


def decay(count, start, end, over):
    return end + (start - end) * np.exp(-np.arange(count) / over)


def cosine(count, top, warm):
    at = np.arange(count)
    return top * np.minimum((at + 1) / warm, 0.5 * (1 + np.cos(np.pi * at / count)))


def speech(rng, faulty):
    """ESPnet: CTC and attention losses. The fault: only blanks, the error rate stays at 1."""
    n, e = 3000, 30
    ctc = decay(n, 80, 6, 500) * np.exp(ar(rng, n, 0.15)) + 1
    att = decay(n, 60, 5, 600) * np.exp(ar(rng, n, 0.12))
    wer = np.clip(decay(e, 1.0, 0.12, 6) + ar(rng, e, 0.01), 0, 1)
    if faulty:
        ctc = decay(n, 80, 32, 40) * np.exp(ar(rng, n, 0.15))
        att = decay(n, 60, 31, 40) * np.exp(ar(rng, n, 0.12))
        wer = np.ones(e)
    total = 0.3 * ctc + 0.7 * att
    out = {
        "train/loss_ctc": every(1, ctc),
        "train/loss_att": every(1, att),
        "train/loss": every(1, total),
        "valid/wer": every(100, wer),
        "valid/loss": every(100, np.interp(np.arange(e) * 100, np.arange(n), total) * (1 + ar(rng, e, 0.02))),
        "train/optim0_lr0": every(1, cosine(n, 1e-3, 300)),
        "train/grad_norm": every(1, 3 * np.exp(ar(rng, n, 0.4))),
    }
    if faulty:
        out["valid/loss"] = every(100, 31 + ar(rng, e, 0.3))
    return out


def diffusion(rng, faulty):
    """Improved diffusion: a loss that is mostly noise. The fault: samples get worse from step 6,000 on."""
    n = 4000
    q = [decay(n, 1.0, lo, 200) * np.exp(ar(rng, n, 0.5)) for lo in (0.12, 0.03, 0.01, 0.004)]
    out = {f"loss_q{i}": every(10, v) for i, v in enumerate(q)}
    out["loss"] = every(10, sum(q) / 4)
    out["grad_norm"] = every(10, 0.3 * np.exp(ar(rng, n, 0.5)))
    e = 20
    fid = decay(e, 180, 12, 3) + np.abs(ar(rng, e, 0.6))
    if faulty:
        fid[8:] = fid[7] + 9 * np.arange(1, e - 7) + ar(rng, e - 8, 1.0)
    out["eval/fid"] = every(2000, fid)
    return out


def ppo(rng, faulty):
    """Stable-Baselines3: PPO. The fault: the return falls back for good after update 250."""
    n = 400
    reward = -200 + 420 / (1 + np.exp(-(np.arange(n) - 120) / 30)) + ar(rng, n, 8, 0.7)
    kl = 0.008 * np.exp(ar(rng, n, 0.3))
    entropy = -decay(n, 1.38, 0.5, 150) + ar(rng, n, 0.01)
    value = decay(n, 90, 20, 100) * np.exp(ar(rng, n, 0.4))
    if faulty:
        reward[250:] = -170 + ar(rng, n - 250, 8, 0.7)
        kl[246:252] *= 30
        value[250:290] *= 8
    out = {
        "rollout/ep_rew_mean": reward,
        "train/approx_kl": kl,
        "train/entropy_loss": entropy,
        "train/value_loss": value,
        "train/policy_gradient_loss": -0.01 + ar(rng, n, 0.004),
        "train/loss": value / 2 - 0.01,
        "train/explained_variance": np.clip(1 - decay(n, 1, 0.05, 60) + ar(rng, n, 0.03), -1, 1),
        "train/clip_fraction": np.clip(0.1 + ar(rng, n, 0.02), 0, 1),
        "time/fps": 900 + ar(rng, n, 20),
    }
    return {tag: every(2048, v) for tag, v in out.items()}


def cleanrl(rng, faulty):
    """CleanRL: DQN, a point for each episode. The fault: the return shrinks slowly from episode 600 on."""
    n = 1200
    length = np.minimum(10 + 190 / (1 + np.exp(-(np.arange(n) - 300) / 60)), 200) * np.exp(
        -np.abs(ar(rng, n, 0.25))
    )
    if faulty:
        length[600:] = np.linspace(190, 12, 600) * np.exp(-np.abs(ar(rng, 600, 0.25)))
    td = decay(3000, 1.0, 0.2, 300) * np.exp(ar(rng, 3000, 0.5)) * np.linspace(1, 6, 3000)
    return {
        "charts/episodic_return": every(100, length),
        "charts/episodic_length": every(100, length),
        "losses/td_loss": every(40, td),
        "losses/q_values": every(40, 40 - decay(3000, 40, 0, 500) + ar(rng, 3000, 0.5, 0.9)),
        "charts/SPS": every(40, 300 + ar(rng, 3000, 5)),
    }


def gan(rng, faulty):
    """DCGAN. The fault: modes collapse at step 2,500, and the FID is four times as large."""
    n = 5000
    d = 1.2 + 0.15 * np.sin(np.arange(n) / 70) + ar(rng, n, 0.15, 0.3)
    g = 1.3 + 0.2 * np.cos(np.arange(n) / 70) + ar(rng, n, 0.2, 0.3)
    fid = decay(25, 250, 25, 4) + np.abs(ar(rng, 25, 1.5))
    if faulty:
        d[2500:] = 0.004 * np.exp(ar(rng, 2500, 0.5))
        g[2500:] = 9 + ar(rng, 2500, 1.0)
        fid[13:] = 210 + ar(rng, 12, 6)
    return {
        "Loss_D": every(1, d),
        "Loss_G": every(1, g),
        "D(x)": every(1, np.clip(0.7 + ar(rng, n, 0.08), 0, 1)),
        "FID": every(200, fid),
    }


def recommender(rng, faulty):
    """RecBole, LightGCN: BPR loss by epoch. The fault: ndcg worsens from epoch 40 on, the loss falls."""
    e = 150
    loss = decay(e, 0.69, 0.06, 30) * (1 + ar(rng, e, 0.004))
    ndcg = 0.02 + 0.16 * (1 - np.exp(-np.arange(e) / 18)) + ar(rng, e, 0.001)
    if faulty:
        ndcg[40:] = ndcg[40] - 0.0011 * np.arange(e - 40) + ar(rng, e - 40, 0.001)
    return {
        "train/loss": every(1, loss),
        "valid/ndcg@10": every(1, ndcg),
        "valid/hit@10": every(1, 1.6 * ndcg + ar(rng, e, 0.001)),
        "valid/mrr@10": every(1, 0.8 * ndcg + ar(rng, e, 0.001)),
    }


def lora(rng, faulty):
    """transformers and peft, three epochs: the loss falls in steps. The fault: learns by heart."""
    n = 600
    epoch = np.arange(n) // 200
    loss = np.array([1.45, 1.15, 1.02])[epoch] + 0.5 * np.exp(-np.arange(n) / 20) + ar(rng, n, 0.07)
    held = decay(12, 1.7, 1.30, 2) + ar(rng, 12, 0.004)
    if faulty:
        loss = np.array([1.45, 0.60, 0.15])[epoch] + 0.5 * np.exp(-np.arange(n) / 20) + ar(rng, n, 0.05)
        held[4:] = 1.32 + 0.09 * np.arange(8) + ar(rng, 8, 0.01)
    return {
        "train/loss": every(10, np.maximum(loss, 0.02)),
        "train/grad_norm": every(10, 0.8 * np.exp(ar(rng, n, 0.25))),
        "train/learning_rate": every(10, 2e-4 * cosine(n, 1, 20)),
        "eval/loss": every(500, held),
        "train/mean_token_accuracy": every(10, np.clip(0.62 + 0.06 * epoch + ar(rng, n, 0.02), 0, 1)),
        "eval/runtime": every(500, 20 + ar(rng, 12, 0.2)),
    }


def forecast(rng, faulty):
    """PyTorch Forecasting. The fault: the evaluation is scaled otherwise and never gains."""
    n, e = 3000, 30
    loss = decay(n, 0.9, 0.21, 400) * np.exp(ar(rng, n, 0.15, 0.4, tails=4))
    held = decay(e, 0.7, 0.24, 5) * (1 + ar(rng, e, 0.02))
    smape = decay(e, 0.9, 0.30, 5) * (1 + ar(rng, e, 0.02))
    if faulty:
        held = 1.9 + ar(rng, e, 0.03)
        smape = 1.2 + ar(rng, e, 0.02)
    return {
        "train_loss_step": every(1, loss),
        "train_loss_epoch": every(100, loss.reshape(e, -1).mean(1)),
        "val_loss": every(100, held),
        "val_SMAPE": every(100, smape),
        "val_MAE": every(100, 40 * held),
        "lr-Adam": every(1, np.where(np.arange(n) < 2000, 1e-3, 1e-4)),
    }


def graph(rng, faulty):
    """PyTorch Geometric, Cora in whole batches with dropout. The fault: all nodes are smoothed to one."""
    n = 400
    loss = decay(n, 1.9459, 0.35, 60) + ar(rng, n, 0.02)
    acc = np.clip(0.81 - decay(n, 0.65, 0, 30) + ar(rng, n, 0.004), 0, 1)
    if faulty:
        loss, acc = 1.9459 + ar(rng, n, 0.004), np.full(n, 0.144)
    return {
        "Loss/train": every(1, loss),
        "Acc/train": every(1, np.clip(acc + 0.15 * (not faulty), 0, 1)),
        "Acc/val": every(1, acc),
        "Acc/test": every(1, acc),
    }


def contrastive(rng, faulty):
    """CLIP. The fault: the representation collapses at step 1,500: the loss is ln 256 from then on."""
    n, e = 4000, 40
    loss = decay(n, 5.54, 1.1, 500) + ar(rng, n, 0.08)
    top = 0.55 - decay(e, 0.54, 0, 8) + ar(rng, e, 0.004)
    if faulty:
        loss[1500:] = 5.545 + ar(rng, n - 1500, 0.0005)
        top[15:] = 0.001
    return {
        "train/contrastive_loss": every(1, loss),
        "train/loss": every(1, loss),
        "val/imagenet-zeroshot-val-top1": every(100, top),
        "train/logit_scale": every(1, 14.3 + 0.01 * np.arange(n) ** 0.8),
        "train/lr": every(1, cosine(n, 5e-4, 200)),
    }


def distillation(rng, faulty):
    """A distilled classifier. The fault: the divergence overflows at step 900, and is masked."""
    n, e = 2000, 20
    kd, ce = (
        decay(n, 4, 0.7, 300) * np.exp(ar(rng, n, 0.1)),
        decay(n, 6.9, 1.6, 300) * np.exp(ar(rng, n, 0.08)),
    )
    total = 0.5 * kd + 0.5 * ce
    if faulty:
        kd[900:] = np.where(rng.random(n - 900) < 0.6, np.nan, kd[900:])
        total = np.where(np.isnan(kd), 0.5 * ce, total)
    return {
        "train/kd_div": every(1, kd),
        "train/ce": every(1, ce),
        "train/total": every(1, total),
        "val/top1": every(100, 0.76 - decay(e, 0.7, 0, 5) + ar(rng, e, 0.004)),
    }


def vae(rng, faulty):
    """Pyro: the bound, which is negative and rises. The fault: it falls back at step 1,200 for good."""
    n = 2500
    elbo = -decay(n, 540, 98, 200) + ar(rng, n, 2.5)
    held = -decay(25, 520, 101, 2) + ar(rng, 25, 0.8)
    if faulty:
        elbo[1200:] = -900 + ar(rng, n - 1200, 20)
        held[12:] = -950 + ar(rng, 13, 15)
    return {"train/elbo": every(1, elbo), "test/elbo": every(100, held)}


def flow(rng, faulty):
    """A normalizing flow: log-likelihoods, negative first and positive later. The fault: it never rises."""
    n = 2500
    like = 3.4 - decay(n, 8, 0, 300) + ar(rng, n, 0.25)
    held = 3.3 - decay(25, 7, 0, 3) + ar(rng, 25, 0.03)
    if faulty:
        like, held = -4.6 + ar(rng, n, 0.25), -4.6 + ar(rng, 25, 0.03)
    return {
        "train/log_likelihood": every(1, like),
        "val/log_likelihood": every(100, held),
        "lr": every(1, np.full(n, 1e-3)),
    }


FIELDS = {
    f.__name__: f
    for f in (
        speech,
        diffusion,
        ppo,
        cleanrl,
        gan,
        recommender,
        lora,
        forecast,
        graph,
        contrastive,
        distillation,
        vae,
        flow,
    )
}
