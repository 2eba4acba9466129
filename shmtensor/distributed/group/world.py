"""The groups that this process is in, and the default group."""

from __future__ import annotations

import os
from typing import Any

from .process_group import ProcessGroup


class GroupMember:
    """The default group, and the value that stands for a group without this process.

    Attributes
    ----------
    WORLD : ProcessGroup or None
        The default group.
    NON_GROUP_MEMBER : object
        What `new_group` returns on ranks that are not in it.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.GroupMember.WORLD.size()
    1
    >>> dist.destroy_process_group()
    """

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: Any = object()


class World:
    """The groups of this process."""

    default: ProcessGroup | None = None
    pid = 0  # of the process that joined; a forked child is in no group
    init_count = 0  # how often this process has joined a default group
    groups: list[ProcessGroup] = []  # noqa: RUF012 (there is one World)


def is_initialized() -> bool:
    """Whether this process is in a default group.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.is_initialized()
    False
    """
    return World.default is not None and World.pid == os.getpid()


def group_of(where: str, group: ProcessGroup | None) -> ProcessGroup:
    """`group`, or the default one.

    Raises:
        ValueError: there is none, or this process is not in it.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        raise ValueError(f"{where}: this process is not in the group")
    pg = World.default if group is None else group
    if pg is None or (group is None and not is_initialized()):
        raise ValueError(f"{where}: there is no default group: call init_process_group first")
    return pg
