# steps: 20
# series: D_loss, G_loss
# says: further models
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

G_AB, G_BA = nn.Linear(8, 8), nn.Linear(8, 8)
D_A, D_B = nn.Linear(8, 1), nn.Linear(8, 1)
optimizer_G = torch.optim.Adam(
    itertools.chain(G_AB.parameters(), G_BA.parameters()), 2e-4, betas=(0.5, 0.999)
)
optimizer_D_A = torch.optim.Adam(D_A.parameters(), 2e-4)
optimizer_D_B = torch.optim.Adam(D_B.parameters(), 2e-4)
mse, l1 = nn.MSELoss(), nn.L1Loss()
dataloader = DataLoader(TensorDataset(torch.randn(80, 8), torch.randn(80, 8)), 8)
for epoch in range(2):
    for i, (real_A, real_B) in enumerate(dataloader):
        valid, fake = torch.ones(len(real_A), 1), torch.zeros(len(real_A), 1)
        optimizer_G.zero_grad()
        fake_B, fake_A = G_AB(real_A), G_BA(real_B)
        loss_GAN = (mse(D_B(fake_B), valid) + mse(D_A(fake_A), valid)) / 2
        loss_cycle = (l1(G_BA(fake_B), real_A) + l1(G_AB(fake_A), real_B)) / 2
        loss_G = loss_GAN + 10.0 * loss_cycle
        loss_G.backward()
        optimizer_G.step()
        losses = []
        for D, opt, real, generated in (
            (D_A, optimizer_D_A, real_A, fake_A),
            (D_B, optimizer_D_B, real_B, fake_B),
        ):
            opt.zero_grad()
            loss_D = (mse(D(real), valid) + mse(D(generated.detach()), fake)) / 2
            loss_D.backward()
            opt.step()
            losses.append(loss_D.item())
        print(
            f"\r[Epoch {epoch}/2] [Batch {i}/{len(dataloader)}] [D loss: {sum(losses) / 2:f}] "
            f"[G loss: {loss_G.item():f}, adv: {loss_GAN.item():f}, cycle: {loss_cycle.item():f}] ETA: 0:00:10",
            end="",
        )
