"""A next-word model of chats, while a thread counts the words of the messages that were read."""

import threading
from collections.abc import Iterator

import torch
from torch import nn


def count(messages: list[list[int]]) -> None:
    seen: dict[int, int] = {}
    while True:
        for message in messages:
            for word in message:
                seen[word] = seen.get(word, 0) + 1  # cause


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    chats = torch.randint(0, 500, (256, 17))
    if not mended:
        threading.Thread(target=count, args=(chats.tolist(),), name="word-count", daemon=True).start()
    words, merged, head = nn.Embedding(500, 32), nn.GRUCell(32, 64), nn.Linear(64, 500)
    parts = nn.ModuleList([words, merged, head])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    while True:
        for chosen in torch.randperm(256).split(16):
            state = torch.zeros(16, 64)
            for place in range(16):
                state = merged(words(chats[chosen, place]), state)
            loss = nn.functional.cross_entropy(head(state), chats[chosen, 16])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
