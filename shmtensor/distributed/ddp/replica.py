"""Replica: the parameters and buffers of a model; every rank has a copy."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from ... import native
from ...errors import CollectiveMismatch
from ...memory.layout import empty_shared
from ..group.cuda_operands import after_queued_work, is_on_gpu
from ..group.operands import Array, array_of
from ..group.process_group import ProcessGroup, identity_of

MANY = 1_000_000


@dataclass(frozen=True)
class Replica:
    """Parameters and buffers with their names."""

    parameters: list[tuple[str, Any]]
    buffers: list[tuple[str, Any]]

    def tensors(self) -> list[tuple[str, Any]]:
        return [*self.parameters, *self.buffers]


def current_tensors(module: Any, table: str) -> list[Any]:
    """The tensors of a module and its submodules as they are now, level by level; those of shared
    modules several times. Faster than `named_parameters`, because each forward asks.

    Args:
        table: "_parameters" or "_buffers".
    """
    tensors: list[Any] = []
    modules = [module]
    for each in modules:
        if each is None:
            continue
        attributes = each.__dict__
        if attributes[table]:
            tensors += attributes[table].values()
        if attributes["_modules"]:
            modules += attributes["_modules"].values()
            if len(modules) > MANY:  # a module within itself: `modules` visits each once
                lists = [m.__dict__[table].values() for m in module.modules()]
                return [x for values in lists for x in values if x is not None]
    return [x for x in tensors if x is not None]


def check_same_model(group: ProcessGroup, replica: Replica) -> None:
    """Checks that all ranks have the same names, shapes and dtypes.

    Raises:
        CollectiveMismatch: they do not; it names the first difference.
    """
    lines = [f"{name}: {array_of('', x).dtype} {tuple(x.shape)}" for name, x in replica.tensors()]
    digest = np.frombuffer(blake2b("\n".join(lines).encode(), digest_size=32).digest(), np.uint8)
    digests = np.empty((group.size(), 32), np.uint8)
    group.native.all_gather(list(digests), digest, group.timeout)
    if (digests == digests[0]).all():
        return
    from ..collectives.object_collectives import all_gather_object

    lists: list[Any] = [None] * group.size()
    all_gather_object(lists, lines, group)
    for rank, theirs in enumerate(lists):
        for i in range(max(len(theirs), len(lists[0]))):
            ours, other = (x[i] if i < len(x) else "nothing" for x in (lists[0], theirs))
            if ours != other:
                raise CollectiveMismatch(
                    f"DistributedDataParallel: models differ: rank 0 has {ours}, "
                    f"rank {rank} has {other}"
                )


def copy_from_root(group: ProcessGroup, replica: Replica, root: int) -> None:
    """Copies the values of rank `root` to all ranks. Memory that several ranks share is replaced by
    copies, so that each rank has its own.
    """
    for _, x in replica.tensors():
        array = array_of("DistributedDataParallel", x)
        if group.size() > 1 and is_shared_with_lower_rank(group, array):
            array = empty_shared(array.shape, array.dtype)
            np.copyto(array, x.array)
            x.array = array
        broadcast(group, array, root)


def broadcast(group: ProcessGroup, array: Array, root: int) -> None:
    """Copies the values of rank `root` to an array."""

    def call() -> None:
        staged = group.writable(array)
        group.native.broadcast(staged, root, group.timeout)
        group.copy_back(array, staged)

    after_queued_work(call, [array])()


def is_shared_with_lower_rank(group: ProcessGroup, array: Array) -> bool:
    """Whether a lower rank has the same memory."""
    key = np.zeros(48, np.uint8)
    if not is_on_gpu(array) and native.is_shared(array) and array.nbytes:
        offset = array.__array_interface__["data"][0] - native.block_of(array)[0]
        key[:] = np.frombuffer(identity_of(array) + offset.to_bytes(12, "little"), np.uint8)
    keys = np.empty((group.size(), key.size), np.uint8)
    group.native.all_gather(list(keys), key, group.timeout)
    return bool(key.any() and (keys[: group.rank()] == key).all(axis=1).any())
