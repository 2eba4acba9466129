"""Several collectives as one Work.

with _coalescing_manager(async_ops=True) as manager:
    for x in xs:
        all_reduce(x)            recorded, not run
manager.wait()                   all have run, in that order
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from ..group.work import Work
from ..group.world import group_of
from .collectives import Group, Op, all_gather, all_reduce
from .reference import ReduceOp

if TYPE_CHECKING:
    from .collectives import Operand


class CoalescingManager:
    """The work of a `_coalescing_manager`; it is set when the `with` block ends."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def wait(self, timeout: float | timedelta | None = None) -> None:
        """Returns when all is done; raises what went wrong."""
        for work in self.works:
            work.wait(timeout)


@contextmanager
def _coalescing_manager(
    group: Group = None, device: None = None, async_ops: bool = False
) -> Iterator[CoalescingManager]:
    """The group's collectives called inside run when the block ends, in their order, as one Work.
    After an exception inside none runs.

    Args:
        async_ops: the block ends at once; call `wait()` of the manager.

    Raises:
        ValueError: another one of this group is open.
    """
    pg = group_of("_coalescing_manager", group)
    if pg.deferred is not None:
        raise ValueError(
            "_coalescing_manager: one of this group is open already, with "
            f"{len(pg.deferred)} collectives"
        )
    calls: list[tuple[Callable[[], object], object]] = []
    manager = CoalescingManager()
    pg.deferred = calls
    try:
        yield manager
    finally:
        pg.deferred = None

    def call() -> None:
        for each, _ in calls:
            each()

    work = pg.issue(call, async_ops, [result for _, result in calls])
    if work is not None:
        manager.works.append(work)


def work_of(manager: CoalescingManager) -> Work | None:
    return manager.works[0] if manager.works else None


def all_reduce_coalesced(
    tensors: Sequence[Operand], op: Op = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of each tensor of a list.

    Parameters
    ----------
    tensors : sequence of Tensor
        Overwritten by the results.
    op : ReduceOp, optional
        How two values are combined.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.

    Returns
    -------
    Work or None
        One Work for all if `async_op`.

    See Also
    --------
    all_reduce

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.all_reduce_coalesced([st.ones(2), st.ones(3)])
    >>> dist.destroy_process_group()
    """
    with _coalescing_manager(group, async_ops=async_op) as manager:
        for x in tensors:
            all_reduce(x, op, group)
    return work_of(manager)


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Operand]],
    input_tensor_list: Sequence[Operand],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes rank r's `input_tensor_list[i]` into everybody's `output_tensor_lists[r][i]`.

    Parameters
    ----------
    output_tensor_lists : list of list of Tensor
        A list for each rank.
    input_tensor_list : list of Tensor
        As long as each of them.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    Raises
    ------
    ValueError
        Not a list for each rank, or one of another length.

    See Also
    --------
    all_gather

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> out = [[st.empty(2), st.empty(1)]]
    >>> dist.all_gather_coalesced(out, [st.ones(2), st.zeros(1)])
    >>> out
    [[tensor([1., 1.]), tensor([0.])]]
    >>> dist.destroy_process_group()
    """
    pg = group_of("all_gather_coalesced", group)
    lengths = [len(outputs) for outputs in output_tensor_lists]
    if lengths != [len(input_tensor_list)] * pg.size():
        raise ValueError(
            f"all_gather_coalesced: there are not {pg.size()} lists of "
            f"{len(input_tensor_list)} outputs: {lengths}"
        )
    with _coalescing_manager(group, async_ops=async_op) as manager:
        for outputs, x in zip(
            zip(*output_tensor_lists, strict=True), input_tensor_list, strict=True
        ):
            all_gather(outputs, x, group)
    return work_of(manager)
