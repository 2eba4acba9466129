"""How a group begins on GPUs: who uses which, and NCCL's communicator.

```
 every rank   its row in the domain, its GPU, or what it lacks      -> all, by shared memory
 all          what one lacks is an error on every rank; a GPU is one rank's alone
 rank 0       the communicator's unique id                          (in what it said)
 every rank   makes the communicator, which waits for all of them: in a thread, watched
```
"""

from __future__ import annotations

import threading
import time
from math import inf
from typing import Any

from .... import native
from ....errors import CollectiveTimeout
from ...rendezvous.find_group import create_block, exchange_text
from .backend import Engine
from .begin_and_fail import LOOK, rest_of
from .communicator import Communicator
from .cupy_nccl import find_cupy, find_device

__all__ = ["begin"]


def begin(control: native.Group, timeout: float, rank: int) -> Engine:
    """This rank's end of a group on GPUs, whose ranks share memory already; waits for all.

    Args:
        control: the group in shared memory.
        timeout: seconds, negative for none.
        rank: this rank in the default group, by which its GPU is found.

    Raises:
        RuntimeError: CuPy, NCCL or a GPU is missing on some rank; all ranks raise it.
    """
    where = "init_process_group"
    end = inf if timeout < 0 else time.monotonic() + timeout
    found: Any = None
    mine: dict[str, Any] = {"row": native.row()}
    try:
        found = cupy, nccl, index = find_gpu(rank, mine)
        if control.rank == 0:
            mine["id"] = nccl.get_unique_id()
    except Exception as error:
        mine["lacks"] = f"{type(error).__name__}: {error}"[:1024]
    said = exchange_text(control.all_gather, control.world, mine, rest_of(end))
    check_gpus(where, said)
    cupy, nccl, index = found
    kin = [(int(row), int(inc)) for row, inc in (each["row"] for each in said)]
    inner = connect(control, cupy, nccl, index, tuple(said[0]["id"]), kin, end)
    device = cupy.cuda.Device(index)
    communicator = Communicator(cupy, nccl, device, inner, control.rank, control.world)
    answers, turns = branch(control, end), branch(control, end)
    return Engine(control, answers, turns, communicator, kin)


def find_gpu(rank: int, mine: dict[str, Any]) -> tuple[Any, Any, int]:
    """CuPy, its NCCL, and the number of this rank's GPU, whose name goes into what it says."""
    cupy, nccl = find_cupy()
    index, mine["gpu"] = find_device(cupy, rank)
    return cupy, nccl, index


def check_gpus(where: str, said: list[dict[str, Any]]) -> None:
    """Each rank has a GPU, and no other rank has it.

    Raises:
        RuntimeError: not so; the same on all ranks.
    """
    for rank, each in enumerate(said):
        if "lacks" in each:
            raise RuntimeError(f"{where}: rank {rank}: {each['lacks']}")
    users: dict[str, list[int]] = {}
    for rank, each in enumerate(said):
        users.setdefault(each["gpu"], []).append(rank)
    for gpu, ranks in users.items():
        if len(ranks) > 1:
            raise RuntimeError(
                f"{where}: the backend nccl needs a GPU for each rank: ranks {ranks} of "
                f"{len(said)} have the same, {gpu}; LOCAL_RANK or CUDA_VISIBLE_DEVICES says which"
            )


def connect(
    control: native.Group,
    cupy: Any,
    nccl: Any,
    index: int,
    unique: tuple[int, ...],
    kin: list[tuple[int, int]],
    end: float,
) -> Any:
    """NCCL's communicator. It waits for all ranks and would for ever: so a thread does it, which
    is given up when a rank dies or fails, or at the timeout.
    """
    made: list[Any] = []

    def make() -> None:
        try:
            with cupy.cuda.Device(index):
                made.append(nccl.NcclCommunicator(control.world, unique, control.rank))
        except Exception as error:
            made.append(error)

    thread = threading.Thread(target=make, name="shmtensor-nccl", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(LOOK)
        if control.is_broken:
            control.barrier(0.0)  # raises why
        for row, inc in kin:
            if native.liveness(row, inc) != "alive":
                native.raise_peer_lost("init_process_group", row, inc)
        if time.monotonic() > end:
            raise CollectiveTimeout("init_process_group: NCCL has not brought all ranks together")
    if isinstance(made[0], Exception):
        control.break_off(f"{type(made[0]).__name__}: {made[0]}")
        raise made[0]
    return made[0]


def branch(control: native.Group, end: float) -> native.Group:
    """Another group of the same ranks."""
    own = b""
    if control.rank == 0:
        block, own = create_block(control.world)
    text = {"block": own.hex()}
    told = exchange_text(control.all_gather, control.world, text, rest_of(end))
    if not own:
        block = native.receive(bytes.fromhex(told[0]["block"]), False)
    made = native.Group(block, control.rank, control.world)
    control.barrier(rest_of(end))  # all have their hold: the pin may go
    if own:
        native.acknowledge(own)
    return made
