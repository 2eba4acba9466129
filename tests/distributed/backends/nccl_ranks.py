"""The ranks' functions of test_nccl.py and test_nccl_faults.py: each rank has a GPU, of the
stand-in device or of the machine.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed.collectives.reference import ReduceOp, reduce_arrays
from shmtensor.distributed.group.init_process_group import set_default_group
from shmtensor.errors import CollectiveMismatch

from .. import battery
from ..battery import DTYPES, check, is_defined, sample
from ..run_ranks import Outcome, run

LARGE = 40_000
Op = ReduceOp

COUNT = """
import importlib.util
if importlib.util.find_spec("tests"):  # where the sources are in PYTHONPATH
    from tests.cuda.standin.install import install, missing
    missing() or install()
from shmtensor.distributed.backends.nccl.cupy_nccl import find_cupy
print(find_cupy()[0].cuda.runtime.getDeviceCount())
"""


def count_gpus() -> tuple[int, str]:
    """The number of GPUs, or what is missing. Runs in another process: CUDA survives no fork."""
    # In another folder: here `-c` would find the sources before the installed package.
    completed = subprocess.run(
        [sys.executable, "-c", COUNT], capture_output=True, text=True, cwd="/"
    )
    lines = (
        (completed.stdout if completed.returncode == 0 else completed.stderr).strip().splitlines()
    )
    return (int(lines[-1]), "") if completed.returncode == 0 else (0, lines[-1])


RANKS, WHY = count_gpus()
needs_gpus = [
    pytest.mark.slow,
    pytest.mark.skipif(
        RANKS < 2, reason=f"needs two GPUs, finds {RANKS}: {WHY or 'one for each rank'}"
    ),
]


def use_standin() -> Any:
    """CuPy on the stand-in device, in the environment of `make cuda-standin`; its library."""
    if find_spec("tests"):
        from tests.cuda.standin.install import install, missing

        if not missing():
            return install()
    return None


def begin() -> Any:
    """In a rank: tensors are made on its GPU. Returns the stand-in's library, or None."""
    os.environ["LOCAL_RANK"] = str(dist.get_rank())
    library = use_standin()
    battery.FREE_ORDER = True  # NCCL adds in another order
    st.cuda.set_device(dist.get_rank())
    st.set_default_device(f"cuda:{dist.get_rank()}")
    return library


def live(function: Any, *arguments: Any) -> Any:
    """In a rank: the default group uses nccl, and nothing misuses the device."""
    library = begin()
    world: Any = dist.GroupMember.WORLD
    set_default_group(dist.new_group(backend="nccl", timeout=world.timeout))
    value = function(*arguments)
    assert library is None or not library.standin_misuses()
    return value


def on_gpus(ranks: int, function: Any, *arguments: Any, timeout: float = 60.0) -> list[Outcome]:
    # The stand-in device compiles a kernel at its first use: seconds.
    return run(
        live, ranks, function, *arguments, timeout=timeout, patience=250.0, start_method="spawn"
    )


def engine() -> Any:
    world: Any = dist.GroupMember.WORLD
    return world.native


def reductions() -> int:
    """Every dtype with every operation: by NCCL, or by shared memory."""
    on_device = 0
    for dtype in DTYPES:
        for op in Op:
            if is_defined(op, dtype):
                before = engine().statistics()[2]
                check("all_reduce", dtype, "plain", 17, op)
                on_device += engine().statistics()[2] > before
            else:
                with pytest.raises(TypeError, match=op.name):
                    dist.all_reduce(st.tensor(sample(0, dtype, (3,))), op)
    return on_device


def messages() -> Any:
    """All pairs, either side first, with collectives under way; and messages that do not fit."""
    rank, n = dist.get_rank(), dist.get_world_size()
    peers = [p for p in range(n) if p != rank]
    for size in (0, 3, LARGE):
        boxes = {p: st.zeros(size) for p in peers}
        works: list[Any] = [dist.isend(st.full((size,), float(10 * rank + p)), p) for p in peers]
        sums = [st.full((size + 1,), float(rank)) for _ in range(3)]
        for x in sums:
            works.append(dist.all_reduce(x, async_op=True))
        works += [dist.irecv(box, p) for p, box in boxes.items()]
        for work in works:
            work.wait()
        for p, box in boxes.items():
            assert box.tolist() == [float(10 * p + rank)] * size, (rank, p)
        assert all(x.tolist() == [float(sum(range(n)))] * (size + 1) for x in sums)
    dist.barrier()
    if rank == 0:
        received = st.zeros(2)
        assert sorted(dist.recv(received) for _ in peers) == peers
    else:
        dist.send(st.ones(2), 0)
    if rank < 2:
        sides = r"float32 \(3,\).*float64 \(5,\)|float64 \(5,\).*float32 \(3,\)"
        with pytest.raises(CollectiveMismatch, match=sides):
            if rank == 0:
                dist.send(st.zeros(3), 1, tag=4)
            else:
                dist.recv(st.zeros(5, dtype=st.float64), 0, tag=4)
        box = st.zeros(4)
        dist.send(st.ones(4), 1) if rank == 0 else dist.recv(box, 0)
        assert rank == 0 or box.tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="cannot send to itself"):
        dist.send(st.zeros(3), rank)
    return "done"


def objects() -> Any:
    """Objects, lists of different sizes, sparse sums: built on the collectives."""
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank == 1:
        dist.send_object_list(["a", st.ones(2)], 0)
    elif rank == 0:
        received: list[Any] = [None, None]
        dist.recv_object_list(received, 1)
        assert (received[0], received[1].tolist()) == ("a", [1.0, 1.0])
    gathered: list[Any] = [None] * n
    dist.all_gather_object(gathered, {"rank": rank, "x": st.full((LARGE,), float(rank))})
    assert [each["rank"] for each in gathered] == list(range(n))
    assert [float(each["x"][-1].item()) for each in gathered] == list(range(n))
    for scale in (0, 1, 20_000):
        sends = [scale * (rank + r) for r in range(n)]
        outputs = [st.empty(scale * (p + rank)) for p in range(n)]
        dist.all_to_all(outputs, [st.full((k,), float(rank)) for k in sends])
        assert all(bool((out == float(p)).all()) for p, out in enumerate(outputs))
    x = st.zeros(6)
    x[rank] = 1.0 + rank
    sparse = x.to_sparse()
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [float(r + 1) if r < n else 0.0 for r in range(6)]
    return "done"


def differ() -> Any:
    """A mismatch is an error on every rank before NCCL hears of it, and breaks nothing."""
    rank = dist.get_rank()
    texts = []
    for call in (
        lambda: dist.barrier() if rank == 1 else dist.all_reduce(st.zeros(3, 4)),
        lambda: dist.all_reduce(st.zeros(3) if rank == 1 else st.zeros(LARGE)),
        lambda: dist.all_reduce(st.zeros(8) if rank else st.zeros(8, dtype=st.int16)),
        lambda: dist.all_reduce(st.zeros(8), Op.MAX if rank else Op.SUM),
        lambda: dist.broadcast(st.zeros(8), rank % 2),
    ):
        with pytest.raises(CollectiveMismatch) as caught:
            call()
        texts.append(str(caught.value))
    x = st.ones(5)
    dist.all_reduce(x)
    assert x.tolist() == [float(dist.get_world_size())] * 5
    return texts


def groups() -> Any:
    """Groups of some ranks, of shm beside nccl, from several threads."""
    rank, n = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == "nccl"
    results = []
    for backend in (None, "shm", "nccl"):
        for ranks in ([0, 1], [n - 1], list(range(n))):
            group: Any = dist.new_group(ranks, backend=backend)
            if rank not in ranks:
                continue
            assert dist.get_backend(group) == backend or backend is None
            works = []
            for size in (3, LARGE):
                x, y = st.full((size,), rank + 1.0), st.full((size,), rank + 1.0)
                works += [dist.all_reduce(x, group=group, async_op=True)]
                results.append((x, float(sum(r + 1 for r in ranks))))
                works += [dist.all_reduce(y, Op.MAX, async_op=True)] if len(ranks) == n else []
            for work in works:
                work.wait()
    assert all(bool((x == want).all()) for x, want in results)
    return len(results)


def halves() -> Any:
    """16-bit floats travel as they are, and are reduced on the device."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for dtype in (st.float16, st.bfloat16):
        xs = [st.arange(LARGE).remainder(7).add(r).to(dtype) for r in range(n)]
        x, parts = xs[rank].clone(), [each.cpu().array for each in xs]
        before = engine().statistics()[2]
        dist.all_reduce(x)
        assert engine().statistics()[2] - before == x.array.nbytes
        np.testing.assert_array_equal(x.cpu().array, reduce_arrays(parts))
    return "done"


def bits() -> Any:
    """Sums whose bits depend on the order."""
    results = b""
    for size in (5, LARGE, 5 * LARGE):
        x = st.tensor(sample(dist.get_rank(), "float32", (size,)))
        dist.all_reduce(x)
        results += x.cpu().numpy().tobytes()
    return hashlib.sha256(results).hexdigest()


def on_the_cpu() -> list[str]:
    """What a tensor on the CPU, or on another rank's GPU, says in each operation."""
    rank = dist.get_rank()
    x, on_gpu = st.zeros(2, 3, device="cpu"), st.zeros(2, 3)
    texts = []
    for call in (
        lambda: dist.all_reduce(x),
        lambda: dist.broadcast(x, 0),
        lambda: dist.reduce(x, 0),
        lambda: dist.all_gather([x, x], on_gpu),
        lambda: dist.all_gather([on_gpu, on_gpu], x),
        lambda: dist.reduce_scatter(on_gpu, [x, x]),
        lambda: dist.reduce_scatter_tensor(x, st.zeros(4, 3)),
        lambda: dist.all_to_all([on_gpu, on_gpu], [x, x]),
        lambda: dist.all_to_all_single(x, on_gpu),
        lambda: dist.all_to_all_single(on_gpu, x, [1, 1], [1, 1]),
        lambda: dist.scatter(x, [on_gpu, on_gpu] if rank == 0 else None, 0),
        lambda: dist.send(x, 1 - rank),
        lambda: dist.recv(x, 1 - rank),
        lambda: dist.all_reduce(np.zeros((2, 3), np.float32)),
        lambda: st.nn.parallel.DistributedDataParallel(st.nn.Linear(2, 3, device="cpu")),
    ):
        with pytest.raises(RuntimeError, match="the backend nccl takes tensors on a GPU") as caught:
            call()
        texts.append(str(caught.value))
    dist.all_reduce(on_gpu)  # nothing is broken
    return texts


def elsewhere() -> str:
    x = st.zeros(3, device=f"cuda:{1 - dist.get_rank()}")
    with pytest.raises(ValueError, match="the tensor is on another GPU") as caught:
        dist.all_reduce(x)
    return str(caught.value)
