"""Policy gradients and Q learning, in the names of Stable Baselines and CleanRL."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as fn
from common import descend, grad_norm, mlp, seeded
from registry import Log, training
from torch import nn

HORIZON = 150


def balance(rng: np.random.Generator, policy: nn.Module, poles: int = 16) -> tuple[torch.Tensor, ...]:
    """Let many poles be balanced at once; returns states, actions and which steps count (not yet fallen)."""
    state = rng.uniform(-0.05, 0.05, (poles, 4))
    alive = np.ones(poles, bool)
    states, actions, counts = [], [], []
    for _ in range(HORIZON):
        seen = torch.tensor(state, dtype=torch.float32)
        with torch.no_grad():
            right = policy(seen).softmax(1)[:, 1].numpy()
        action = (rng.random(poles) < right).astype(int)
        states.append(seen)
        actions.append(torch.as_tensor(action))
        counts.append(torch.tensor(alive, dtype=torch.float32))
        x, v, a, w = state.T
        push = (20.0 * action - 10 + 0.05 * w**2 * np.sin(a)) / 1.1
        turn = (9.8 * np.sin(a) - np.cos(a) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(a) ** 2 / 1.1))
        shift = push - 0.05 * turn * np.cos(a) / 1.1
        state = np.stack([x + 0.02 * v, v + 0.02 * shift, a + 0.02 * w, w + 0.02 * turn], 1)
        alive = alive & (np.abs(state[:, 0]) < 2.4) & (np.abs(state[:, 2]) < 0.21)
        if not alive.any():
            break
        state[~alive] = 0
    return torch.stack(states), torch.stack(actions), torch.stack(counts)


def learn_policy(log: Log, seed: int, rate: float, updates: int, bonus: float) -> None:
    rng = seeded(seed)
    policy = mlp(4, 32, 2, act=nn.Tanh)
    opt = torch.optim.Adam(policy.parameters(), rate)
    steps = 0
    for _ in range(updates):
        states, actions, counts = balance(rng, policy)
        returns = torch.zeros_like(counts)
        ahead = torch.zeros(counts.shape[1])
        for t in reversed(range(len(counts))):
            ahead = counts[t] + 0.98 * ahead * counts[t]
            returns[t] = ahead
        used = counts > 0
        gain = returns[used]
        gain = (gain - gain.mean()) / (gain.std() + 1e-6)
        logp = policy(states).log_softmax(-1)
        entropy = -(logp.exp() * logp).sum(-1)[used].mean()
        picked = logp.gather(-1, actions[..., None])[..., 0][used]
        loss = -(picked * gain).mean()
        descend(opt, loss - bonus * entropy)
        steps += int(used.sum())
        log("rollout/ep_rew_mean", counts.sum(0).mean().item(), steps)
        log("train/policy_gradient_loss", loss.item(), steps)
        log("train/entropy", entropy.item(), steps)
        log("train/grad_norm", grad_norm(policy.parameters()), steps)


@training(
    field="reinforcement learning",
    healthy=True,
    source="https://spinningup.openai.com/en/latest/algorithms/vpg.html",
    note="The policy's loss swings around zero and means nothing; the reward rises with noise.",
)
def pole_policy(log: Log) -> None:
    learn_policy(log, 41, 0.01, updates=90, bonus=0.01)


@training(
    field="reinforcement learning",
    fault="The entropy bonus is large and has the wrong sign: the entropy collapses, and one action is left.",
    series=["train/entropy", "rollout/ep_rew_mean"],
    onset=(0, 3000),
    source="https://github.com/Unity-Technologies/ml-agents/issues/281",
)
def entropy_collapse(log: Log) -> None:
    learn_policy(log, 151, 0.03, updates=150, bonus=-5.0)


@training(
    field="reinforcement learning",
    healthy=True,
    source="https://docs.cleanrl.dev/rl-algorithms/dqn/",
    note="The return is worst in the middle, and the values fall to their true level.",
)
def corridor_q(log: Log) -> None:
    rng = seeded(42)
    side, goal = 6, 35
    online = nn.Sequential(nn.Embedding(36, 24), nn.ReLU(), nn.Linear(24, 4))
    target = copy.deepcopy(online)
    opt = torch.optim.Adam(online.parameters(), 2e-3)
    memory: list[tuple[int, int, float, int, float]] = []
    place, total, age = 0, 0.0, 0
    for step in range(8000):
        epsilon = max(0.05, 1 - step / 4000)
        with torch.no_grad():
            best = int(online(torch.tensor([place])).argmax())
        action = int(rng.integers(4)) if rng.random() < epsilon else best
        row, column = divmod(place, side)
        row = min(max(row + (action == 1) - (action == 0), 0), side - 1)
        column = min(max(column + (action == 3) - (action == 2), 0), side - 1)
        after = row * side + column
        reward = 1.0 if after == goal else -0.01
        memory.append((place, action, reward, after, float(after == goal)))
        place, total, age = after, total + reward, age + 1
        if after == goal or age == 100:
            log("charts/episodic_return", total, step)
            log("charts/episodic_length", age, step)
            place, total, age = 0, 0.0, 0
        if step > 200 and step % 4 == 0:
            rows = [memory[i] for i in rng.integers(max(0, len(memory) - 3000), len(memory), 32)]
            s, a, r, n, end = (torch.tensor(c) for c in zip(*rows, strict=True))
            with torch.no_grad():
                aim = r + 0.97 * (1 - end) * target(n).max(1)[0]
            values = online(s).gather(1, a[:, None])[:, 0]
            loss = descend(opt, fn.mse_loss(values, aim))
            if step % 20 == 0:
                log("losses/td_loss", loss, step)
                log("losses/q_values", values.mean().item(), step)
                log("charts/epsilon", epsilon, step)
        if step % 200 == 0:
            target.load_state_dict(online.state_dict())
