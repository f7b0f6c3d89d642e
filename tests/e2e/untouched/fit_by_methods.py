# steps: 48
import torch
from torch import nn

torch.manual_seed(0)


class NeuralNet:
    def __init__(self, module, optimizer=torch.optim.SGD, lr=0.01, max_epochs=4):
        self.module, self.optimizer, self.lr, self.max_epochs = module, optimizer, lr, max_epochs

    def initialize(self):
        self.module_ = self.module()
        self.optimizer_ = self.optimizer(self.module_.parameters(), lr=self.lr)
        self.criterion_ = nn.MSELoss()
        self.history = []

    def get_iterator(self, dataset, training=False):
        return torch.utils.data.DataLoader(dataset, batch_size=16, shuffle=training)

    def train_step_single(self, batch):
        self.module_.train()
        x, y = batch
        loss = self.criterion_(self.module_(x), y)
        loss.backward()
        return {"loss": loss}

    def train_step(self, batch):
        out = {}

        def step_fn():
            self.optimizer_.zero_grad()
            step = self.train_step_single(batch)
            out.update(step)
            return step["loss"]

        self.optimizer_.step(step_fn)
        return out

    def validation_step(self, batch):
        self.module_.eval()
        with torch.no_grad():
            x, y = batch
            return self.criterion_(self.module_(x), y)

    def run_single_epoch(self, iterator, training):
        if training:
            losses = [self.train_step(batch)["loss"].item() for batch in iterator]
        else:
            losses = [self.validation_step(batch).item() for batch in iterator]
        return sum(losses) / len(losses)

    def fit(self, train, valid):
        self.initialize()
        print("  epoch    train_loss    valid_loss")
        for epoch in range(self.max_epochs):
            a = self.run_single_epoch(self.get_iterator(train, True), True)
            b = self.run_single_epoch(self.get_iterator(valid), False)
            print(f"{epoch:7d}  {a:12.4f}  {b:12.4f}")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


D = torch.utils.data.TensorDataset
NeuralNet(Net).fit(D(torch.randn(192, 8), torch.randn(192, 1)), D(torch.randn(64, 8), torch.randn(64, 1)))
