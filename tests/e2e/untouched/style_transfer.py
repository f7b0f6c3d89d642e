# steps: 6
# series: Style_Loss, Content_Loss
# An image is what is optimised, by L-BFGS; the closure counts, prints and stops the loop.
import torch
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)
).requires_grad_(False)
content, style = torch.rand(1, 3, 16, 16), torch.rand(1, 3, 16, 16)


def gram(y):
    _, c, h, w = y.shape
    flat = y.view(c, h * w)
    return flat @ flat.t() / (c * h * w)


content_target, style_target = features(content), gram(features(style))
image = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([image], max_iter=5)
run = [0]
while run[0] < 30:

    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        y = features(image)
        style_score = 1e4 * nn.functional.mse_loss(gram(y), style_target)
        content_score = nn.functional.mse_loss(y, content_target)
        loss = style_score + content_score
        loss.backward()
        run[0] += 1
        if run[0] % 10 == 0:
            print(f"run {run}:")
            print(f"Style Loss : {style_score.item():4f} Content Loss: {content_score.item():4f}")
            print()
        return loss

    optimizer.step(closure)
