# steps: 45
# series: Loss, PDE, BC
# Physics-informed network for the heat equation: Adam first, then L-BFGS.
import torch
from torch import nn

torch.manual_seed(0)


class PINN(nn.Module):
    def __init__(self, layers=(2, 20, 20, 1)):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(layers, layers[1:]))

    def forward(self, x):
        for layer in self.linears[:-1]:
            x = torch.tanh(layer(x))
        return self.linears[-1](x)


net = PINN()
xt = torch.rand(200, 2, requires_grad=True)
x0 = torch.stack([torch.linspace(0, 1, 50), torch.zeros(50)], 1)
u0 = torch.sin(torch.pi * x0[:, :1])
n_iter = 0


def compute_loss():
    u = net(xt)
    (du,) = torch.autograd.grad(u.sum(), xt, create_graph=True)
    (ddu,) = torch.autograd.grad(du[:, 0].sum(), xt, create_graph=True)
    pde = (du[:, 1] - 0.1 * ddu[:, 0]).pow(2).mean()
    bc = (net(x0) - u0).pow(2).mean()
    return pde + bc, pde, bc


adam = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(40):
    adam.zero_grad()
    loss, pde, bc = compute_loss()
    loss.backward()
    adam.step()
    if it % 5 == 0:
        print("It: %d, Loss: %.3e, PDE: %.3e, BC: %.3e" % (it, loss.item(), pde.item(), bc.item()))

lbfgs = torch.optim.LBFGS(
    net.parameters(), lr=1.0, max_iter=8, history_size=20, line_search_fn="strong_wolfe"
)


def closure():
    global n_iter
    lbfgs.zero_grad()
    loss, pde, bc = compute_loss()
    loss.backward()
    n_iter += 1
    return loss


for it in range(40, 45):
    loss = lbfgs.step(closure)
    print("It: %d, Loss: %.3e" % (it, loss.item()))
print("Training finished:", n_iter, "evaluations")
