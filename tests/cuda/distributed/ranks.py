"""Ranks that communicate GPU tensors: `python -m tests.cuda.distributed.ranks CASE BACKEND`.

A program of its own, because the children of `spawn` import it anew. It prints "ok" at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.cuda.standin.install import install

install()

import numpy as np  # noqa: E402

import shmtensor as st  # noqa: E402
from shmtensor import distributed as dist  # noqa: E402
from shmtensor import multiprocessing as mp  # noqa: E402
from shmtensor.distributed.group.world import World  # noqa: E402
from tests.cuda.standin.program import need_devices, run_case  # noqa: E402

WORLD = 2


def run(rank: int, case: str, backend: str, name: str) -> None:
    st.cuda.set_device(rank % st.cuda.device_count())
    dist.init_process_group(backend, name, timeout=100, world_size=WORLD, rank=rank)
    globals()[f"case_{case}"](rank, f"cuda:{rank}" if backend == "nccl" else "cuda:0")
    dist.destroy_process_group()


@contextmanager
def on_the_cpu() -> Iterator[None]:
    """The default group is one in shared memory: that of nccl takes tensors on a GPU only."""
    world: Any = dist.GroupMember.WORLD
    group = dist.new_group(backend="shm")
    dist.GroupMember.WORLD = World.default = group
    try:
        yield
    finally:
        dist.GroupMember.WORLD = World.default = world
        dist.destroy_process_group(group)


def mine(rank: int, n: int = 6, device: str = "cpu") -> Any:
    return (st.arange(float(n)) * (rank + 1)).to(device)


def case_collectives(rank: int, device: str) -> None:
    """Each gives on a GPU what it gives on the CPU."""
    calls: dict[str, Callable[[str], Any]] = {
        "all_reduce": lambda d: changed(dist.all_reduce, mine(rank, 6, d)),
        "all_reduce of a view": lambda d: changed(dist.all_reduce, mine(rank, 12, d)[::2]),
        "all_reduce max": lambda d: changed(dist.all_reduce, mine(rank, 6, d), dist.ReduceOp.MAX),
        "all_reduce of bools": lambda d: changed(
            dist.all_reduce, mine(rank, 6, d) > 4, dist.ReduceOp.BOR
        ),
        "large": lambda d: changed(dist.all_reduce, mine(rank, 100_000, d)),
        "broadcast": lambda d: changed(dist.broadcast, mine(rank, 6, d), 1),
        "reduce": lambda d: changed(dist.reduce, mine(rank, 6, d), 0),
        "all_gather": lambda d: gathered(rank, d),
        "all_gather_into_tensor": lambda d: into(
            dist.all_gather_into_tensor, st.zeros(12, device=d), mine(rank, 6, d)
        ),
        "reduce_scatter_tensor": lambda d: into(
            dist.reduce_scatter_tensor, st.zeros(3, device=d), mine(rank, 6, d)
        ),
        "all_to_all_single": lambda d: into(
            dist.all_to_all_single, st.zeros(6, device=d), mine(rank, 6, d)
        ),
        "all_to_all of unequal parts": lambda d: exchanged(rank, d),
        "all_to_all_single with splits": lambda d: into(
            lambda out, x: dist.all_to_all_single(out, x, [rank + 1] * 2, [1, 2]),
            st.zeros(2 * rank + 2, device=d),
            mine(rank, 3, d),
        ),
        "reduce_scatter": lambda d: into(
            dist.reduce_scatter, st.zeros(6, device=d), [mine(rank + r, 6, d) for r in range(WORLD)]
        ),
        "gather": lambda d: gathered_by_one(rank, d),
        "scatter": lambda d: scattered(rank, d),
        "messages": lambda d: passed(rank, d),
        "async": lambda d: waited(mine(rank, 6, d)),
    }
    for name, call in calls.items():
        result = call(device)
        with on_the_cpu():
            expected = call("cpu")
        assert result.device == st.device(device), name
        np.testing.assert_array_equal(result.cpu().numpy(), expected.numpy(), err_msg=name)
    values: list[Any] = [None] * WORLD
    dist.all_gather_object(values, {"rank": rank, "x": mine(rank, 3, device)})
    assert [v["x"].tolist() for v in values] == [mine(r, 3).tolist() for r in range(WORLD)]
    dist.barrier()


def changed(function: Any, x: Any, *arguments: Any) -> Any:
    function(x, *arguments)
    return x


def into(function: Any, out: Any, x: Any) -> Any:
    function(out, x)
    return out


def gathered(rank: int, device: str) -> Any:
    outs = [st.zeros(6, device=device) for _ in range(WORLD)]
    dist.all_gather(outs, mine(rank, 6, device))
    return st.stack(outs)


def exchanged(rank: int, device: str) -> Any:
    outs = [st.zeros(p + rank, device=device) for p in range(WORLD)]
    dist.all_to_all(outs, [mine(rank, rank + r, device) for r in range(WORLD)])
    return st.cat(outs)


def gathered_by_one(rank: int, device: str) -> Any:
    outs = [st.zeros(6, device=device) for _ in range(WORLD)]
    dist.gather(mine(rank, 6, device), outs if rank == 1 else None, 1)
    return st.stack(outs)


def scattered(rank: int, device: str) -> Any:
    out = st.zeros(6, device=device)
    dist.scatter(out, [mine(r, 6, device) for r in range(WORLD)] if rank == 1 else None, 1)
    return out


def passed(rank: int, device: str) -> Any:
    x = mine(rank, 6, device)
    if rank == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    else:
        got = st.zeros_like(x)
        dist.recv(got, 0)
        dist.send(got * 2, 0)
    return x


def waited(x: Any) -> Any:
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    return x * 2


def start(case: str, backend: str) -> None:
    need_devices(WORLD if backend == "nccl" else 1)  # NCCL wants one for each rank
    mp.spawn(run, (case, backend, f"ranks/{os.getpid()}"), nprocs=WORLD)


if __name__ == "__main__":
    run_case(start, *sys.argv[1:3])
