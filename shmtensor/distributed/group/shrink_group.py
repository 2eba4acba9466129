"""shrink_group: a smaller group of those who are left, for example after a death.

The old group is broken then, and no call on it can bring the others together; so they meet at a
name that all of them know: the old group's block, and who stays.
"""

from __future__ import annotations

from typing import Any

from ... import native
from ..rendezvous.find_group import create_block, meet
from .backend import Backend
from .init_process_group import destroy_process_group, enter
from .process_group import ProcessGroup
from .world import World, group_of

__all__ = ["SHRINK_ABORT", "SHRINK_DEFAULT", "shrink_group"]

SHRINK_DEFAULT = 0
SHRINK_ABORT = 1


def shrink_group(
    ranks_to_exclude: list[int],
    group: ProcessGroup | None = None,
    shrink_flags: int = SHRINK_DEFAULT,
    pg_options: None = None,
) -> ProcessGroup:
    """A group of all ranks but some; called by those that stay, and by no other. If the default
    group shrinks, the new one takes its place, ranks are counted anew, and all other groups end.

    Args:
        ranks_to_exclude: ranks in `group`, dead or alive.
        group: None: the default one. It may be broken.
        shrink_flags: SHRINK_ABORT: collectives that are under way in `group` end with an error.

    Raises:
        ValueError: ranks that are not in the group, twice, none, or all.
        TypeError: a group that spans machines, or of a backend of its own.
        RuntimeError: this rank is among the excluded.
        CollectiveTimeout: another that should stay did not come.

    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.shrink_group([1])
    Traceback (most recent call last):
    ValueError: shrink_group: excluded are no ranks of the group, or all: [1] of 1
    >>> dist.destroy_process_group()
    """
    old = group_of("shrink_group", group)
    n, gone = old.size(), sorted(set(ranks_to_exclude))
    if (
        len(gone) != len(ranks_to_exclude)
        or not 0 < len(gone) < n
        or not 0 <= gone[0] <= gone[-1] < n
    ):
        raise ValueError(
            f"shrink_group: excluded are no ranks of the group, or all: {ranks_to_exclude} of {n}"
        )
    if shrink_flags not in (SHRINK_DEFAULT, SHRINK_ABORT):
        raise ValueError(f"shrink_group: unknown shrink_flags: {shrink_flags!r}")
    if not old.identity:
        raise TypeError(f"shrink_group: only groups of one machine can shrink: {old.name()!r}")
    if old.rank() in gone:
        raise RuntimeError(f"shrink_group: this rank is to be excluded: {old.rank()} of {gone}")
    if shrink_flags == SHRINK_ABORT:
        old.native.break_off("the group shrinks")
    stay = [r for r in range(n) if r not in gone]
    rank = stay.index(old.rank())
    is_default = old is World.default
    block: Any
    if len(stay) == 1:
        block, own = create_block(1)
    else:
        block, own = meet(f"shrink/{old.identity}/{stay}", rank, len(stay), old.timeout)
    ranks = list(range(len(stay))) if is_default else [old.ranks[r] for r in stay]
    control = native.Group(block, rank, len(stay))
    control.barrier(old.timeout)
    engine = Backend(old.name()).carry(control, old.timeout, old.ranks[old.rank()])
    new = ProcessGroup(engine, old.timeout, ranks, block)
    new.backend = old.backend
    if own and rank == 0:
        native.acknowledge(own)
    if is_default:
        destroy_process_group()
        native.set_role(f"rank {rank}")
        enter(new)
    else:
        old.close()
        World.groups = [each for each in World.groups if each is not old] + [new]
    return new
