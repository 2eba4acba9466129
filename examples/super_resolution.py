"""Enlarges images three times, sharper than interpolation.

    python examples/super_resolution.py [--steps 1500] [--quick]

Convolutions at the small size, whose last channels become pixels (Shi et al. 2016), added to the
bicubic image. Trained on three quarters of the tiles of two photographs. On the others the full run
reaches 25.2 dB (peak signal to noise), the bicubic image 24.4 dB.
"""

from __future__ import annotations

import math

import numpy as np
import training
from photographs import crops, tiles
from pictures import panels, show

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F

SCALE = 3


def enlarge(x):
    """Bicubic interpolation."""
    return F.interpolate(x, scale_factor=SCALE, mode="bicubic", align_corners=False)


class SuperResolution(nn.Module):
    """(N, 3, H, W) to (N, 3, SCALE * H, SCALE * W)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 5, padding=2, padding_mode="replicate"), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 3 * SCALE**2, 3, padding=1), nn.PixelShuffle(SCALE),
        )  # fmt: skip
        nn.init.zeros_(self.layers[-2].weight)  # equals the interpolation before training
        nn.init.zeros_(self.layers[-2].bias)

    def forward(self, x):
        return enlarge(x) + self.layers(x)


make_model = SuperResolution


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=2e-3)


def train_step(model, optimizer, images):
    """One update from images (N, 3, H, W) of the large size. Returns the loss."""
    optimizer.zero_grad()
    loss = F.mse_loss(model(F.avg_pool2d(images, SCALE)), images)
    loss.backward()
    optimizer.step()
    return loss.detach()


def decibels(x, y) -> float:
    """Peak signal to noise of images with values from 0 to 1."""
    return -10 * math.log10(F.mse_loss(x.clamp(0, 1), y).item())


def main() -> None:
    options = training.options(__doc__, 1500, 5, "super_resolution.png")
    st.manual_seed(0)
    (images, held_out), rng = tiles(), np.random.default_rng(0)
    model = make_model().to(options.device)
    optimizer = make_optimizer(model)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.steps)

    def step(_: int):
        loss = train_step(model, optimizer, crops(images, 72, 8, rng).to(options.device))
        scheduler.step()
        return loss

    training.run(options.steps, step)
    real = st.tensor(np.stack(held_out), device=options.device)
    small = F.avg_pool2d(real, SCALE)
    with st.no_grad():
        enlarged, bicubic = model.eval()(small), enlarge(small)
    print(f"bicubic             {decibels(bicubic, real):.2f} dB")
    print(f"network             {decibels(enlarged, real):.2f} dB")
    detailed = real.flatten(1).std(1).topk(2).indices.tolist()  # others are sky and leaves
    with panels(options.out, 2, 4, 2.5) as axes:
        for i, tile in enumerate(detailed):
            images = {"small": small, "bicubic": bicubic, "network": enlarged, "real": real}
            for panel, (name, x) in zip(axes[4 * i : 4 * i + 4], images.items(), strict=True):
                show(panel, x[tile], name)
    print(f"pictures            {options.out}")


if __name__ == "__main__":
    main()
