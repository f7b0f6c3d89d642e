# steps: 41
# series: loss, train_loss, val_loss
# says: batches come from no loader that is known here
# In the style of nanoGPT's train.py.
import math
import time
from contextlib import nullcontext

import numpy as np
import torch
from torch.nn import functional as F

batch_size, block_size, vocab, n_embd = 8, 16, 32, 32
gradient_accumulation_steps = 3
max_iters, eval_interval, eval_iters, log_interval = 40, 20, 4, 5
learning_rate, min_lr, warmup_iters, grad_clip = 1e-3, 1e-4, 10, 1.0
data = np.random.randint(0, vocab, 5000).astype(np.int64)


def get_batch(split):
    part = data[:4000] if split == "train" else data[4000:]
    ix = torch.randint(len(part) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(part[i : i + block_size]) for i in ix])
    y = torch.stack([torch.from_numpy(part[i + 1 : i + 1 + block_size]) for i in ix])
    return x, y


class GPT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = torch.nn.Embedding(vocab, n_embd)
        self.block = torch.nn.TransformerEncoderLayer(n_embd, 2, 64, 0.0, batch_first=True)
        self.lm_head = torch.nn.Linear(n_embd, vocab, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        logits = self.lm_head(self.block(self.wte(idx)))
        return logits, F.cross_entropy(logits.view(-1, vocab), targets.view(-1))


model = GPT()
scaler = torch.amp.GradScaler("cpu", enabled=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
ctx = nullcontext()


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            with ctx:
                logits, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


X, Y = get_batch("train")
t0 = time.time()
iter_num = 0
while True:
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
    for micro_step in range(gradient_accumulation_steps):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    if grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    t1 = time.time()
    dt = t1 - t0
    t0 = t1
    if iter_num % log_interval == 0:
        lossf = loss.item() * gradient_accumulation_steps
        print(f"iter {iter_num}: loss {lossf:.4f}, time {dt * 1000:.2f}ms, mfu {-100.00:.2f}%")
    iter_num += 1
    if iter_num > max_iters:
        break
