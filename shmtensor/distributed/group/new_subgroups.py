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
    """This process's rank on its machine: LOCAL_RANK or what the launcher sets instead, or the
    fallback.

    Raises:
        RuntimeError: there is neither.
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
    """Whether a launcher started this process as a rank: `python -m shmtensor.run` or torchrun."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: None = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup]]:
    """A group for each list of ranks; the lists must be disjoint. All ranks call it.

    Returns:
        The group that this rank is in, or None, and all groups.

    Raises:
        ValueError: a rank is in two lists; there is no list.
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
    """Groups of `group_size` neighbouring ranks (None: of a machine's ranks).

    Returns:
        The group that this rank is in, and all groups.

    Raises:
        ValueError: the size does not divide the number of ranks.
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
