# steps: 120
import torch
from torch import nn

data = torch.randint(0, 50, (10000,))


def get_batch():
    ix = torch.randint(0, 9900, (8,))
    return torch.stack([data[i : i + 16] for i in ix]), torch.stack([data[i + 1 : i + 17] for i in ix])


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(50, 32)
        s.f = nn.Linear(32, 50)

    def forward(s, x, y):
        l = s.f(s.e(x))
        return nn.functional.cross_entropy(l.view(-1, 50), y.view(-1))


model = M()
opt = torch.optim.AdamW(model.parameters())


@torch.no_grad()
def estimate_loss():
    model.eval()
    l = sum(model(*get_batch()) for _ in range(20)) / 20
    model.train()
    return l


for it in range(120):
    if it % 40 == 0:
        print(f"step {it}: val loss {estimate_loss():.4f}")
    x, y = get_batch()
    loss = model(x, y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if it % 10 == 0:
        print(f"iter {it}: loss {loss.item():.4f}, time 3.00ms")
