"""Learns to read handwritten digits: two loader processes, two training processes, one copy of the
weights.

    python examples/digits.py [--epochs 40] [--nprocs 2] [--workers 2] [--out digits.png]

The 1,797 images of 8 x 8 pixels are UCI's, as scikit-learn has them; a fifth is held out. The
loader's workers put a batch together in shared memory, the two trainers each take half of it, and
every trainer reduces the gradients of one half of the weights straight from the other's memory: no
tensor is copied between processes.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import shmtensor as st
from dataloaders import DataLoader, digits
from shmtensor import nn, optim
from shmtensor.trainer import Trainer

if TYPE_CHECKING:
    from shmtensor.trainer import History


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def draw(history: History, path: str) -> None:
    """Loss and accuracy of every epoch, training and held out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    epochs = history["epoch"]
    left.plot(epochs, history["loss"], label="training")
    left.plot(epochs, history["eval_loss"], label="held out")
    left.set(title="Loss", xlabel="epoch", yscale="log")
    right.plot(epochs, [100 * x for x in history["accuracy"]], label="training")
    right.plot(epochs, [100 * x for x in history["eval_accuracy"]], label="held out")
    right.set(title="Accuracy, %", xlabel="epoch", ylim=(90, 100.5))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--nprocs", type=int, default=2, help="training processes")
    parser.add_argument("--workers", type=int, default=2, help="loader processes")
    parser.add_argument("--out", default="digits.png", help="where the curves go")
    options = parser.parse_args()

    st.manual_seed(0)
    train = DataLoader(
        digits(train=True),
        batch_size=64,
        shuffle=True,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    held_out = DataLoader(digits(train=False), batch_size=512)
    model = make_model()
    optimizer = optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5)
    scheduler = optim.lr_scheduler.StepLR(
        optimizer, step_size=max(1, options.epochs // 3), gamma=0.4
    )
    trainer = Trainer(
        model, optimizer, nn.CrossEntropyLoss(), nprocs=options.nprocs, scheduler=scheduler
    )
    history = trainer.fit(train, options.epochs, eval=held_out)

    figures = trainer.statistics()
    right = trainer.evaluate(held_out)["accuracy"]
    print(f"held-out accuracy                       {100 * right:.2f} %")
    print(f"training speed                          {figures.samples_per_second:,.0f} samples/s")
    print(f"tensor bytes copied between processes   {figures.tensor_bytes_copied:,}")
    draw(history, options.out)
    print(f"curves of loss and accuracy             {options.out}")


if __name__ == "__main__":
    main()
