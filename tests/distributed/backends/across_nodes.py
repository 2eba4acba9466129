"""The ranks' functions of `mpirun -n 4` in test_mpi.py, and of each process in test_tcp.py.

python -m tests.distributed.backends.across_nodes CASES [name=value]

SHMTENSOR_RANKS_PER_NODE makes two nodes of this machine. A rank says in a line of JSON how it went.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import native
from shmtensor.distributed.collectives.reference import reduce_arrays
from shmtensor.errors import CollectiveMismatch, CollectiveTimeout, PeerLostError

from ..battery import sweep
from ..ddp.sharded_step import training

LARGE = native.GROUP_INLINE // 4 + 1
Array = Any


def world() -> Any:
    return dist.GroupMember.WORLD.native  # type: ignore[union-attr]


def contract() -> Any:
    """Every collective at every threshold, with dtypes, layouts and operations drawn by a seed."""
    seed = [int(time.time())]
    dist.broadcast_object_list(seed)
    return sweep(seed[0]), world().nodes


def run_every_case() -> Any:
    """All cases of the battery."""
    return sweep()


def bits() -> Any:
    """Sums whose bits depend on the order; in chunks, in both directions of the chain."""
    rank = dist.get_rank()
    results = []
    for dtype, op in [("float32", "SUM"), ("float32", "AVG"), ("bfloat16", "SUM")]:
        x = np.random.default_rng(rank).standard_normal(1_200_003).astype("f4")
        y = st.tensor(x).to(getattr(st, dtype))
        parts = [
            st.tensor(np.random.default_rng(r).standard_normal(1_200_003).astype("f4"))
            .to(getattr(st, dtype))
            .array
            for r in range(dist.get_world_size())
        ]
        dist.all_reduce(y, dist.ReduceOp[op])
        want = reduce_arrays(parts, dist.ReduceOp[op])
        results.append(bool(np.array_equal(y.array.view("u1"), want.view("u1"))))
    return results


def messages() -> Any:
    """Point to point, within a node and between two; either side first; misfitting messages."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for size in (0, 3, LARGE):
        works = []
        boxes = {p: st.zeros(size) for p in range(n) if p != rank}
        for p, box in boxes.items():
            works.append(dist.isend(st.full((size,), float(10 * rank + p)), p))
            works.append(dist.irecv(box, p))
        for work in works:
            work.wait()
        for p, box in boxes.items():
            assert box.tolist() == [float(10 * p + rank)] * size, (rank, p, box)
    dist.barrier()
    if rank == 0:
        received = st.zeros(2)
        sources = sorted(dist.recv(received) for _ in range(n - 1))
        assert sources == list(range(1, n)), sources
    else:
        dist.send(st.ones(2), 0)
    for peer in (1, 3):  # a rank of the same node, and one on the other node
        if rank in (0, peer):
            sides = r"float32 \(3,\).*float64 \(5,\)|float64 \(5,\).*float32 \(3,\)"
            with pytest.raises(CollectiveMismatch, match=sides):
                if rank == 0:
                    dist.send(st.zeros(3), peer, tag=4)
                else:
                    dist.recv(st.zeros(5, dtype=st.float64), 0, tag=4)
    if rank == 2:
        dist.send_object_list([{"a": st.ones(2)}, "b"], 1)
    elif rank == 1:
        objects: list[Any] = [None, None]
        assert dist.recv_object_list(objects, 2) == 2
        assert objects[0]["a"].tolist() == [1.0, 1.0]
    return "done"


def objects() -> Any:
    """Objects with tensors in them; parts of different sizes."""
    rank, n = dist.get_rank(), dist.get_world_size()
    gathered: list[Any] = [None] * n
    dist.all_gather_object(gathered, {"rank": rank, "x": st.full((LARGE,), float(rank))})
    assert [each["rank"] for each in gathered] == list(range(n))
    assert [float(each["x"][-1].item()) for each in gathered] == list(range(n))
    everybody = [f"from {rank}"]
    dist.broadcast_object_list(everybody, 2)
    assert everybody == ["from 2"]
    box: list[Any] = [None]
    dist.scatter_object_list(box, [f"to {r}" for r in range(n)] if rank == 3 else None, 3)
    assert box == [f"to {rank}"]
    for scale in (1, 5_000):
        sends = [scale * (rank + r) for r in range(n)]
        outputs = [st.empty(scale * (p + rank)) for p in range(n)]
        dist.all_to_all(outputs, [st.full((k,), float(rank)) for k in sends])
        assert all(bool((out == float(p)).all()) for p, out in enumerate(outputs))
    return "done"


def groups() -> Any:
    """Subgroups: across nodes, inside one, of one rank; asynchronous work."""
    rank = dist.get_rank()
    results = []
    for ranks in ([0, 2], [0, 1], [1, 2, 3], [3]):
        group: Any = dist.new_group(ranks)
        if rank in ranks:
            for n in (3, LARGE):
                x = st.full((n,), float(rank + 1))
                work = dist.all_reduce(x, group=group, async_op=True)
                work.wait()
                assert x.tolist() == [float(sum(r + 1 for r in ranks))] * n, (ranks, x)
            results.append(ranks)
    x = st.full((LARGE,), float(rank))
    works = [dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True) for _ in range(5)]
    for work in works:
        work.wait()
    assert float(x[-1].item()) == dist.get_world_size() - 1
    return results


def differ() -> Any:
    """A mismatch is an error on every rank, names both sides, and breaks nothing."""
    rank = dist.get_rank()
    texts = []
    for call in (
        lambda: dist.barrier() if rank == 1 else dist.all_reduce(st.zeros(3, 4)),
        lambda: dist.all_reduce(st.zeros(3) if rank == 2 else st.zeros(LARGE)),
        lambda: dist.all_reduce(st.zeros(8) if rank < 2 else st.zeros(4, dtype=st.float64)),
        lambda: dist.all_reduce(st.zeros(8), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM),
        lambda: dist.broadcast(st.zeros(8), rank % 2),
    ):
        try:
            call()
        except CollectiveMismatch as error:
            texts.append(str(error))
    dist.barrier()
    return texts


def shards() -> str:
    """Training on them; the gradient."""
    return training(1e-15).hex()[:4000]


def late() -> Any:
    """A rank that does not come is named at the timeout, on all ranks."""
    if dist.get_rank() == 3:
        time.sleep(2.0)
    group: Any = dist.GroupMember.WORLD
    group.timeout = 0.5
    try:
        dist.all_reduce(st.zeros(3))
    except (CollectiveTimeout, RuntimeError) as error:
        return type(error).__name__, str(error)
    return "came"


def leave() -> Any:
    """Nobody waits for a rank that has left."""
    if dist.get_rank() == 2:
        return "left"
    try:
        dist.all_reduce(st.zeros(3))
    except RuntimeError as error:
        return str(error)
    return "came"


def check_deaths() -> Any:
    """A rank dies while its node's other rank is in no call: a rank on another node notices it."""
    rank = dist.get_rank()
    pair: Any = dist.new_group([0, 3])
    pids: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(pids, os.getpid())
    if rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 2:
        time.sleep(3.0)
        return "knows nothing"
    began = time.monotonic()
    try:
        if rank == 0:
            dist.all_reduce(st.zeros(LARGE), group=pair)
        else:
            dist.recv(st.zeros(3), 3)
    except PeerLostError as error:
        facts = error.pid == pids[3], error.host == os.uname().nodename
        return [error.name, *facts, time.monotonic() - began]
    return "came"


def stop() -> Any:
    """A stopped rank is noticed at the timeout."""
    rank = dist.get_rank()
    dist.barrier()
    if rank == 1:  # runs on, whatever happens to the others
        wake = subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
        wake.wait()
        return "went on"
    group: Any = dist.GroupMember.WORLD
    group.timeout = 0.5
    try:
        dist.all_reduce(st.zeros(LARGE))
    except (CollectiveTimeout, RuntimeError) as error:
        return type(error).__name__, str(error)
    return "came"


def end(how: str, others: str) -> Any:
    """Rank 1 ends while the others wait for it, or do something else for a minute."""
    rank = dist.get_rank()
    dist.barrier()
    if rank != 1:
        dist.barrier() if others == "wait" else time.sleep(60)
        return "went on"
    os.write(1, f"{time.time()}\n".encode())
    if how == "exception":
        raise LookupError("the first cause")
    if how == "sys.exit(1)":
        sys.exit(1)
    if how == "kill -9":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


CASES: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        contract, run_every_case, bits, messages, objects, groups, differ, shards,
        late, leave, check_deaths, stop, end,
    )
}  # fmt: skip


def main() -> None:
    names = [each for each in sys.argv[1:] if "=" not in each]
    settings = dict(each.split("=", 1) for each in sys.argv[1:] if "=" in each)
    dist.init_process_group(os.environ.get("BACKEND", "mpi"), timeout=60)
    rank = dist.get_rank()
    for name in names:
        try:
            record = {"rank": rank, "value": CASES[name](**settings)}
        except LookupError:
            raise
        except Exception as error:
            record = {"rank": rank, "error": f"{name}: {type(error).__name__}: {error}"}
        os.write(1, (json.dumps(record) + "\n").encode())  # one write: lines do not mix
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
