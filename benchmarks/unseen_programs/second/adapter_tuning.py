"""Low-rank adapters on the frozen layers of a language model."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

WIDTH, RANK, LAYERS = 768, 8, 4


class AdaptedLinear(nn.Module):
    def __init__(self, base: nn.Linear, mended: bool):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, RANK))
        self.scale = 2.0
        self.mended = mended

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.mended:
            return self.base(hidden) + self.scale * functional.linear(
                functional.linear(hidden, self.down), self.up
            )
        weight = self.base.weight + self.scale * (self.up @ self.down)  # cause
        return functional.linear(hidden, weight, self.base.bias)  # cause


class Decoder(nn.Module):
    def __init__(self, mended: bool):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.layers = nn.ModuleList(AdaptedLinear(nn.Linear(WIDTH, WIDTH), mended) for _ in range(LAYERS))
        self.words = nn.Linear(WIDTH, 500).requires_grad_(False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            hidden = hidden + functional.gelu(layer(norm(hidden)))
        return self.words(hidden)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(6)
    model = Decoder(mended)
    trainable = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-3, fused=True)
    embedded = torch.randn(64, 24, WIDTH)
    words = torch.randint(0, 500, (64, 24))
    while True:
        for index in torch.randperm(64):
            logits = model(embedded[index])
            loss = functional.cross_entropy(logits, words[index])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield loss.item()
