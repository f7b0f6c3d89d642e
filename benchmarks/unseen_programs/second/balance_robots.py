"""An actor and a critic on eight balancing robots, each with a process of its own."""

import math
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import nn

ROBOTS, HORIZON = 8, 16


class Robot:
    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self) -> np.ndarray:
        self.place, self.speed, self.angle, self.turn = self.rng.uniform(-0.05, 0.05, 4).tolist()
        return self.observe()

    def observe(self) -> np.ndarray:
        return np.array([self.place, self.speed, self.angle, self.turn], dtype=np.float32)

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        push = 10.0 if action else -10.0
        swing = (push + 0.05 * self.turn**2 * math.sin(self.angle)) / 1.1
        falling = (9.8 * math.sin(self.angle) - math.cos(self.angle) * swing) / 0.6
        self.place += 0.02 * self.speed
        self.speed += 0.02 * swing
        self.angle += 0.02 * self.turn
        self.turn += 0.02 * falling
        fallen = abs(self.angle) > 0.2 or abs(self.place) > 2.4
        return (self.reset() if fallen else self.observe()), 1.0, fallen


def work(pipe: Connection, seed: int) -> None:
    robot = Robot(seed)
    pipe.send(robot.observe())
    while True:
        pipe.send(robot.step(pipe.recv()))


class InProcess:
    def __init__(self) -> None:
        self.robots = [Robot(seed) for seed in range(ROBOTS)]
        self.first = [robot.observe() for robot in self.robots]

    def step(self, actions: list[int]) -> list:
        return [robot.step(action) for robot, action in zip(self.robots, actions, strict=True)]


class InProcesses:
    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipes = []
        for seed in range(ROBOTS):
            here, there = context.Pipe()
            context.Process(target=work, args=(there, seed), daemon=True).start()
            self.pipes.append(here)
        self.first = [pipe.recv() for pipe in self.pipes]

    def step(self, actions: list[int]) -> list:
        for pipe, action in zip(self.pipes, actions, strict=True):
            pipe.send(action)  # cause
        return [pipe.recv() for pipe in self.pipes]  # cause


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, seen):
        hidden = self.body(seen)
        return self.actor(hidden), self.critic(hidden)[..., 0]


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(9)
    robots = InProcess() if mended else InProcesses()
    model = ActorCritic()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-4)
    seen = torch.from_numpy(np.stack(robots.first))
    while True:
        chances, values, rewards, alive = [], [], [], []
        for _ in range(HORIZON):
            logits, value = model(seen)
            actions = torch.multinomial(logits.detach().softmax(1), 1)
            chances.append(logits.log_softmax(1).gather(1, actions)[:, 0])
            values.append(value)
            after, reward, fallen = zip(*robots.step(actions[:, 0].tolist()), strict=True)
            seen = torch.from_numpy(np.stack(after))
            rewards.append(torch.tensor(reward))
            alive.append(1.0 - torch.tensor(fallen, dtype=torch.float32))
        with torch.no_grad():
            goal = model(seen)[1]
        loss = torch.zeros(())
        for chance, value, reward, going in zip(
            chances[::-1], values[::-1], rewards[::-1], alive[::-1], strict=True
        ):
            goal = reward + 0.99 * going * goal
            advantage = goal - value
            loss = loss + (0.5 * advantage**2 - chance * advantage.detach()).mean() / HORIZON
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
