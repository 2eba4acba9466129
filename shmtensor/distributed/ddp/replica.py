"""Replica: the parameters and buffers of a model that every rank has a copy of."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from ... import native
from ...errors import CollectiveMismatch
from ...memory.layout import empty_shared
from ..group.operands import Array, array_of
from ..group.process_group import ProcessGroup

__all__ = ["Replica", "broadcast_buffers", "is_common", "take_over", "verify"]


@dataclass(frozen=True)
class Replica:
    """Parameters and buffers with their names."""

    parameters: list[tuple[str, Any]]
    buffers: list[tuple[str, Any]]

    def everything(self) -> list[tuple[str, Any]]:
        return [*self.parameters, *self.buffers]


def verify(group: ProcessGroup, replica: Replica) -> None:
    """All ranks have the same names, shapes and dtypes.

    Raises:
        CollectiveMismatch: not so; names the first difference.
    """
    kinds = [
        f"{name}: {array_of('', x).dtype} {tuple(x.shape)}" for name, x in replica.everything()
    ]
    own = np.frombuffer(blake2b("\n".join(kinds).encode(), digest_size=32).digest(), np.uint8)
    everybody = np.empty((group.size(), 32), np.uint8)
    group.native.all_gather(list(everybody), own, group.timeout)
    if (everybody == everybody[0]).all():
        return
    from ..collectives.object_collectives import all_gather_object

    lists: list[Any] = [None] * group.size()
    all_gather_object(lists, kinds, group)
    for rank, theirs in enumerate(lists):
        for i in range(max(len(theirs), len(lists[0]))):
            ours, other = (x[i] if i < len(x) else "nothing" for x in (lists[0], theirs))
            if ours != other:
                raise CollectiveMismatch(
                    f"DistributedDataParallel: models differ: rank 0 has {ours}, "
                    f"rank {rank} has {other}"
                )


def take_over(group: ProcessGroup, replica: Replica, root: int) -> None:
    """Everybody gets the values of rank `root`; memory that several ranks have becomes each one's
    own.
    """
    for _, x in replica.everything():
        array = array_of("DistributedDataParallel", x)
        if group.size() > 1 and is_common(group, array):
            array = empty_shared(array.shape, array.dtype)
            np.copyto(array, x.array)
            x.array = array
        staged = group.writable(array)
        group.native.broadcast(staged, root, group.timeout)
        group.copy_back(array, staged)


def is_common(group: ProcessGroup, array: Array) -> bool:
    """Whether another rank of lower number has this very memory."""
    place = np.zeros(32, np.uint8)
    if native.is_shared(array) and array.nbytes:
        handle = native.export(array)
        native.acknowledge(handle)
        # slot, incarnation, block; generation (Handle in native/memory/ledger/ledger.h), and the
        # place in the block
        offset = array.__array_interface__["data"][0] - native.block_of(array)[0]
        place[:] = np.frombuffer(
            handle[16:28] + handle[32:40] + offset.to_bytes(12, "little"), np.uint8
        )
    everybody = np.empty((group.size(), place.size), np.uint8)
    group.native.all_gather(list(everybody), place, group.timeout)
    return bool(place.any() and (everybody[: group.rank()] == place).all(axis=1).any())


def broadcast_buffers(group: ProcessGroup, replica: Replica, root: int) -> None:
    """All ranks take over the buffers of one."""
    for _, buffer in replica.buffers:
        staged = group.writable(buffer.array)
        group.native.broadcast(staged, root, group.timeout)
        group.copy_back(buffer.array, staged)
