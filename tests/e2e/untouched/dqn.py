# steps: 50
# series: losses/td_loss, losses/q_values, charts/SPS, charts/episodic_return, episodic_return
# In the style of CleanRL: one file, a replay buffer, a target network, TensorBoard.
import argparse
import random
import time

import numpy as np
import torch
from torch import nn, optim
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--total-timesteps", type=int, default=600)
parser.add_argument("--learning-starts", type=int, default=100)
parser.add_argument("--train-frequency", type=int, default=10)
parser.add_argument("--target-network-frequency", type=int, default=100)
parser.add_argument("--gamma", type=float, default=0.99)
args = parser.parse_args()
writer = SummaryWriter(f"tb/dqn__{int(time.time())}")
writer.add_text("hyperparameters", "\n".join(f"|{key}|{value}|" for key, value in vars(args).items()))


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x):
        return self.network(x)


q_network, target_network = QNetwork(), QNetwork()
target_network.load_state_dict(q_network.state_dict())
optimizer = optim.Adam(q_network.parameters(), lr=2.5e-4)
rb, obs, episode = [], np.random.randn(4).astype(np.float32), 0.0
start_time = time.time()
for global_step in range(args.total_timesteps):
    epsilon = max(1 - global_step / 300, 0.05)
    if random.random() < epsilon:
        action = random.randrange(2)
    else:
        action = int(torch.argmax(q_network(torch.Tensor(obs)[None]), dim=1))
    reward, next_obs, done = float(action), np.random.randn(4).astype(np.float32), random.random() < 0.05
    episode += reward
    rb.append((obs, action, reward, next_obs, done))
    obs = next_obs
    if done:
        print(f"global_step={global_step}, episodic_return={episode}")
        writer.add_scalar("charts/episodic_return", episode, global_step)
        episode = 0.0
    if global_step >= args.learning_starts:
        if global_step % args.train_frequency == 0:
            batch = random.sample(rb, 32)
            o, a, r, n, d = (torch.tensor(np.array(column), dtype=torch.float32) for column in zip(*batch))
            with torch.no_grad():
                target_max, _ = target_network(n).max(dim=1)
                td_target = r + args.gamma * target_max * (1 - d)
            old_val = q_network(o).gather(1, a.long()[:, None]).squeeze()
            loss = nn.functional.mse_loss(td_target, old_val)
            if global_step % 100 == 0:
                writer.add_scalar("losses/td_loss", loss, global_step)
                writer.add_scalar("losses/q_values", old_val.mean().item(), global_step)
                print("SPS:", int(global_step / (time.time() - start_time)))
                writer.add_scalar("charts/SPS", int(global_step / (time.time() - start_time)), global_step)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if global_step % args.target_network_frequency == 0:
            for target, source in zip(target_network.parameters(), q_network.parameters()):
                target.data.copy_(source.data)
writer.close()
