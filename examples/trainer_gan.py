"""The Trainer and the loop it replaces: a generative adversarial network, two optimizers.

    python examples/trainer_gan.py [--nprocs auto] [--loop] [--epochs 30] [--quick]

The networks are those of dcgan.py. Each batch makes a step of the discriminator, and then one of
the generator. The noise is a function of epoch and sample, the same on any number of processes.
With --loop the plain loop trains in one process; it prints the same losses, up to rounding.
"""

from __future__ import annotations

import numpy as np
import training
from dcgan import NOISE, make_model, make_optimizer
from pictures import panels, show

import shmtensor as st
from shmtensor import nn
from shmtensor.dataloaders import DataLoader, Dataset, DistributedSampler, digits
from shmtensor.nn import functional as F
from shmtensor.trainer import Callback, Trainer


class DigitsAndNoise(Dataset):
    """Digits (1, 16, 16), each with noise (NOISE, 1, 1)."""

    def __init__(self) -> None:
        images = digits(train=True, image=True).tensors[0]
        self.images = F.interpolate(images, size=16, mode="bilinear")
        self.epoch = st.zeros(1, dtype=st.int64)  # shared with all processes

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int):
        rng = np.random.default_rng((self.epoch.item(), index))
        return self.images[index], rng.standard_normal((NOISE, 1, 1), np.float32)


class NewNoise(Callback):
    """Other noise in each epoch."""

    def __init__(self, data: DigitsAndNoise) -> None:
        self.data = data

    def on_epoch_begin(self, trainer) -> None:
        self.data.epoch.fill_(trainer.epoch)


def training_step(model, batch, i: int):
    """The loss of the discriminator (i = 0), or of the generator (i = 1)."""
    images, noise = batch
    generated = model.generator(noise)
    if i == 1:
        return distance(model.discriminator(generated), 1.0)
    of_real, of_fake = model.discriminator(images), model.discriminator(generated.detach())
    return distance(of_real, 0.9) + distance(of_fake, 0.0)  # 0.9: smoothed


def distance(logits, target: float):
    return F.binary_cross_entropy_with_logits(logits, st.full_like(logits, target))


def train_by_trainer(model, optimizers, data, train, options):
    """The mean losses of discriminator and generator in each epoch."""
    trainer = Trainer(
        model, optimizers, training_step=training_step, nprocs=options.nprocs, sync_batchnorm=True,
        callbacks=[NewNoise(data)], device=options.device,
    )  # fmt: skip
    history = trainer.fit(train, options.steps)
    return history["loss"], history["loss_1"]


def train_by_loop(model, optimizers, data, train, options):
    """The same, in one process."""
    model.to(options.device).train()
    sums: list[list[float]] = []

    def epoch(number: int) -> float:
        data.epoch.fill_(number)
        train.sampler.set_epoch(number + 1)  # as the Trainer does
        sums.append([0.0, 0.0])
        for batch in train:
            batch = [x.to(options.device) for x in batch]
            for i, optimizer in enumerate(optimizers):
                optimizer.zero_grad()
                loss = training_step(model, batch, i)
                loss.backward()
                optimizer.step()
                sums[-1][i] += loss.item() * len(batch[0]) / len(data)
        return sums[-1][0]

    training.run(options.steps, epoch, "epoch")
    return [a for a, _ in sums], [b for _, b in sums]


def main() -> None:
    options = training.options(__doc__, 30, 5, "trainer_gan.png", "epoch", trainer=True)
    st.manual_seed(0)
    data = DigitsAndNoise()
    sampler = DistributedSampler(data, num_replicas=1, rank=0)  # shuffles by the epoch's number
    train = DataLoader(data, 64, sampler=sampler)
    model = nn.ModuleDict(
        zip(("generator", "discriminator"), make_model(8 if options.quick else 32))
    )
    optimizers = make_optimizer((model.discriminator, model.generator))

    fit = train_by_loop if options.loop else train_by_trainer
    losses = fit(model, optimizers, data, train, options)
    print(f"discriminator's loss   {losses[0][-1]:.4f} (1.386: chance)")
    print(f"generator's loss       {losses[1][-1]:.4f}")
    noise = st.stack([st.tensor(data[i][1]) for i in range(64)]).to(options.device)
    with st.no_grad(), panels(options.out, size=6) as (panel,):
        framed = F.pad(model.eval().generator(noise), (1, 1, 1, 1)).reshape(8, 8, 18, 18)
        show(panel, framed.permute(0, 2, 1, 3).reshape(144, 144), "generated")
    print(f"generated digits       {options.out}")


if __name__ == "__main__":
    main()
