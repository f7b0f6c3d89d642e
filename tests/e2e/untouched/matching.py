# steps: 40
import torch
from torch import nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        point = torch.randn(12)
        return {"a": point + 0.1 * torch.randn(12), "b": point + 0.1 * torch.randn(12)}


encoder = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
temperature = nn.Parameter(torch.tensor(0.1))
optimizer = torch.optim.AdamW(
    [{"params": encoder.parameters(), "lr": 1e-3}, {"params": [temperature], "lr": 1e-2}]
)
loader = DataLoader(Pairs(), batch_size=16, num_workers=1, persistent_workers=True)
for epoch in range(2):
    for batch in loader:  # timed
        a, b = normalize(encoder(batch["a"]), dim=1), normalize(encoder(batch["b"]), dim=1)
        logits = a @ b.T / temperature
        labels = torch.arange(len(logits))
        loss = (
            nn.functional.cross_entropy(logits, labels) + nn.functional.cross_entropy(logits.T, labels)
        ) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
