# steps: 32
# series: D_loss, G_loss
# says: further models
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
loader = DataLoader(TensorDataset(torch.randn(128, 2)), batch_size=16, shuffle=True)
generator, discriminator, opt_g, opt_d, loader = accelerator.prepare(
    generator, discriminator, opt_g, opt_d, loader
)
bce = nn.BCEWithLogitsLoss()
for epoch in range(4):
    for i, (real,) in enumerate(loader):  # timed
        fake = generator(torch.randn(real.size(0), 4, device=accelerator.device))
        opt_d.zero_grad()
        d_real, d_fake = discriminator(real), discriminator(fake.detach())
        loss_d = bce(d_real, torch.ones_like(d_real)) + bce(d_fake, torch.zeros_like(d_fake))
        accelerator.backward(loss_d)
        opt_d.step()

        opt_g.zero_grad()
        d_fake = discriminator(fake)
        loss_g = bce(d_fake, torch.ones_like(d_fake))
        accelerator.backward(loss_g)
        accelerator.clip_grad_norm_(generator.parameters(), 1.0)
        opt_g.step()
        if i % 4 == 0:
            accelerator.print(
                f"[Epoch {epoch}/4] [Batch {i}/{len(loader)}] [D loss: {loss_d.item():.4f}] "
                f"[G loss: {loss_g.item():.4f}]"
            )
