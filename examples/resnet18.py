"""ResNet-18 at 224 x 224 pixels: predicts the rotation of a crop of a photograph.

    python examples/resnet18.py [--steps 80] [--quick]

The network of He et al. 2016 with torchvision's names, so that its state dict loads. It learns
rotations by 0, 90, 180 and 270 degrees (Gidaris et al. 2018) on the left part of two photographs.
The full run is right for 53 % of crops of the right part (chance: 25 %).
"""

from __future__ import annotations

import numpy as np
import training
from photographs import crops, photographs
from pictures import panels, show

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F


class BasicBlock(nn.Module):
    """Two convolutions, added to the input."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or before != channels:
            conv = nn.Conv2d(before, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(channels))

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Class scores (N, classes) of images (N, 3, H, W)."""

    def __init__(self, classes: int = 1000, width: int = 64, blocks: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        before = width
        for i in range(4):
            channels, layer = width << i, []
            for k in range(blocks):
                layer.append(BasicBlock(before, channels, 2 if i and not k else 1))
                before = channels
            self.add_module(f"layer{i + 1}", nn.Sequential(*layer))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


make_model = ResNet


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)


def train_step(model, optimizer, images, labels):
    """One update from images (N, 3, H, W) and labels (N,). Returns the loss."""
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


def rotate_randomly(images: st.Tensor, rng: np.random.Generator) -> tuple[st.Tensor, st.Tensor]:
    """Each image rotated by 0 to 3 right angles, and that number."""
    turns = rng.integers(0, 4, len(images))
    rotated = [st.rot90(x, int(k), (1, 2)) for x, k in zip(images, turns, strict=True)]
    return st.stack(rotated) * 4 - 2, st.tensor(turns)


def main() -> None:
    options = training.options(__doc__, 80, 2, "resnet18.png")
    st.manual_seed(0)
    images, rng = photographs(), np.random.default_rng(0)
    model = make_model(4, 8 if options.quick else 64).to(options.device)
    optimizer = make_optimizer(model)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=options.steps)

    def step(_: int):
        x, y = rotate_randomly(crops(images, 224, 16, rng, (0.0, 0.6)), rng)
        loss = train_step(model, optimizer, x.to(options.device), y.to(options.device))
        scheduler.step()
        return loss

    training.run(options.steps, step)
    x, y = rotate_randomly(crops(images, 224, 32, rng, (0.6, 1.0)), rng)
    model.eval()
    with st.no_grad():
        predicted = model(x.to(options.device)).argmax(1).cpu()
    print(f"held-out accuracy   {100 * (predicted == y).float().mean().item():.1f} %")
    with panels(options.out, 2, 4, 2) as axes:
        for panel, image, guess in zip(axes, x, predicted.tolist(), strict=False):
            show(panel, image / 4 + 0.5, f"rotated by {90 * guess}")
    print(f"examples            {options.out}")


if __name__ == "__main__":
    main()
