# steps: 40
# says: further models
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(320, 10))
critic = nn.Sequential(nn.Linear(10, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
critic_optimizer = torch.optim.Adam(critic.parameters(), betas=(0.0, 0.9))
generator_optimizer = torch.optim.Adam(generator.parameters(), betas=(0.0, 0.9))
for epoch in range(2):
    for i, (real,) in enumerate(DataLoader(data, batch_size=16)):  # timed
        fake = generator(torch.randn(16, 4)).detach()
        weight = torch.rand(16, 1)
        mixed = (weight * real + (1 - weight) * fake).requires_grad_()
        slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        critic_loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        if i % 5 == 4:
            generator_loss = -critic(generator(torch.randn(16, 4))).mean()
            generator_optimizer.zero_grad()
            generator_loss.backward()
            generator_optimizer.step()
            print(f"critic loss {critic_loss.item():.3f} generator loss {generator_loss.item():.3f}")
