"""Renders one photograph in the style of the other, with features of a small network trained here.

    python examples/style_transfer.py [--steps 60] [--quick]

Gatys, Ecker, Bethge 2016: L-BFGS optimises the image itself, so that its features match the
content's and the correlations of its features (Gram matrices) match the style's. They use VGG; here
a small network first learns the rotation of crops of the photographs.
"""

from __future__ import annotations

import itertools

import numpy as np
import training
from photographs import crops, photographs
from pictures import panels, show
from resnet18 import rotate_randomly
from resnet18 import train_step as train_features

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F


class Features(nn.Module):
    """The activations after each of three blocks; `forward` returns scores of four rotations."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width]
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in itertools.pairwise(sizes)
        )
        self.output = nn.Linear(4 * width, 4)

    def activations(self, x) -> list:
        out = []
        for block in self.blocks:
            out.append(block(x))
            x = F.avg_pool2d(out[-1], 2)
        return out

    def forward(self, x):
        return self.output(self.activations(x)[-1].mean((2, 3)))


class Painting(nn.Module):
    """The optimised image (1, 3, H, W), and the network for its features."""

    def __init__(self, size: int = 64, width: int = 24, features: nn.Module | None = None) -> None:
        super().__init__()
        self.features = (features or Features(width)).requires_grad_(False).eval()
        self.image = nn.Parameter(st.rand(1, 3, size, size))

    def loss(self, content, style):
        actual, target, styled = (
            self.features.activations(x) for x in (self.image, content, style)
        )
        loss = F.mse_loss(actual[1], target[1])
        for x, y in zip(actual, styled, strict=True):
            loss = loss + 0.3 * F.mse_loss(gram(x), gram(y))
        image = self.image
        variation = image.diff(dim=2).square().mean() + image.diff(dim=3).square().mean()
        return loss + 0.02 * variation


def gram(x):
    """The correlations of the channels of (1, C, H, W): (C, C)."""
    rows = x[0].flatten(1)
    return rows @ rows.T / rows.shape[1]


make_model = Painting


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.LBFGS([model.image], lr=0.5, max_iter=5, history_size=10)


def train_step(model, optimizer, content, style):
    """One update of the image, of up to five evaluations. Returns the loss before it."""

    def closure():
        optimizer.zero_grad()
        loss = model.loss(content, style)
        loss.backward()
        return loss

    return optimizer.step(closure).detach()


def main() -> None:
    options = training.options(__doc__, 60, 2, "style_transfer.png")
    st.manual_seed(0)
    images, rng = photographs(), np.random.default_rng(0)
    features = Features().to(options.device)
    adam = optim.Adam(features.parameters(), lr=3e-3)
    for _ in range(5 if options.quick else 200):
        x, y = rotate_randomly(crops(images, 64, 16, rng), rng)
        train_features(features, adam, x.to(options.device), y.to(options.device))
    pictures = (st.tensor(x[None, :, :384, :576], device=options.device) for x in images)
    content, style = (F.avg_pool2d(x, 3) * 4 - 2 for x in pictures)
    model = Painting(features=features)
    model.image = nn.Parameter(content.clone())
    optimizer = make_optimizer(model)
    losses = training.run(options.steps, lambda _: train_step(model, optimizer, content, style))
    print(f"loss                {losses[0]:.4f} at first, {losses[-1]:.4f} at the end")
    with panels(options.out, 1, 3, 4) as axes:
        for panel, x in zip(axes, (content, style, model.image), strict=True):
            show(panel, x[0] / 4 + 0.5)
    print(f"picture             {options.out}")


if __name__ == "__main__":
    main()
