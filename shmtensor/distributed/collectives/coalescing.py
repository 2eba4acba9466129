"""Several collectives as one piece of work.

with _coalescing_manager(async_ops=True) as together:
    for x in xs:
        all_reduce(x)            asked for, not done
together.wait()                  all done, in that order
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

__all__ = ["_coalescing_manager", "all_gather_coalesced", "all_reduce_coalesced"]


class Together:
    """The work of a `_coalescing_manager`; there once its `with` has ended."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def wait(self, timeout: float | timedelta | None = None) -> None:
        """Returns when all is done; raises what went wrong."""
        for work in self.works:
            work.wait(timeout)


@contextmanager
def _coalescing_manager(
    group: Group = None, device: None = None, async_ops: bool = False
) -> Iterator[Together]:
    """Collectives of the group asked for inside are done when it ends, in their order, as one Work.
    After an exception inside none is.

    Args:
        async_ops: it ends at once; `wait()` on what `as` names.

    Raises:
        ValueError: there is one of this group around it.
    """
    found = group_of("_coalescing_manager", group)
    if found.deferred is not None:
        raise ValueError(
            "_coalescing_manager: one of this group is open already, with "
            f"{len(found.deferred)} collectives"
        )
    calls: list[tuple[Callable[[], object], object]] = []
    together = Together()
    found.deferred = calls
    try:
        yield together
    finally:
        found.deferred = None

    def call() -> None:
        for each, _ in calls:
            each()

    work = found.issue(call, async_ops, [result for _, result in calls])
    if work is not None:
        together.works.append(work)


def work_of(together: Together) -> Work | None:
    return together.works[0] if together.works else None


def all_reduce_coalesced(
    tensors: Sequence[Operand],
    op: Op = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """`all_reduce` of each tensor of a list; with `async_op` there is one Work for all."""
    with _coalescing_manager(group, async_ops=async_op) as together:
        for x in tensors:
            all_reduce(x, op, group)
    return work_of(together)


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Operand]],
    input_tensor_list: Sequence[Operand],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes rank r's `input_tensor_list[i]` into everybody's `output_tensor_lists[r][i]`.

    Raises:
        ValueError: not a list for each rank, or one of another length.
    """
    found = group_of("all_gather_coalesced", group)
    lengths = [len(outputs) for outputs in output_tensor_lists]
    if lengths != [len(input_tensor_list)] * found.size():
        raise ValueError(
            f"all_gather_coalesced: there are not {found.size()} lists of "
            f"{len(input_tensor_list)} outputs: {lengths}"
        )
    with _coalescing_manager(group, async_ops=async_op) as together:
        for outputs, x in zip(
            zip(*output_tensor_lists, strict=True), input_tensor_list, strict=True
        ):
            all_gather(outputs, x, group)
    return work_of(together)
