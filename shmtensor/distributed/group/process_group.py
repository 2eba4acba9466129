"""ProcessGroup: one rank's end of a group of processes. It stages operands that are not in shared
memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import native
from ...errors import DomainError
from ...memory.layout import empty_shared
from ..collectives.reference import PremulSum, ReduceOp
from .cuda_operands import after_queued_work, assign, contiguous_on_gpu, host_copy, is_on_gpu
from .operands import Array
from .work import Lane, Work


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


def identity_of(memory: native.Block | Array) -> bytes:
    """An id of a block, or of that of an array, the same in all processes. A later block in the
    same slot has another.
    """
    handle = native.export(memory)
    native.acknowledge(handle)
    # domain, slot, incarnation, block; generation (Handle in native/memory/ledger/ledger.h)
    return handle[:28] + handle[32:40]


class Functions:
    """What the methods call: collectives.py and send_recv.py set their functions here."""

    all_gather: Callable[..., Work | None]
    all_reduce: Callable[..., Work | None]
    barrier: Callable[..., Work | None]
    broadcast: Callable[..., Work | None]
    reduce: Callable[..., Work | None]
    irecv: Callable[..., Work]
    isend: Callable[..., Work]


functions = Functions()


def single_tensor(where: str, tensors: Any) -> Any:
    """The tensor of a list of one, which PyTorch's methods take; a tensor is returned as it is."""
    if not isinstance(tensors, (list, tuple)):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{where}: takes a tensor or a list of one: got {len(tensors)}")
    return tensors[0]


class ProcessGroup:
    """One rank's end of a group, created by `init_process_group` and `new_group`. One thread may
    use it at a time.

    Parameters
    ----------
    engine : object
        The backend's end.
    timeout : float
        Seconds that a collective waits for the others; negative: no limit.
    ranks : list of int
        The members' ranks in the default group, in the order of their ranks in this group.
    block : Block, optional
        The memory that the ranks share.
    domain_blocks : tuple of Block, optional
        A block of each domain in which members had tensors when the default group began; () if
        there is one domain.

    Attributes
    ----------
    group_desc : str
        The description passed to `new_group`; "default_pg" of the default group.
    identity : str
        The same on all ranks, and different for each group; "" if the ranks share no block.
    is_on_gpus : bool
        Whether the operands are on GPUs, all of them.
    deferred : list
        Calls and results of the collectives that wait for the end of a `_coalescing_manager`.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = st.tensor([1.0, 2.0])
    >>> dist.group.WORLD.allreduce([x], dist.ReduceOp.SUM).wait()
    True
    >>> dist.destroy_process_group()
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
        self.identity = "" if block is None else identity_of(block).hex()
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
        lane: tuple[str, int] = ("collectives", -1),
    ) -> Work | None:
        """Runs a collective or sends a message: at once, or after those that are under way on its
        lane.

        Args:
            result: what its Work gives.
            operands: tensors on the GPUs that it uses; None: `result`.
            defers: within a `_coalescing_manager` it runs at the end of that.
            lane: that of the collectives; or "to" or "from" and a rank: of these messages.
        """
        call = after_queued_work(call, result if operands is None else operands)
        if self.deferred is not None and defers:
            self.deferred.append((call, result))
            return None
        queue = self._lanes.get(lane)
        if not async_op and (queue is None or queue.is_idle()):
            call()
            return None
        if queue is None:
            queue = self._lanes[lane] = Lane("shmtensor-{}-{}".format(*lane))
        work = queue.put(Work(call, result))
        if async_op:
            return work
        work.wait()
        return None

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

    # ---------------------------------------------------------------- PyTorch's methods
    # Each calls the function of that name with `async_op=True` and returns its Work (None inside a
    # `_coalescing_manager`). Ranks are those in the group. A tensor may come alone or in a list of
    # one. Errors are those of the functions, raised by `wait()` if the call had begun.
    def allreduce(self, tensors: Any, op: ReduceOp | PremulSum | None = None) -> Work | None:
        """`all_reduce`; None: SUM."""
        x = single_tensor("allreduce", tensors)
        return functions.all_reduce(x, op or ReduceOp.SUM, self, True)

    def broadcast(self, tensors: Any, root: int = 0) -> Work | None:
        """`broadcast` of rank `root`."""
        x = single_tensor("broadcast", tensors)
        return functions.broadcast(x, None, self, True, root)

    def reduce(
        self, tensors: Any, root: int = 0, op: ReduceOp | PremulSum | None = None
    ) -> Work | None:
        """`reduce` into rank `root`; None: SUM."""
        x = single_tensor("reduce", tensors)
        return functions.reduce(x, None, op or ReduceOp.SUM, self, True, root)

    def allgather(self, output_tensors: Sequence[Any], input_tensors: Any) -> Work | None:
        """`all_gather`: the outputs are a list of tensors, or such a list in a list of one."""
        nested = len(output_tensors) == 1 and isinstance(output_tensors[0], (list, tuple))
        outputs = output_tensors[0] if nested else output_tensors
        x = single_tensor("allgather", input_tensors)
        return functions.all_gather(outputs, x, self, True)

    def barrier(self) -> Work | None:
        """`barrier`."""
        return functions.barrier(self, True)

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """`isend` to rank `dst`."""
        return functions.isend(single_tensor("send", tensors), None, self, tag, dst)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """`irecv` from rank `src`."""
        return functions.irecv(single_tensor("recv", tensors), None, self, tag, src)
