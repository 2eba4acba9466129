"""The Trainer and the loop it replaces: a folder of images, augmented by loader processes.

    python examples/trainer_images.py [--nprocs auto] [--loop] [--epochs 20] [--quick]

The images are generated PNGs of discs, squares and triangles. Their augmentations are functions of
epoch and sample, so that they are the same on any number of processes. The best weights are kept.
With --loop the plain loop trains in one process; it prints the same losses, up to rounding.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import training
from pictures import draw_curve
from PIL import Image, ImageDraw

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, DistributedSampler, datasets, transforms
from shmtensor.nn import functional as F
from shmtensor.trainer import ModelCheckpoint, Trainer


def draw_images(folder: Path, n: int, rng: np.random.Generator) -> None:
    """n images of 32 x 32 pixels of each shape, in random colours, sizes and directions."""
    for name, corners in (("disc", 64), ("square", 4), ("triangle", 3)):
        (folder / name).mkdir(parents=True)
        for i in range(n):
            color, background = (tuple(rng.integers(0, 256, 3).tolist()) for _ in range(2))
            (x, y), radius, angle = rng.uniform(12, 20, 2), rng.uniform(6, 11), rng.uniform(0, 360)
            image = Image.new("RGB", (32, 32), background)
            ImageDraw.Draw(image).regular_polygon((x, y, radius), corners, angle, color)
            image.save(folder / name / f"{i}.png")


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, 3),
    )  # fmt: skip


def train_by_trainer(model, optimizer, train, held_out, options):
    """The mean loss of each epoch, and the best accuracy; the model has the best weights then."""
    with TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="eval_accuracy", mode="max", keep_last=1)
        trainer = Trainer(
            model, optimizer, nn.CrossEntropyLoss(), nprocs=options.nprocs, device=options.device,
            callbacks=[best],
        )  # fmt: skip
        history = trainer.fit(
            train, options.steps, eval=held_out,
            on_epoch=lambda record: train.dataset.set_epoch(record.epoch),
        )  # fmt: skip
        losses, accuracy = history["loss"], best.best
        trainer.load(best.folder / "best.ckpt")
    return losses, accuracy


def train_by_loop(model, optimizer, train, held_out, options):
    """The same, in one process."""
    device, best, weights = options.device, 0.0, None
    model.to(device)

    def epoch(number: int) -> float:
        nonlocal best, weights
        train.dataset.set_epoch(number)
        train.sampler.set_epoch(number + 1)  # as the Trainer does
        model.train()
        loss_sum = correct = 0.0
        for images, labels in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
        model.eval()
        with st.no_grad():
            for images, labels in held_out:
                correct += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
        if correct > best:
            best, weights = correct, deepcopy(model.state_dict())
        return loss_sum / len(train.dataset)

    losses = training.run(options.steps, epoch, "epoch")
    model.load_state_dict(weights)
    return losses, best / len(held_out.dataset)


def main() -> None:
    options = training.options(__doc__, 20, 2, "trainer_images.png", "epoch", trainer=True)
    st.manual_seed(0)
    scale = transforms.ToDtype(np.float32, scale=True)
    flip, crop = transforms.RandomHorizontalFlip(), transforms.RandomCrop(32, padding=4)
    with TemporaryDirectory() as name:
        folder, rng = Path(name), np.random.default_rng(0)
        draw_images(folder / "train", 40 if options.quick else 600, rng)
        draw_images(folder / "held_out", 10 if options.quick else 100, rng)
        augment = transforms.Compose([flip, crop, scale])
        data = datasets.TransformedDataset(datasets.ImageFolder(folder / "train"), augment, seed=0)
        sampler = DistributedSampler(data, num_replicas=1, rank=0)  # shuffles by the epoch's number
        train = DataLoader(data, 30, sampler=sampler, num_workers=2, persistent_workers=True)
        held_out = DataLoader(datasets.ImageFolder(folder / "held_out", scale), 100)
        model = make_model()
        optimizer = optim.Adam(model.parameters(), lr=2e-3)
        fit = train_by_loop if options.loop else train_by_trainer
        losses, accuracy = fit(model, optimizer, train, held_out, options)
    print(f"losses of the epochs      {', '.join(f'{loss:.4f}' for loss in losses)}")
    print(f"best held-out accuracy    {100 * accuracy:.2f} %")
    draw_curve(options.out, losses, "Loss in training", unit="epoch")
    print(f"the curve                 {options.out}")


if __name__ == "__main__":
    main()
