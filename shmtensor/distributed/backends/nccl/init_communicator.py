"""How a group on GPUs begins: which rank uses which GPU, and NCCL's communicator.

```
 every rank   its GPU, or what is missing    -> all, by shared memory
 rank 0       the communicator's unique id                          -> all
 all          if anything is missing on a rank, all raise; each GPU belongs to one rank
 every rank   creates the communicator, which waits for all ranks: in a thread that is watched
```
"""

from __future__ import annotations

import threading
import time
from math import inf
from typing import Any

from .... import native
from ....errors import CollectiveTimeout
from ...rendezvous.find_group import all_gather_json, create_block
from .backend import Engine
from .communicator import Communicator
from .cupy_nccl import find_cupy, find_device
from .member import CHECK_INTERVAL, remaining_seconds


def init_engine(control: native.Group, timeout: float, rank: int) -> Engine:
    """This rank's end of a group on GPUs, whose ranks share memory already; waits for all.

    Args:
        control: the group in shared memory.
        timeout: seconds, negative for none.
        rank: this process's rank in the default group, which selects its GPU.

    Raises:
        RuntimeError: CuPy, NCCL or a GPU is missing on some rank; all ranks raise it.
    """
    where = "init_process_group"
    end = inf if timeout < 0 else time.monotonic() + timeout
    info: dict[str, Any] = {}
    try:
        cupy, nccl = find_cupy()
        index, info["gpu"] = find_device(cupy, rank)
        if control.rank == 0:
            unique = nccl.get_unique_id()  # bytes since CuPy 14, a tuple of numbers before
            info["id"], info["is_bytes"] = list(unique), isinstance(unique, bytes)
    except Exception as error:
        info["lacks"] = f"{type(error).__name__}: {error}"[:1024]
    infos = all_gather_json(control.all_gather, control.world, info, remaining_seconds(end))
    check_gpus(where, infos)
    numbers = infos[0]["id"]
    unique = bytes(numbers) if infos[0]["is_bytes"] else tuple(numbers)
    comm = create_communicator(control, cupy, nccl, index, unique, end)
    device = cupy.cuda.Device(index)
    communicator = Communicator(cupy, nccl, device, comm, control.rank, control.world)
    answers, turns = duplicate_group(control, end), duplicate_group(control, end)
    return Engine(control, answers, turns, communicator)


def check_gpus(where: str, infos: list[dict[str, Any]]) -> None:
    """Checks that each rank has a GPU for itself.

    Raises:
        RuntimeError: a rank has none, or shares one; the same error on all ranks.
    """
    for rank, each in enumerate(infos):
        if "lacks" in each:
            raise RuntimeError(f"{where}: rank {rank}: {each['lacks']}")
    users: dict[str, list[int]] = {}
    for rank, each in enumerate(infos):
        users.setdefault(each["gpu"], []).append(rank)
    for gpu, ranks in users.items():
        if len(ranks) > 1:
            raise RuntimeError(
                f"{where}: the backend nccl needs a GPU for each rank: ranks {ranks} of "
                f"{len(infos)} have the same, {gpu}; LOCAL_RANK or CUDA_VISIBLE_DEVICES says which"
            )


def create_communicator(
    control: native.Group,
    cupy: Any,
    nccl: Any,
    index: int,
    unique: bytes | tuple[int, ...],
    end: float,
) -> Any:
    """NCCL's communicator. Its constructor waits for all ranks without a limit, so it runs in a
    thread, which is abandoned when a rank dies or fails, or at the timeout.
    """
    results: list[Any] = []

    def make() -> None:
        try:
            with cupy.cuda.Device(index):
                results.append(nccl.NcclCommunicator(control.world, unique, control.rank))
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=make, name="shmtensor-nccl", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(CHECK_INTERVAL)
        if control.is_broken:
            control.barrier(0.0)  # raises the cause
        for rank in range(control.world):
            if not control.is_alive(rank):
                control.raise_lost("init_process_group", rank)
        if time.monotonic() > end:
            raise CollectiveTimeout("init_process_group: NCCL has not brought all ranks together")
    if isinstance(results[0], Exception):
        control.break_off(f"{type(results[0]).__name__}: {results[0]}")
        raise results[0]
    return results[0]


def duplicate_group(control: native.Group, end: float) -> native.Group:
    """Another group of the same ranks."""
    handle = b""
    if control.rank == 0:
        block, handle = create_block(control.world)
    info = {"block": handle.hex()}
    infos = all_gather_json(control.all_gather, control.world, info, remaining_seconds(end))
    if not handle:
        block = native.receive(bytes.fromhex(infos[0]["block"]), False)
    group = native.Group(block, control.rank, control.world)
    control.barrier(remaining_seconds(end))  # all hold the block: the pin may go
    if handle:
        native.acknowledge(handle)
    return group
