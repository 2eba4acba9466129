"""Groups of processes: collectives, DistributedDataParallel, samplers by rank; and the Trainer."""

from __future__ import annotations

import datetime

from typing_extensions import reveal_type

import shmtensor as st
import shmtensor.distributed as dist
from shmtensor import nn, optim
from shmtensor.nn.parallel import DistributedDataParallel as DDP
from shmtensor.trainer import History, Trainer
from shmtensor.utils.data import DataLoader, DistributedSampler, TensorDataset


def run(rank: int, world: int) -> None:
    dist.init_process_group(
        "shm", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60)
    )
    reveal_type(dist.get_rank())  # -> int
    data = TensorDataset(st.randn(64, 8), st.randint(0, 2, (64,)))
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(8, 2))
    reveal_type(model.module)  # -> Module
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss: st.Tensor = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    total = st.ones(1)
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    parts = [st.zeros(1) for _ in range(world)]
    dist.all_gather(parts, total)
    work = dist.all_reduce(total, async_op=True)
    if work is not None:
        work.wait()
    dist.broadcast(total, src=0)
    dist.barrier()
    with model.no_sync():
        pass
    group = dist.new_group([0, 1])
    reveal_type(dist.is_initialized())  # -> bool
    dist.destroy_process_group(group)
    dist.destroy_process_group()


def train() -> History:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    data = TensorDataset(st.randn(64, 8), st.randint(0, 2, (64,)))
    trainer = Trainer(
        model, optim.Adam(model.parameters()), nn.CrossEntropyLoss(), nprocs=2, progress=False
    )
    history = trainer.fit(DataLoader(data, batch_size=8), epochs=2)
    reveal_type(history)  # -> History
    reveal_type(history.epochs[-1].loss)  # -> float
    reveal_type(history["loss"])  # -> list[Any]
    return history


if __name__ == "__main__":
    st.multiprocessing.spawn(run, args=(2,), nprocs=2)
    train()
