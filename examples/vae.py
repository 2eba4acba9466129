"""A variational autoencoder of handwritten digits.

    python examples/vae.py [--epochs 200] [--quick]

Kingma and Welling 2014: an encoder predicts mean and variance of two hidden numbers, a decoder
makes the image from a sample of them. The full run has a held-out loss of 24.0 nats per image. The
picture shows digits decoded from a grid over the two hidden numbers.
"""

from __future__ import annotations

import training
from pictures import panels, show

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import digits
from shmtensor.nn import functional as F


class VAE(nn.Module):
    """Pixels' logits, mean and log variance of images (N, pixels) with values from 0 to 1."""

    def __init__(self, pixels: int = 64, width: int = 256, hidden: int = 2) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(pixels, width), nn.ReLU(), nn.Linear(width, 2 * hidden)
        )
        self.decoder = nn.Sequential(
            nn.Linear(hidden, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, pixels),
        )  # fmt: skip

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        z = mean + (log_variance / 2).exp() * st.randn_like(mean)
        return self.decoder(z), mean, log_variance


make_model = VAE


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=1e-3)


def loss_of(model, x):
    """The negative evidence lower bound, in nats per image."""
    logits, mean, log_variance = model(x)
    likelihood = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
    return (likelihood + divergence) / len(x)


def train_step(model, optimizer, x):
    """One update from images (N, pixels). Returns the loss."""
    optimizer.zero_grad()
    loss = loss_of(model, x)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main() -> None:
    options = training.options(__doc__, 200, 20, "vae.png", "epoch")
    st.manual_seed(0)
    images, held_images = (digits(train=t).tensors[0].to(options.device) for t in (True, False))
    model = make_model().to(options.device)
    optimizer = make_optimizer(model)

    def epoch(_: int):
        for batch in st.randperm(len(images)).to(options.device).split(64):
            loss = train_step(model, optimizer, images[batch])
        return loss

    training.run(options.steps, epoch, "epoch")
    model.eval()
    with st.no_grad():
        print(f"held-out loss       {loss_of(model, held_images).item():.2f} nats per image")
        line = st.linspace(-2, 2, 12, device=options.device)
        grid = model.decoder(st.cartesian_prod(line, line)).sigmoid().reshape(12, 12, 8, 8)
    with panels(options.out, size=6) as (panel,):
        show(panel, grid.permute(0, 2, 1, 3).reshape(96, 96), "decoded from two numbers each")
    print(f"digits              {options.out}")


if __name__ == "__main__":
    main()
