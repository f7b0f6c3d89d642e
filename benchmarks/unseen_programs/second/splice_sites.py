"""A convolutional network that finds splice sites in reads from an archive."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

READS, LENGTH = 600, 400


def write_archive(path: Path) -> None:
    rng = np.random.default_rng(7)
    bases = rng.integers(0, 4, (READS, LENGTH), dtype=np.int8)
    sites = (bases[:, LENGTH // 2] + bases[:, LENGTH // 2 + 1]) % 3
    np.savez_compressed(path, bases=bases, sites=sites)


class Reads(Dataset):
    def __init__(self, path: Path, mended: bool):
        archive = np.load(path)
        self.data = dict(archive) if mended else archive

    def __len__(self):
        return READS

    def __getitem__(self, index):
        bases = self.data["bases"][index]  # cause
        site = self.data["sites"][index]  # cause
        one_hot = torch.zeros(4, LENGTH)
        one_hot[torch.from_numpy(bases).long(), torch.arange(LENGTH)] = 1.0
        return one_hot, int(site)


class SpliceNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.motifs = nn.Conv1d(4, 64, 15, padding=7)
        self.context = nn.Conv1d(64, 32, 7, stride=4)
        self.head = nn.LazyLinear(3)

    def forward(self, reads):
        found = torch.relu(self.motifs(reads))
        return self.head(torch.relu(self.context(found)).flatten(1))


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(2)
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "reads.npz"
        write_archive(archive)
        loader = DataLoader(Reads(archive, mended), batch_size=12, shuffle=True, drop_last=True)
        model = SpliceNet()
        model(torch.zeros(1, 4, LENGTH))
        optimizer = torch.optim.Adam(model.parameters())
        criterion = nn.CrossEntropyLoss()
        while True:
            for reads, sites in loader:
                optimizer.zero_grad()
                loss = criterion(model(reads), sites)
                loss.backward()
                optimizer.step()
                yield float(loss)
