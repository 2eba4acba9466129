"""Classifies handwritten digits: two loader processes, two training processes, one copy of the
weights.

    python examples/digits.py [--epochs 60] [--nprocs 2] [--workers 2] [--out digits.png]

The 1,797 images of 8 x 8 pixels are UCI's, from scikit-learn; a fifth is held out. The loader's
workers shift each image by part of a pixel, randomly in each epoch, and collate batches in shared
memory; each of the two trainers reads half of a batch, and reduces the gradients of half of the
weights directly from the other's memory: no tensor is copied between processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import training
from pictures import panels

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, Dataset, digits
from shmtensor.trainer import Trainer

if TYPE_CHECKING:
    from shmtensor.trainer import History


class ShiftedDigits(Dataset[tuple[np.ndarray, int]]):
    """The training images, each randomly shifted by up to `reach` < 1 pixels in both directions."""

    def __init__(self, reach: float = 0.8) -> None:
        images, labels = digits(train=True, image=True).tensors
        self.images, self.labels = images.squeeze(1), labels
        self.reach = reach

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[np.ndarray, int]]:
        x = self.images.numpy()[indices]
        x = shift_rows(x, self.offsets(len(x)))
        x = shift_rows(x.swapaxes(1, 2), self.offsets(len(x))).swapaxes(1, 2)
        return list(zip(x.reshape(len(x), -1), self.labels.numpy()[indices], strict=True))

    def offsets(self, n: int) -> np.ndarray:
        # The loader seeds NumPy's generator in each worker and epoch.
        return np.random.uniform(-self.reach, self.reach, (n, 1, 1)).astype(np.float32)


def shift_rows(x: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Images `(N, H, W)` shifted down by `offset` `(N, 1, 1)` pixels, interpolated linearly."""
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)))
    above, below = padded[:, :-2], padded[:, 2:]
    return (1 - abs(offset)) * x + np.maximum(offset, 0) * above + np.maximum(-offset, 0) * below


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(512, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 10),
    )  # fmt: skip


def draw(history: History, path: str) -> None:
    """Training and held-out loss and accuracy per epoch."""
    epochs = history["epoch"]
    with panels(path, 1, 2, size=4) as (loss_axes, accuracy_axes):
        loss_axes.plot(epochs, history["loss"], label="training")
        loss_axes.plot(epochs, history["eval_loss"], label="held out")
        loss_axes.set(title="Loss", xlabel="epoch", yscale="log")
        accuracy_axes.plot(epochs, [100 * x for x in history["accuracy"]], label="training")
        accuracy_axes.plot(epochs, [100 * x for x in history["eval_accuracy"]], label="held out")
        accuracy_axes.set(title="Accuracy, %", xlabel="epoch", ylim=(90, 100.5))
        loss_axes.legend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--nprocs", type=int, default=2, help="training processes")
    parser.add_argument("--workers", type=int, default=2, help="loader processes")
    training.add_device(parser)
    parser.add_argument("--out", default="digits.png", help="file of the curves")
    options = parser.parse_args()

    st.manual_seed(0)
    train = DataLoader(
        ShiftedDigits(),
        batch_size=64,
        shuffle=True,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    held_out = DataLoader(digits(train=False), batch_size=512)
    model = make_model()
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.epochs)
    loss = nn.CrossEntropyLoss(label_smoothing=0.05)
    trainer = Trainer(
        model, optimizer, loss, nprocs=options.nprocs, scheduler=scheduler, device=options.device
    )
    history = trainer.fit(train, options.epochs, eval=held_out)

    figures = trainer.statistics()
    accuracy = trainer.evaluate(held_out)["accuracy"]
    print(f"held-out accuracy                       {100 * accuracy:.2f} %")
    print(f"training speed                          {figures.samples_per_second:,.0f} samples/s")
    print(f"tensor bytes copied between processes   {figures.tensor_bytes_copied:,}")
    draw(history, options.out)
    print(f"curves of loss and accuracy             {options.out}")


if __name__ == "__main__":
    main()
