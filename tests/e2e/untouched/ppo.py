# steps: 80
import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
opt = torch.optim.Adam(policy.parameters(), 3e-4)
for update in range(10):
    with torch.no_grad():
        obs = torch.randn(64, 4)
        for t in range(64):
            policy(obs[t])
    for epoch in range(4):
        for mb in range(2):
            loss = policy(obs[mb * 32 : (mb + 1) * 32]).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
