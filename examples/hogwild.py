"""Hogwild: processes that train the same weights at the same time, without locks.

    python examples/hogwild.py [--epochs 20] [--nprocs 2] [--quick]

Niu et al. 2011. A model's parameters are always in shared memory, so each process receives the
model as an argument and updates it in place. A GPU's memory is shared in the same way, by processes
that are spawned: CUDA cannot be used in a forked child. The full run reaches 96 % held-out
accuracy.
"""

from __future__ import annotations

import training
from pictures import panels
from tqdm import tqdm

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor import nn, optim
from shmtensor.dataloaders import digits
from shmtensor.nn import functional as F


def make_model(width: int = 128) -> nn.Module:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def train(rank: int, model: nn.Module, epochs: int, losses) -> None:
    """The function of each process; puts the loss of every epoch into the queue `losses`."""
    st.manual_seed(rank)
    st.set_num_threads(1)
    device = next(model.parameters()).device
    images, labels = (x.to(device) for x in digits(train=True).tensors)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for _ in range(epochs):
        total = 0.0
        for batch in st.randperm(len(images)).to(device).split(32):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.put((rank, total / len(images)))


def main() -> None:
    options = training.options(__doc__, 20, 2, "hogwild.png", "epoch", nprocs=["2", "1", "3", "4"])
    nprocs = int(options.nprocs)
    st.manual_seed(0)
    model = make_model().to(options.device).share_memory()
    context = mp.get_context("spawn" if options.device.type == "cuda" else None)
    losses = context.Queue()
    workers = [
        context.Process(target=train, args=(rank, model, options.steps, losses))
        for rank in range(nprocs)
    ]
    for worker in workers:
        worker.start()
    curves: list[list[float]] = [[] for _ in workers]
    for _ in (bar := tqdm(range(nprocs * options.steps), unit="epoch", disable=None)):
        rank, loss = losses.get()
        curves[rank].append(loss)
        bar.set_postfix(loss=f"{loss:.4f}")
    for worker in workers:
        worker.join()
    images, labels = (x.to(options.device) for x in digits(train=False).tensors)
    with st.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    print(f"held-out accuracy   {100 * accuracy:.2f} %")
    with panels(options.out, size=4) as (panel,):
        for rank, curve in enumerate(curves):
            panel.plot(curve, label=f"process {rank}")
        panel.set(title="Loss, each process", xlabel="epoch", yscale="log")
        panel.legend()
    print(f"the curves          {options.out}")


if __name__ == "__main__":
    main()
