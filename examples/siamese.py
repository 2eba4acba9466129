"""A Siamese network: are two images the same digit, including digits not used in training?

    python examples/siamese.py [--steps 600] [--quick]

Both images go through the same network; a contrastive loss decreases the distance of equal digits
and increases that of different ones (Hadsell, Chopra, LeCun 2006). It trains on 0 to 6. The full
run classifies 99 % of held-out pairs of these correctly, and 66 % of pairs of 7, 8 and 9 (chance:
50 %).
"""

from __future__ import annotations

import numpy as np
import training
from pictures import panels

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import digits
from shmtensor.nn import functional as F

N_TRAINED = 7  # the digits below this are used in training
LIMIT = 0.6  # images nearer than this are classified as the same digit


class Siamese(nn.Module):
    """Unit vectors (N, hidden) of images (N, 1, 8, 8); `distance` of two batches of images."""

    def __init__(self, width: int = 16, hidden: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.InstanceNorm2d(width, affine=True),
            nn.ReLU(), nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width),
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * width, hidden),
        )  # fmt: skip

    def forward(self, x):
        return F.normalize(self.layers(x), dim=1)

    def distance(self, x, y):
        return F.pairwise_distance(self(x), self(y))


make_model = Siamese


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.NAdam(model.parameters(), lr=1e-3)


def train_step(model, optimizer, x, y, same):
    """One update from image pairs, and 1.0 where both are the same digit. Returns the loss."""
    optimizer.zero_grad()
    distance = model.distance(x, y)
    loss = (same * distance**2 + (1 - same) * F.relu(1 - distance) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def pairs(images, labels, count: int, rng: np.random.Generator) -> tuple:
    """Pairs, of which half show the same digit."""
    a = rng.integers(0, len(labels), count)
    same = np.arange(count) % 2 == 0
    b = [rng.choice(np.flatnonzero((labels == labels[i]) == s)) for i, s in zip(a, same)]
    same = st.tensor(same.astype(np.float32), device=images.device)
    return images[a], images[np.array(b)], same


def main() -> None:
    options = training.options(__doc__, 600, 10, "siamese.png")
    st.manual_seed(0)
    rng = np.random.default_rng(0)
    images, labels = (x.numpy() for x in digits(train=True, image=True).tensors)
    held_images, held_labels = (x.numpy() for x in digits(train=False, image=True).tensors)
    is_used, is_trained = labels < N_TRAINED, held_labels < N_TRAINED
    train = st.tensor(images[is_used], device=options.device), labels[is_used]
    trained_digits, new_digits = (
        (st.tensor(held_images[chosen], device=options.device), held_labels[chosen])
        for chosen in (is_trained, ~is_trained)
    )
    model = make_model().to(options.device)
    optimizer = make_optimizer(model)
    training.run(options.steps, lambda _: train_step(model, optimizer, *pairs(*train, 64, rng)))
    model.eval()
    for name, data in (("trained", trained_digits), ("new", new_digits)):
        with st.no_grad():
            x, y, same = pairs(*data, 1000, rng)
            distance = model.distance(x, y)
        accuracy = ((distance < LIMIT) == (same == 1)).float().mean().item()
        print(f"accuracy on pairs of {name:7} digits   {100 * accuracy:.1f} %")
    with panels(options.out, size=4) as (panel,):
        for value, name in ((1, "same digit"), (0, "different digits")):
            panel.hist(
                distance[same == value].cpu().numpy(), 30, range=(0, 2), alpha=0.6, label=name
            )
        panel.axvline(LIMIT, color="black")
        panel.set(title="Distance of pairs of 7, 8, 9")
        panel.legend()
    print(f"distances                              {options.out}")


if __name__ == "__main__":
    main()
