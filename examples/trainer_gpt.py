"""The Trainer and the loop it replaces: a small GPT on sentences of different lengths.

    python examples/trainer_gpt.py [--nprocs auto] [--loop] [--epochs 4] [--quick]

Each sample is a paragraph of Python's help pages, padded; the loss is the mean over the characters
that are none of the padding. The learning rate warms up and then decreases, step by step, and the
norm of the gradients is limited. With --loop the plain loop trains in one process; it prints the
same losses, up to rounding.
"""

from __future__ import annotations

import numpy as np
import training
from gpt import make_model, make_optimizer
from language import text
from pictures import draw_curve

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, DistributedSampler, TensorDataset
from shmtensor.nn import functional as F
from shmtensor.trainer import Schedule, Trainer

PADDING = -100  # of targets: cross_entropy ignores them


def paragraphs(length: int) -> TensorDataset:
    """The beginning of each paragraph: characters (N, length), and those after each of them."""
    tokens, targets = [], []
    for paragraph in text().split("\n\n"):
        characters = np.frombuffer(paragraph.encode("ascii", "replace"), np.uint8)[: length + 1]
        n = len(characters) - 1
        if n >= 8:
            tokens.append(np.pad(characters[:-1].astype(np.int64), (0, length - n)))
            after = characters[1:].astype(np.int64)
            targets.append(np.pad(after, (0, length - n), constant_values=PADDING))
    return TensorDataset(st.tensor(np.stack(tokens)), st.tensor(np.stack(targets)))


def token_loss(logits, targets):
    """The mean over the characters, and their number, by which the Trainer weights it."""
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PADDING)
    return loss, (targets != PADDING).sum()


def train_by_trainer(model, optimizer, scheduler, train, held_out, options):
    """The mean loss of each epoch, and that of the held-out data."""
    trainer = Trainer(
        model, optimizer, token_loss, nprocs=options.nprocs, clip_grad_norm=1.0,
        scheduler=Schedule(scheduler, interval="step"), device=options.device,
    )  # fmt: skip
    history = trainer.fit(train, options.steps, eval=held_out)
    return history["loss"], history["eval_loss"][-1]


def train_by_loop(model, optimizer, scheduler, train, held_out, options):
    """The same, in one process."""
    device = options.device
    model.to(device)

    def epoch(number: int) -> float:
        train.sampler.set_epoch(number + 1)  # as the Trainer does
        model.train()
        loss_sum = count = 0.0
        for tokens, targets in train:
            optimizer.zero_grad()
            loss, n = token_loss(model(tokens.to(device)), targets.to(device))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            loss_sum, count = loss_sum + loss.item() * n.item(), count + n.item()
        return loss_sum / count

    losses = training.run(options.steps, epoch, "epoch")
    model.eval()
    loss_sum = count = 0.0
    with st.no_grad():
        for tokens, targets in held_out:
            loss, n = token_loss(model(tokens.to(device)), targets.to(device))
            loss_sum, count = loss_sum + loss.item() * n.item(), count + n.item()
    return losses, loss_sum / count


def main() -> None:
    options = training.options(__doc__, 4, 2, "trainer_gpt.png", "epoch", trainer=True)
    st.manual_seed(0)
    sizes = {"width": 32, "layers": 1, "context": 32} if options.quick else {}
    model = make_model(**sizes)
    data = paragraphs(model.context)
    chosen = st.utils.data.Subset(data, range(0, len(data), 8 if options.quick else 1))
    held_out, train = st.utils.data.random_split(chosen, [0.1, 0.9])
    sampler = DistributedSampler(train, num_replicas=1, rank=0)  # shuffles by the epoch's number
    train = DataLoader(train, 32, sampler=sampler)
    held_out = DataLoader(held_out, 64)
    optimizer = make_optimizer(model)
    steps, warm_up = options.steps * len(train), 10 if options.quick else 100
    scheduler = optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, 1 - step / steps)
    )

    fit = train_by_loop if options.loop else train_by_trainer
    losses, loss = fit(model, optimizer, scheduler, train, held_out, options)
    print(f"loss of the first epoch   {losses[0]:.4f} nats per character")
    print(f"loss of the last epoch    {losses[-1]:.4f}")
    print(f"held-out loss             {loss:.4f}")
    draw_curve(options.out, losses, "Loss in training, nats per character", unit="epoch")
    print(f"the curve                 {options.out}")


if __name__ == "__main__":
    main()
