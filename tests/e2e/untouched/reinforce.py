# steps: 12
import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(12):
    terms, state = [], torch.zeros(4)
    for _ in range(20):
        action = torch.distributions.Categorical(logits=policy(state))
        choice = action.sample()
        terms.append(action.log_prob(choice))
        state = torch.randn(4) + choice
    loss = -torch.stack(terms).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"episode {episode} loss {loss.item():.2f}")
