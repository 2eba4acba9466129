"""shrink_group: a smaller group of the ranks that remain, for example after a death.

The old group may be broken, so the ranks cannot communicate by it. They find the new block by a
name that all of them know: the identity of the old group's block, and the ranks that stay.
"""

from __future__ import annotations

from ... import native
from ..rendezvous.find_group import find_group
from .backend import Backend
from .init_process_group import destroy_process_group, set_default_group
from .process_group import ProcessGroup
from .world import World, group_of

SHRINK_DEFAULT = 0
SHRINK_ABORT = 1


def shrink_group(
    ranks_to_exclude: list[int],
    group: ProcessGroup | None = None,
    shrink_flags: int = SHRINK_DEFAULT,
    pg_options: None = None,
) -> ProcessGroup:
    """A group of all ranks but some. Only the ranks that stay call it. If the default group
    shrinks, the new one replaces it, ranks are renumbered, and all other groups end.

    Parameters
    ----------
    ranks_to_exclude : list of int
        Ranks in `group`, dead or alive.
    group : ProcessGroup, optional
        The default one if None. It may be broken.
    shrink_flags : int, optional
        SHRINK_ABORT: collectives that are under way in `group` end with an error.
    pg_options : optional
        Accepted; has no effect.

    Returns
    -------
    ProcessGroup
        The new group.

    Raises
    ------
    ValueError
        ranks_to_exclude has no rank, all ranks, a rank twice, or one that is not in the group; or
        the flags are unknown.
    TypeError
        The ranks share no memory: the group spans machines, or its backend is a registered one.
    RuntimeError
        This rank is among the excluded.
    CollectiveTimeout
        Another rank that should stay did not come.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.shrink_group([1])
    Traceback (most recent call last):
        ...
    ValueError: shrink_group: cannot exclude all ranks, or ranks outside the group: [1] of 1
    >>> dist.destroy_process_group()
    """
    old = group_of("shrink_group", group)
    n, excluded = old.size(), sorted(set(ranks_to_exclude))
    if (
        len(excluded) != len(ranks_to_exclude)
        or not 0 < len(excluded) < n
        or not 0 <= excluded[0] <= excluded[-1] < n
    ):
        raise ValueError(
            "shrink_group: cannot exclude all ranks, or ranks outside the group: "
            f"{ranks_to_exclude} of {n}"
        )
    if shrink_flags not in (SHRINK_DEFAULT, SHRINK_ABORT):
        raise ValueError(f"shrink_group: unknown shrink_flags: {shrink_flags!r}")
    if not old.identity:
        raise TypeError(f"shrink_group: only groups of one machine can shrink: {old.name()!r}")
    if old.rank() in excluded:
        raise RuntimeError(
            f"shrink_group: this rank is among the excluded: {old.rank()} of {excluded}"
        )
    if shrink_flags == SHRINK_ABORT:
        old.native.break_off("the group shrinks")
    remaining = [r for r in range(n) if r not in excluded]
    rank = remaining.index(old.rank())
    is_default = old is World.default
    name = f"shrink/{old.identity}/{remaining}"
    meeting = find_group(name, rank, len(remaining), old.timeout, where="shrink_group")
    ranks = list(range(len(remaining))) if is_default else [old.ranks[r] for r in remaining]
    engine = Backend(old.name()).make_engine(meeting.control, old.timeout, old.ranks[old.rank()])
    new = ProcessGroup(engine, old.timeout, ranks, meeting.block, meeting.domain_blocks)
    new.backend = old.backend
    if is_default:
        destroy_process_group()
        native.set_role(f"rank {rank}")
        set_default_group(new)
    else:
        old.close()
        World.groups = [each for each in World.groups if each is not old] + [new]
    return new
