"""A small network finds key words in speech, to which the echoes of a room are added before it hears it."""

from collections.abc import Iterator

import numpy as np
import torch
from scipy import signal
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, LENGTH, ECHO, WORDS = 8000, 8000, 2400, 10


def make_room(random: np.random.Generator) -> np.ndarray:
    """Give the echoes of a clap: noise that fades."""
    fade = np.exp(-np.arange(ECHO) / (ECHO * random.uniform(0.05, 0.2)))
    room = random.normal(size=ECHO) * fade
    room[0] = 4.0
    return room / np.linalg.norm(room)


def make_word(random: np.random.Generator, word: int) -> np.ndarray:
    """Give the sound of a made-up word, which is two tones in turn."""
    time = np.arange(LENGTH) / RATE
    pitch = np.where(time < time[-1] / 2, 200 + 60 * word, 900 - 50 * word)
    return np.sin(2 * np.pi * pitch * time + random.uniform(0, 6)) + random.normal(scale=0.1, size=LENGTH)


class Echo:
    """Put the speaker into one of many rooms."""

    def __init__(self, rooms: list[np.ndarray], mended: bool) -> None:
        self.rooms, self.mended = rooms, mended
        self.random = np.random.default_rng(7)

    def __call__(self, sound: np.ndarray) -> np.ndarray:
        room = self.rooms[self.random.integers(len(self.rooms))]
        if self.mended:
            return signal.fftconvolve(sound, room)[:LENGTH]
        return np.convolve(sound, room)[:LENGTH]  # cause


class Speech(Dataset):
    def __init__(self, count: int, echo: Echo) -> None:
        random = np.random.default_rng(8)
        self.words = random.integers(0, WORDS, count)
        self.sounds = [make_word(random, word) for word in self.words]
        self.echo = echo

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        sound = self.echo(self.sounds[index])
        sound = sound / np.abs(sound).max()
        return torch.from_numpy(sound.astype(np.float32))[None], int(self.words[index])


class Spotter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 24, 64, stride=16),
            nn.BatchNorm1d(24),
            nn.ReLU(),
            nn.Conv1d(24, 32, 9, stride=4),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(4),
            nn.Flatten(),
            nn.Linear(4 * 32, WORDS),
        )

    def forward(self, sounds: torch.Tensor) -> torch.Tensor:
        return self.layers(sounds)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    random = np.random.default_rng(9)
    echo = Echo([make_room(random) for _ in range(20)], mended)
    loader = DataLoader(Speech(320, echo), batch_size=16, shuffle=True, drop_last=True)
    model = Spotter()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    while True:
        for sounds, words in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(sounds), words)
            loss.backward()
            optimizer.step()
            yield loss.item()
