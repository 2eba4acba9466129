"""Data-parallel training under the variables of torchrun, with a sampler and snapshots."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

if __name__ == "__main__":
    dist.init_process_group(backend="gloo", init_method="env://")
    rank, world = dist.get_rank(), dist.get_world_size()
    assert (rank, world) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    torch.manual_seed(rank)  # DDP sends rank 0's weights
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    for epoch in range(10):
        loader.sampler.set_epoch(epoch)
        for source, target in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(source), target).backward()
            optimizer.step()
    weights = [torch.zeros(1, 4) for _ in range(world)]
    dist.all_gather(weights, model.module.weight.data)
    assert all(torch.equal(w, weights[0]) for w in weights)
    assert torch.allclose(weights[0], torch.ones(1, 4), atol=0.01), weights[0]
    if rank == 0:
        torch.save(model.module.state_dict(), "snapshot.pt")
        print(f"{world} ranks agree")
    dist.barrier()
    dist.destroy_process_group()
