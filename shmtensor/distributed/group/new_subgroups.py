"""Several groups at once: the ranks split into subgroups."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

from ..rendezvous.launch_environment import launch_environment
from .init_process_group import new_group
from .process_group import ProcessGroup
from .world import GroupMember, group_of

__all__ = [
    "get_node_local_rank",
    "is_torchelastic_launched",
    "new_subgroups",
    "new_subgroups_by_enumeration",
]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's rank on its machine: LOCAL_RANK or what the launcher sets instead.

    Parameters
    ----------
    fallback_rank : int, optional
        The result where there is neither.

    Returns
    -------
    int

    Raises
    ------
    RuntimeError
        There is neither, and no fallback.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.get_node_local_rank(fallback_rank=0) >= 0
    True
    """
    local_rank = launch_environment().local_rank
    if local_rank is None:
        local_rank = fallback_rank
    if local_rank is None:
        raise RuntimeError(
            "get_node_local_rank: LOCAL_RANK is not in the environment, and there is no "
            "fallback_rank: start with python -m shmtensor.run"
        )
    return local_rank


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process as a rank: `python -m shmtensor.run` or torchrun.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> type(dist.is_torchelastic_launched())
    <class 'bool'>
    """
    return "TORCHELASTIC_RUN_ID" in os.environ


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: None = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup]]:
    """A group for each list of ranks; the lists must be disjoint. All ranks call it.

    Parameters
    ----------
    ranks_per_subgroup_list : sequence of sequence of int
        The members of each group.
    timeout : float or timedelta, optional
        Seconds for every collective of the groups.
    backend : str, optional
        As in `new_group`.
    pg_options : optional
        Accepted; has no effect.
    group_desc : str, optional
        Becomes the groups' attribute.

    Returns
    -------
    (own, groups) : ProcessGroup or None, list of ProcessGroup
        The group that this rank is in, or None, and all groups.

    Raises
    ------
    ValueError
        A rank is in two lists; there is no list.

    See Also
    --------
    new_subgroups

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> own, groups = dist.new_subgroups_by_enumeration([[0]])
    >>> own.ranks, len(groups)
    ([0], 1)
    >>> dist.destroy_process_group()
    """
    if not ranks_per_subgroup_list:
        raise ValueError(
            f"new_subgroups_by_enumeration: there is no list of ranks: {ranks_per_subgroup_list}"
        )
    previous: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        if previous & set(ranks):
            raise ValueError(
                "new_subgroups_by_enumeration: a rank is in two subgroups: "
                f"{sorted(previous & set(ranks))} of {[list(r) for r in ranks_per_subgroup_list]}"
            )
        previous |= set(ranks)
    subgroup: ProcessGroup | None = None
    groups = []
    for ranks in ranks_per_subgroup_list:
        group = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(group)
        if group is not GroupMember.NON_GROUP_MEMBER:
            subgroup = group
    return subgroup, groups


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: None = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup]]:
    """Groups of `group_size` neighbouring ranks.

    Parameters
    ----------
    group_size : int, optional
        How many ranks each has; those of a machine if None.
    group : ProcessGroup, optional
        Whose ranks are divided; the default group if None.
    timeout : float or timedelta, optional
        Seconds for every collective of the groups.
    backend : str, optional
        As in `new_group`.
    pg_options : optional
        Accepted; has no effect.
    group_desc : str, optional
        Becomes the groups' attribute.

    Returns
    -------
    (own, groups) : ProcessGroup or None, list of ProcessGroup
        The group that this rank is in, and all groups.

    Raises
    ------
    ValueError
        The size does not divide the number of ranks.

    See Also
    --------
    new_subgroups_by_enumeration

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> own, groups = dist.new_subgroups(1)
    >>> own.ranks, len(groups)
    ([0], 1)
    >>> dist.destroy_process_group()
    """
    ranks = group_of("new_subgroups", group).ranks
    size = group_size
    if size is None:
        local_world_size = launch_environment().local_world_size
        size = len(ranks) if local_world_size is None else local_world_size
    if size < 1 or len(ranks) % size:
        raise ValueError(f"new_subgroups: {len(ranks)} ranks are not groups of {size}")
    parts = [ranks[i : i + size] for i in range(0, len(ranks), size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)
