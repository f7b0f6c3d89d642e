# steps: 48
# series: Training/Avg_accuracy, Training/Avg_loss, Validation/Avg_accuracy, Validation/Avg_loss
# points: Validation/Avg_loss 15 31 47
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Engine:
    def __init__(self, process):
        self.process, self.handlers = process, {}
        self.state = type("State", (), {"epoch": 0, "iteration": 0, "output": None, "metrics": {}})()

    def on(self, event):
        def add(handler):
            self.handlers.setdefault(event, []).append(handler)
            return handler

        return add

    def fire(self, event):
        for handler in self.handlers.get(event, ()):
            handler(self)

    def run(self, data, max_epochs=1):
        for _ in range(max_epochs):
            self.state.epoch += 1
            self.fire("epoch_started")
            for batch in data:
                self.state.iteration += 1
                self.state.output = self.process(self, batch)
                self.fire("iteration_completed")
            self.fire("epoch_completed")
        return self.state


x = torch.randn(256, 8)
y = (x.sum(1) > 0).long()
train_loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
val_loader = DataLoader(TensorDataset(x, y), 64)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def train_step(engine, batch):
    model.train()
    optimizer.zero_grad()
    a, b = batch
    loss = criterion(model(a), b)
    loss.backward()
    optimizer.step()
    return loss.item()


def validation_step(engine, batch):
    model.eval()
    with torch.no_grad():
        a, b = batch
        p = model(a)
        return (p.argmax(1) == b).float().mean().item(), criterion(p, b).item()


trainer, evaluator = Engine(train_step), Engine(validation_step)
results = []


@evaluator.on("iteration_completed")
def collect(engine):
    results.append(engine.state.output)


@trainer.on("epoch_completed")
def log(engine):
    for name in ("Training", "Validation"):
        results.clear()
        evaluator.run(val_loader)
        acc, loss = (sum(each) / len(each) for each in zip(*results))
        print(f"{name} Results - Epoch[{engine.state.epoch}] Avg accuracy: {acc:.2f} Avg loss: {loss:.2f}")


trainer.run(train_loader, max_epochs=3)
