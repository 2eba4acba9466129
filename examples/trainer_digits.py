"""The Trainer and the loop it replaces: a convolutional network on handwritten digits.

    python examples/trainer_digits.py [--nprocs auto] [--loop] [--epochs 20] [--quick]

With --loop the plain loop trains in one process, without it the Trainer, on several processes if
that is faster. Both print the same losses, up to rounding: batch norms take the statistics of whole
batches (`sync_batchnorm`), and the sampler's order depends on the epoch alone.
"""

from __future__ import annotations

import training
from digits_cnn import make_model, make_optimizer
from pictures import draw_curve

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, DistributedSampler, digits
from shmtensor.nn import functional as F
from shmtensor.trainer import Trainer


def train_by_trainer(model, optimizer, scheduler, train, held_out, options):
    """The mean loss of each epoch, and loss and accuracy on the held-out data."""
    trainer = Trainer(
        model, optimizer, nn.CrossEntropyLoss(), nprocs=options.nprocs, scheduler=scheduler,
        sync_batchnorm=True, device=options.device,
    )  # fmt: skip
    history = trainer.fit(train, options.steps, eval=held_out)
    return history["loss"], history["eval_loss"][-1], history["eval_accuracy"][-1]


def train_by_loop(model, optimizer, scheduler, train, held_out, options):
    """The same, in one process."""
    device = options.device
    model.to(device)

    def epoch(number: int) -> float:
        train.sampler.set_epoch(number + 1)  # as the Trainer does
        model.train()
        loss_sum = 0.0
        for images, labels in train:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
        scheduler.step()
        return loss_sum / len(train.dataset)

    losses = training.run(options.steps, epoch, "epoch")
    model.eval()
    loss_sum, correct = 0.0, 0
    with st.no_grad():
        for images, labels in held_out:
            images, labels = images.to(device), labels.to(device)
            outputs = model(images)
            loss_sum += F.cross_entropy(outputs, labels).item() * len(labels)
            correct += (outputs.argmax(1) == labels).sum().item()
    n = len(held_out.dataset)
    return losses, loss_sum / n, correct / n


def main() -> None:
    options = training.options(__doc__, 20, 2, "trainer_digits.png", "epoch", trainer=True)
    st.manual_seed(0)
    data = digits(train=True, image=True)
    sampler = DistributedSampler(data, num_replicas=1, rank=0)  # shuffles by the epoch's number
    train = DataLoader(data, 64, sampler=sampler)
    held_out = DataLoader(digits(train=False, image=True), 512)
    model = make_model(8 if options.quick else 32)
    optimizer = make_optimizer(model)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.steps)

    fit = train_by_loop if options.loop else train_by_trainer
    losses, loss, accuracy = fit(model, optimizer, scheduler, train, held_out, options)
    print(f"loss of the first epoch   {losses[0]:.4f}")
    print(f"loss of the last epoch    {losses[-1]:.4f}")
    print(f"held-out loss             {loss:.4f}")
    print(f"held-out accuracy         {100 * accuracy:.2f} %")
    draw_curve(options.out, losses, "Loss in training", unit="epoch")
    print(f"the curve                 {options.out}")


if __name__ == "__main__":
    main()
