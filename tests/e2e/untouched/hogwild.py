# steps: 20
# says: also recorded
# As PyTorch's example: processes train one model in shared memory, none of them is a rank.
import os

import torch
import torch.multiprocessing as mp
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(20, 32), nn.Linear(32, 5)

    def forward(self, x):
        return torch.log_softmax(self.fc2(torch.relu(self.fc1(x))), dim=1)


def train(rank, model, dataset):
    torch.manual_seed(1 + rank)
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for epoch in range(1, 3):
        model.train()
        pid = os.getpid()
        for batch_idx, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            loss = nn.functional.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            if batch_idx % 5 == 0:
                print(
                    f"{pid}\tTrain Epoch: {epoch} [{batch_idx * len(data)}/{len(dataset)}]\tLoss: {loss.item():.6f}"
                )


if __name__ == "__main__":
    mp.set_start_method("spawn", force=True)
    dataset = TensorDataset(torch.randn(160, 20), torch.randint(0, 5, (160,)))
    model = Net()
    model.share_memory()
    processes = []
    for rank in range(2):
        p = mp.Process(target=train, args=(rank, model, dataset))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
