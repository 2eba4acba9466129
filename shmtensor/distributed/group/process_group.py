"""ProcessGroup: one rank's end of a group of processes. It stages operands that are not in shared
memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import native
from ...errors import DomainError
from ...memory.layout import empty_shared
from .gpu_operands import (
    after_queued_work,
    assign,
    contiguous_on_gpu,
    host_copy,
    is_on_gpu,
)
from .operands import Array
from .process_group_methods import GroupMethods
from .work import Lane, Work

__all__ = ["GroupStatistics", "ProcessGroup"]


@dataclass(frozen=True)
class GroupStatistics:
    """Counts of one rank's work in a group.

    Attributes:
        collectives: how many collectives this rank has taken part in.
        bytes_inline: bytes that this rank copied through the group's block (small operands).
        bytes_staged: bytes that this rank copied because an operand was not contiguous in shared
            memory.
    """

    collectives: int
    bytes_inline: int
    bytes_staged: int


def identity_of(block: native.Block) -> str:
    """An id of the block, the same in all processes. A later block in the same slot has another."""
    handle = native.export(block)
    native.acknowledge(handle)
    # domain, slot, incarnation, block; generation (Handle in native/memory/ledger/ledger.h)
    return (handle[:28] + handle[32:40]).hex()


class ProcessGroup(GroupMethods):
    """One rank's end of a group, created by `init_process_group` and `new_group`. One thread may
    use it at a time.

    Attributes:
        ranks: the members' ranks in the default group, in the order of their ranks in this group.
        timeout: seconds that a collective waits for the others; negative: no limit.
        group_desc: the description passed to `new_group`; "default_pg" of the default group.
        identity: the same on all ranks, and different for each group; "" if the ranks share no
            block.
        domain_blocks: a block of each domain in which members had tensors when the default group
            began; () if there is one domain.
        is_on_gpus: whether the operands are on GPUs, all of them.
        deferred: calls and results of the collectives that wait for the end of a
            `_coalescing_manager`.
    """

    def __init__(
        self,
        engine: Any,
        timeout: float,
        ranks: list[int],
        block: native.Block | None = None,
        domain_blocks: tuple[native.Block, ...] = (),
    ) -> None:
        self.native = engine  # native.Group, or another backend's with its methods
        self.domain_blocks = domain_blocks
        self.is_on_gpus = getattr(engine, "device_type", "cpu") == "cuda"
        self._reaches: Callable[[Array], bool] = getattr(engine, "reaches", native.is_shared)
        self.timeout = timeout
        self.ranks = ranks
        self.backend = "shm"
        self.group_desc = "undefined"
        self.bound_device_id: Any = None  # PyTorch's attribute: the GPU that a group is bound to
        self.identity = "" if block is None else identity_of(block)
        self.deferred: list[tuple[Callable[[], object], object]] | None = None
        self._staged = 0
        self._lanes: dict[tuple[str, int], Lane] = {}

    # ---------------------------------------------------------------- now or on a lane
    def issue(
        self,
        call: Callable[[], object],
        async_op: bool,
        result: object,
        operands: Any = None,
        defers: bool = True,
    ) -> Work | None:
        """Runs a collective: at once, or after those that are under way.

        Args:
            result: what its Work gives.
            operands: tensors on the GPUs that it uses; None: `result`.
            defers: within a `_coalescing_manager` it runs at the end of that.
        """
        call = after_queued_work(call, result if operands is None else operands)
        if self.deferred is not None and defers:
            self.deferred.append((call, result))
            return None
        lane = self._lanes.get(("collectives", -1)) if not async_op else self.lane("collectives")
        if not async_op and (lane is None or lane.is_idle()):
            call()
            return None
        assert lane is not None
        work = lane.put(Work(call, result))
        if async_op:
            return work
        work.wait()
        return None

    def lane(self, what: str, peer: int = -1) -> Lane:
        """The lane of the collectives, or of the messages to or from a rank."""
        lane = self._lanes.get((what, peer))
        if lane is None:
            lane = self._lanes[what, peer] = Lane(f"shmtensor-{what}-{peer}")
        return lane

    def busy_lane(self, what: str, peer: int) -> Lane | None:
        """The lane of these messages if it is not idle."""
        lane = self._lanes.get((what, peer))
        return None if lane is None or lane.is_idle() else lane

    def rank(self) -> int:
        return int(self.native.rank)

    def size(self) -> int:
        return int(self.native.world)

    def name(self) -> str:
        return self.backend

    @property
    def group_name(self) -> str:
        """The same as `identity`, by PyTorch's name."""
        return self.identity

    @property
    def spans_nodes(self) -> bool:
        """Whether some ranks share no memory."""
        return getattr(self.native, "spans_nodes", False)

    def rank_of(self, where: str, global_rank: int) -> int:
        """The rank in this group of a rank of the default group."""
        try:
            return self.ranks.index(global_rank)
        except ValueError:
            raise ValueError(
                f"{where}: the rank is not in the group: {global_rank}, the group has {self.ranks}"
            ) from None

    def readable(self, array: Array, any_size: bool = False) -> Array:
        """The same values in memory that the peers can read. Copies: none, or one if the array is
        not contiguous in shared memory.

        Raises:
            RuntimeError: the group takes only tensors on a GPU.
            DomainError: the peers do not reach this process's own memory.
        """
        if self.is_on_gpus:
            self.check_on_gpu(array)
            return contiguous_on_gpu(array)
        if is_on_gpu(array):
            self._staged += array.nbytes
            return host_copy(array)
        return self.shared(array, any_size)

    def shared(self, array: Array, any_size: bool = False) -> Array:
        """As `readable`, of an array on the host. The library's own data are such in any group."""
        small = array.nbytes <= native.GROUP_INLINE and not any_size
        if array.flags.c_contiguous and (small or self._reaches(array)):
            return array
        staged = empty_shared(array.shape, array.dtype)
        if not small and not self._reaches(staged):
            raise DomainError(
                "distributed: the memory of this process is not shared with the group: pid "
                f"{os.getpid()}, rank {self.rank()} of {self.size()}: start all ranks anew"
            )
        np.copyto(staged, array)
        self._staged += array.nbytes
        return staged

    def writable(self, array: Array, any_size: bool = False) -> Array:
        """Like `readable`, for a result; `copy_back` writes it to the array."""
        if not is_on_gpu(array) and not array.flags.writeable:
            raise ValueError(f"distributed: the tensor is read-only: shape {array.shape}")
        return self.readable(array, any_size)

    def copy_back(self, array: Array, staged: Array) -> None:
        if staged is not array:
            assign(array, staged)

    def check_on_gpu(self, array: Array) -> None:
        """Raises RuntimeError for an array on the host."""
        if not is_on_gpu(array):
            raise RuntimeError(
                f"distributed: the backend {self.backend} takes tensors on a GPU: {array.dtype} "
                f"{array.shape} is on the CPU, move it with .cuda(), or use a group of the backend "
                'shm: new_group(backend="shm")'
            )

    def statistics(self) -> GroupStatistics:
        number, inline, _ = self.native.statistics()
        return GroupStatistics(number, inline, self._staged)

    def close(self) -> None:
        """Leaves the group: ranks that wait for this one get an error."""
        self.native.leave()
