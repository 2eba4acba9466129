"""Ranks that train on GPUs: `python -m tests.cuda.distributed.ddp_ranks CASE BACKEND`.

A program of its own, because the children of `spawn` import it anew. Each case gives on a GPU what
it gives on the CPU. It prints "ok" at the end.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from tests.cuda.standin.install import install

install()

import numpy as np  # noqa: E402

import shmtensor as st  # noqa: E402
from shmtensor import distributed as dist  # noqa: E402
from shmtensor import multiprocessing as mp  # noqa: E402
from shmtensor import nn, optim  # noqa: E402
from shmtensor.distributed.algorithms.ddp_comm_hooks import default_hooks  # noqa: E402
from shmtensor.distributed.optim import ZeroRedundancyOptimizer  # noqa: E402
from shmtensor.nn.parallel import DistributedDataParallel  # noqa: E402
from tests.cuda.distributed.ranks import on_the_cpu  # noqa: E402
from tests.cuda.standin.program import need_devices, run_case  # noqa: E402

WORLD = 2


def run(rank: int, case: str, backend: str, name: str) -> None:
    st.cuda.set_device(rank if backend == "nccl" else 0)
    dist.init_process_group(backend, name, timeout=100, world_size=WORLD, rank=rank)
    device = f"cuda:{rank}" if backend == "nccl" else "cuda:0"
    globals()[f"case_{case}"](rank, device)
    dist.destroy_process_group()


def batch(rank: int, step: int, device: str, rows: int = 8) -> Any:
    x = st.arange(4.0 * rows).reshape(rows, 4)
    return (x * (rank + 1 + step)).sin().to(device)


class Branches(nn.Module):
    """Uses one of two layers, as `branch` says."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 3)
        self.branch = 0

    def forward(self, x: Any) -> Any:
        return (self.second if self.branch else self.first)(x)


def model() -> Any:
    st.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def values(net: Any) -> Any:
    """All parameters and buffers, on the CPU."""
    parts = [x.detach().cpu().float().reshape(-1) for x in [*net.parameters(), *net.buffers()]]
    return st.cat(parts).numpy()


def check(function: Any, rank: int, device: str, rtol: float = 2e-4) -> None:
    """Checks that a function of a rank and a device trains the same model on both."""
    net = function(rank, device)
    with on_the_cpu():
        reference = function(rank, "cpu")
    assert {p.device for p in net.parameters()} == {st.device(device)}
    np.testing.assert_allclose(values(net), values(reference), rtol=rtol, atol=1e-5)


def step(net: Any, optimizer: Any, x: Any) -> None:
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()


# ---------------------------------------------------------------- cases
def case_sync_batch_norm(rank: int, device: str) -> None:
    def train(rank: int, device: str) -> Any:
        net = nn.SyncBatchNorm.convert_sync_batchnorm(model()).to(device)
        wrapped = DistributedDataParallel(net)
        sgd = optim.SGD(net.parameters(), 0.1)
        for n in range(3):
            step(wrapped, sgd, batch(rank, n, device, 4 + 4 * rank))
        net.eval()
        return net

    check(train, rank, device)


def case_zero(rank: int, device: str) -> None:
    def train(rank: int, device: str) -> Any:
        net = model().to(device)
        wrapped = DistributedDataParallel(net)
        zero = ZeroRedundancyOptimizer(net.parameters(), optim.SGD, lr=0.1, momentum=0.9)
        for n in range(3):
            step(wrapped, zero, batch(rank, n, device))
        zero.consolidate_state_dict(0)
        state: list[Any] = [zero.state_dict() if rank == 0 else None]
        dist.broadcast_object_list(state, 0)
        later = ZeroRedundancyOptimizer(net.parameters(), optim.SGD, lr=0.1, momentum=0.9)
        later.load_state_dict(state[0])
        for n in range(2):
            step(wrapped, later, batch(rank, n, device))
        return net

    check(train, rank, device)


def case_hooks(rank: int, device: str) -> None:
    for hook, rtol in (
        (default_hooks.allreduce_hook, 2e-4),
        (default_hooks.fp16_compress_hook, 2e-2),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 2e-2),
    ):

        def train(rank: int, device: str, hook: Any = hook) -> Any:
            net = model().to(device)
            wrapped = DistributedDataParallel(net)
            wrapped.register_comm_hook(None, hook)
            sgd = optim.SGD(net.parameters(), 0.1, momentum=0.9)
            for n in range(3):
                step(wrapped, sgd, batch(rank, n, device))
            return net

        check(train, rank, device, rtol)


def case_no_sync(rank: int, device: str) -> None:
    def train(rank: int, device: str) -> Any:
        net = model().to(device)
        wrapped = DistributedDataParallel(net)
        assert wrapped.join_device == next(net.parameters()).device
        sgd = optim.SGD(net.parameters(), 0.1)
        for n in range(2):
            sgd.zero_grad()
            with wrapped.no_sync():
                wrapped(batch(rank, 2 * n, device)).square().mean().backward()
            wrapped(batch(rank, 2 * n + 1, device)).square().mean().backward()
            sgd.step()
        return net

    check(train, rank, device)


def case_join(rank: int, device: str) -> None:
    for hook in (None, default_hooks.allreduce_hook):

        def train(rank: int, device: str, hook: Any = hook) -> Any:
            net = model().to(device)
            wrapped = DistributedDataParallel(net)
            if hook is not None:
                wrapped.register_comm_hook(None, hook)
            sgd = optim.SGD(net.parameters(), 0.1)
            with wrapped.join():
                for n in range(2 + 2 * rank):
                    step(wrapped, sgd, batch(rank, n, device))
            return net

        check(train, rank, device)


def case_unused(rank: int, device: str) -> None:
    def train(rank: int, device: str) -> Any:
        st.manual_seed(0)
        net = Branches().to(device)
        wrapped = DistributedDataParallel(net, find_unused_parameters=True)
        sgd = optim.SGD(net.parameters(), 0.1, momentum=0.9)
        for n, used in enumerate([(0, 0), (0, 1), (1, 1)]):
            net.branch = used[rank]
            step(wrapped, sgd, batch(rank, n, device))
        return net

    check(train, rank, device)


def case_sparse(rank: int, device: str) -> None:
    """Embeddings with sparse gradients; of one table only rank 0 uses rows in each step."""

    def train(rank: int, device: str) -> Any:
        st.manual_seed(0)
        net = nn.ModuleList(
            [nn.Embedding(9, 4, sparse=True), nn.EmbeddingBag(9, 4, mode="sum", sparse=True)]
        ).to(device)
        layer = nn.Linear(4, 2).to(device)

        class Words(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.tables, self.layer, self.both = net, layer, True

            def forward(self, words: Any) -> Any:
                out = self.tables[0](words[:, 0])
                return self.layer(out + self.tables[1](words) if self.both else out)

        words = Words()
        wrapped = DistributedDataParallel(words, find_unused_parameters=True)
        sgd = optim.SGD(words.parameters(), 0.1)
        for n in range(3):
            words.both = rank == 0 or n == 0
            x = (st.arange(12).reshape(4, 3) * (rank + 2 + n)).remainder(9).to(device)
            sgd.zero_grad()
            (wrapped(x) ** 2).sum().backward()
            assert net[0].weight.grad.is_sparse
            assert str(net[0].weight.grad.device) == device
            sgd.step()
        x = st.zeros(6, device=device)
        x[rank] = 1.0 + rank
        total = x.to_sparse()
        work = dist.all_reduce(total, async_op=True)
        work.wait()
        assert str(total.device) == device
        assert total.to_dense().tolist() == [1, 2, 0, 0, 0, 0]
        return words

    check(train, rank, device)


def case_side_stream(rank: int, device: str) -> None:
    """The caller's stream is not the lane's."""

    def train(rank: int, device: str) -> Any:
        net = model().to(device)
        wrapped = DistributedDataParallel(net)
        wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
        sgd = optim.SGD(net.parameters(), 0.1)
        for n in range(3):
            step(wrapped, sgd, batch(rank, n, device))
        return net

    stream = st.cuda.Stream(device)
    with st.cuda.stream(stream):
        net = train(rank, device)
        got = values(net)
    with on_the_cpu():
        np.testing.assert_allclose(got, values(train(rank, "cpu")), rtol=2e-2, atol=1e-4)


def start(case: str, backend: str) -> None:
    need_devices(WORLD if backend == "nccl" else 1)  # NCCL wants one for each rank
    mp.spawn(run, (case, backend, f"ddp_ranks/{os.getpid()}"), nprocs=WORLD)


if __name__ == "__main__":
    run_case(start, *sys.argv[1:3])
