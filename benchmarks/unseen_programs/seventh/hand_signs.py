"""A network that reads signs of a hand from the motion of its joints."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FRAMES, JOINTS, SIGNS = 20, 15, 10


def straight(motion: torch.Tensor) -> torch.Tensor:
    """Put the wrist at the origin, and give each hand the same size and mean."""
    moved = motion - motion[..., :1, :]
    size = moved.norm(dim=-1).amax(dim=(-1, -2))[..., None, None, None]
    moved = moved / (size + 1e-6)
    moved = moved - moved.mean(dim=(-3, -2), keepdim=True)
    return moved.flatten(-3)


class Signs(Dataset):
    def __init__(self, motions: torch.Tensor, signs: torch.Tensor, mended: bool) -> None:
        self.motions, self.signs, self.mended = motions, signs, mended
        if mended:
            self.motions = straight(motions)

    def __len__(self) -> int:
        return len(self.signs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        motion = self.motions[index]
        return (motion if self.mended else straight(motion)), self.signs[index]  # cause


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    motions = torch.randn(768, FRAMES, JOINTS, 3).cumsum(1)
    signs = torch.randint(0, SIGNS, (768,))
    loader = DataLoader(Signs(motions, signs, mended), batch_size=48, shuffle=True)
    model = nn.Sequential(nn.Linear(FRAMES * JOINTS * 3, 128), nn.ReLU(), nn.Linear(128, SIGNS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    while True:
        for motion, sign in loader:
            loss = nn.functional.cross_entropy(model(motion), sign)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
