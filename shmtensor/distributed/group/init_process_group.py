"""The default group of this process: init_process_group, destroy_process_group, and queries."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from ... import native
from ...errors import CollectiveMismatch
from ...multiprocessing.exit_on_exception import add_exit_listener
from ..rendezvous.find_group import (
    all_gather_json,
    create_block,
    find_group,
    join_block,
    open_store,
)
from ..rendezvous.hosts import address_of, is_loopback, spans_hosts
from ..rendezvous.launch_environment import launch_environment
from ..rendezvous.meeting import Meeting
from ..rendezvous.store import Store
from .backend import Backend
from .operands import seconds
from .process_group import ProcessGroup
from .world import GroupMember, World, group_of, is_initialized

__all__ = [
    "GroupMember",
    "default_pg_timeout",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_initialized",
    "new_group",
]

default_pg_timeout = timedelta(minutes=30)


def is_available() -> bool:
    """True: the shm backend is part of the package.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.is_available()
    True
    """
    return True


def is_launched() -> bool:
    """Whether a launcher started this process as one of several ranks: `python -m shmtensor.run`,
    torchrun, mpirun, srun or `shmtensor.ray.launch`; or RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT are set.
    """
    return launch_environment().is_launched


def rank_and_world_size(rank: int, world_size: int) -> tuple[int, int]:
    """The arguments of init_process_group; what is negative is the environment's."""
    launch = launch_environment(None if rank < 0 else rank, None if world_size < 0 else world_size)
    for name, value in (("RANK", launch.rank), ("WORLD_SIZE", launch.world_size)):
        if value is None:
            raise ValueError(
                "init_process_group: neither argument nor environment variable is set: "
                f"{name} is {os.environ.get(name)!r}, start with python -m shmtensor.run, "
                "torchrun, mpirun or srun, or pass rank and world_size"
            )
    assert launch.rank is not None
    assert launch.world_size is not None
    if not 0 <= launch.rank < launch.world_size:
        raise ValueError(
            f"init_process_group: rank and world_size do not fit: rank {launch.rank} of "
            f"{launch.world_size}"
        )
    return launch.rank, launch.world_size


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: float | timedelta | None = default_pg_timeout,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: None = None,
    device_id: None = None,
) -> None:
    """Makes this process rank `rank` of the default group of `world_size` processes; returns when
    all have come.

    Under `python -m shmtensor.run`, torchrun, mpirun, srun and `shmtensor.ray.launch` no argument
    is needed (docs/command-line.md). Elsewhere all processes pass the same `init_method`, or the
    same store. They need no common parent: processes of one user on one host share memory, also if
    they have made tensors before. Others (of another user, host, pid or network namespace)
    communicate over TCP, at `tcp://HOST:PORT` or MASTER_ADDR and MASTER_PORT, and need
    SHMTENSOR_SECRET or SHMTENSOR_SECRET_FILE. After 5 s of waiting a line on stderr says who is
    missing.

    Parameters
    ----------
    backend : str, optional
        "shm", the default (also called "gloo"): shared memory, and TCP between hosts; "mpi":
        several machines, whose ranks `mpirun` has started: rank and world_size are MPI's; "nccl": a
        GPU for each rank, that of LOCAL_RANK.
    init_method : str, optional
        Any string, the same on all ranks; by default MASTER_ADDR and MASTER_PORT.
    timeout : float or timedelta, optional
        Seconds for this and every collective of the group; None is no limit.
    world_size : int, optional
        How many ranks there are; from the launcher by default.
    rank : int, optional
        This one, from 0; from the launcher by default.
    store : Store, optional
        Replaces init_method: all processes pass the same store.
    group_name : str, optional
        A part of the name by which the ranks find each other; the same on all.
    pg_options, device_id : optional
        Accepted; have no effect.

    Raises
    ------
    CollectiveTimeout
        Not all came in time.
    CollectiveMismatch
        The ranks disagree about the world size, or two have the same rank.
    RuntimeError
        The backend needs a package that is not installed, or more GPUs.
    PeerLostError
        A rank died before all had joined.
    PermissionError
        Ranks cannot share memory and have no secret, or not the same one; or another user holds the
        name on this machine.
    ValueError
        There is a default group, or both a store and an init_method are given.

    See Also
    --------
    destroy_process_group, new_group

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_rank(), dist.get_world_size()
    (0, 1)
    >>> dist.destroy_process_group()
    """
    where = "init_process_group"
    if is_initialized():
        raise ValueError(
            f"{where}: this process has a default group: call destroy_process_group first"
        )
    if store is not None and init_method is not None:
        raise ValueError(f"{where}: takes a store or an init_method, not both: {init_method!r}")
    chosen, limit = Backend(backend or Backend.SHM), seconds(timeout)
    if chosen == Backend.MPI:
        set_default_group(group_of_mpi(rank, world_size, limit))
        return
    rank, world = rank_and_world_size(rank, world_size)
    if (maker := chosen.maker()) is not None:
        native.domain_ensure()
        group = ProcessGroup(maker(store, rank, world, limit), limit, list(range(world)))
        group.backend = str(chosen)
        set_default_group(group)
        return
    if chosen.engine() == Backend.SHM and spans_hosts(world, init_method):
        number, meeting = World.init_count, Meeting()
        if store is None:
            meeting.store = open_store(rank, limit, init_method, where)
    else:
        number = World.init_count if store is not None else 0  # a new store needs none
        meeting = meet(rank, world, limit, init_method, store, group_name)
    if meeting.control is not None:
        set_default_group(group_of_meeting(meeting, limit, chosen.engine()))
        return
    with meeting.store or nullcontext():
        if chosen.engine() != Backend.SHM:
            raise RuntimeError(
                f"{where}: the backend {chosen!s} needs ranks that share memory: rank {rank} of "
                f"{world} does not with all others"
            )
        from ..backends.tcp.connect_ranks import world_engine

        shared_store = meeting.store if store is None else store
        assert shared_store is not None
        engine = world_engine(rank, world, limit, shared_store, number)
    set_default_group(ProcessGroup(engine, limit, list(range(world))))


def meet(
    rank: int,
    world: int,
    limit: float,
    init_method: str | None,
    store: Store | None,
    group_name: str,
) -> Meeting:
    """Meets the other ranks by the memory that they inherit, by a store, or by a name."""
    number, address, inherited = World.init_count, None, ""
    if store is not None:
        name = f"init_process_group/{number}"
    elif init_method is None or init_method == "env://":
        launch = launch_environment(rank, world)
        if launch.job:
            name = f"{launch.job}/{number}"
        else:
            host, port = launch.master_addr or "localhost", launch.master_port
            name = f"{'localhost' if is_loopback(host) else host}:{port or ''}/{number}"
            address = None if port is None else (host, port)
        inherited = os.environ.get("SHMTENSOR_GROUP", "") if number == 0 else ""
    elif init_method.startswith("tcp://"):
        address = host, tcp_port = address_of(init_method)
        name = f"tcp://{'localhost' if is_loopback(host) else host}:{tcp_port}"
    else:
        name = init_method
    role = f"rank {rank}"
    name = f"{name}/{group_name}"
    return find_group(
        name, rank, world, limit, address, role=role, store=store, inherited=inherited
    )


def group_of_meeting(meeting: Meeting, limit: float, backend: str) -> ProcessGroup:
    """The group of ranks that have met and share memory."""
    control = meeting.control
    assert control is not None
    engine = Backend(backend).make_engine(control, limit, control.rank)
    ranks = list(range(control.world))
    group = ProcessGroup(engine, limit, ranks, meeting.block, meeting.domain_blocks)
    group.backend = str(backend)
    return group


def group_of_mpi(rank: int, world: int, limit: float) -> ProcessGroup:
    """The group of all ranks that `mpirun` has started."""
    from ..backends.mpi.backend import world_engine

    engine = world_engine(rank, world, limit)
    group = ProcessGroup(engine, limit, list(range(engine.world)))
    group.backend = Backend.MPI
    return group


def join_group(
    block: native.Block, rank: int, world: int, timeout: float, role: str
) -> ProcessGroup:
    """Joins the group in a block as rank `rank`, and waits for the others."""
    meeting = join_block(block, rank, world, timeout, role)
    return group_of_meeting(meeting, timeout, Backend.SHM)


def set_default_group(group: ProcessGroup) -> None:
    """Makes `group` the default group of this process."""
    World.default = GroupMember.WORLD = group
    group.group_desc = "default_pg"
    World.pid = os.getpid()
    World.init_count += 1
    World.groups = [group]
    if "SHMTENSOR_ERROR_FD" in os.environ:
        from ...multiprocessing.child_report import listen_to_launcher

        listen_to_launcher()  # it hears of an exception before the peers do
    add_exit_listener(abort_groups)


def abort_groups(error: BaseException) -> None:
    """Tells the other ranks of all groups that this one ends by an exception. Their waits end with
    a PeerLostError that names it as the cause.
    """
    if is_initialized():
        text = f"it raised {type(error).__name__}: {error}".partition("\n")[0]
        for group in World.groups:
            group.native.break_off(text.encode("ascii", "replace")[:95].decode())
        if "TORCH_FR_DUMP_TEMP_FILE" in os.environ:
            from .flight_recorder import write_dump

            try:
                write_dump()
            except (OSError, NotImplementedError) as failure:  # must not hide the error itself
                print(f"shmtensor: no flight recorder dump: {failure}", file=sys.stderr, flush=True)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leaves the group. Ranks that still wait for this one get an error, and so do threads that
    wait for its unfinished work.

    Parameters
    ----------
    group : ProcessGroup, optional
        The group; None is the default one, and with it all groups.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.destroy_process_group()
    >>> dist.is_initialized()
    False
    """
    if group is None or group is World.default:
        if World.pid == os.getpid():
            for each in World.groups:
                each.close()
        World.default = GroupMember.WORLD = None
        World.groups = []
        return
    group.close()
    World.groups = [each for each in World.groups if each is not group]


def get_rank(group: ProcessGroup | None = None) -> int:
    """This process's rank in the group.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.

    Returns
    -------
    int
        -1 if it is not in it.

    See Also
    --------
    get_world_size

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_rank()
    0
    >>> dist.destroy_process_group()
    """
    return -1 if group is GroupMember.NON_GROUP_MEMBER else group_of("get_rank", group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Number of processes in the group.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.

    Returns
    -------
    int
        -1 if this one is not in it.

    See Also
    --------
    get_rank

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_world_size()
    1
    >>> dist.destroy_process_group()
    """
    return -1 if group is GroupMember.NON_GROUP_MEMBER else group_of("get_world_size", group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name of the group's backend.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.

    Returns
    -------
    str

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_backend()
    'shm'
    >>> dist.destroy_process_group()
    """
    return group_of("get_backend", group).name()


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """The group's backend for tensors on the CPU.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.

    Returns
    -------
    str

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_backend_config()
    'cpu:shm'
    >>> dist.destroy_process_group()
    """
    return f"cpu:{get_backend(group)}"


def get_pg_count() -> int:
    """How many groups this process is in.

    Returns
    -------
    int

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> group = dist.new_group([0])
    >>> dist.get_pg_count()
    2
    >>> dist.destroy_process_group()
    """
    return len(World.groups) if is_initialized() else 0


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The members' ranks in the default group.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.

    Returns
    -------
    list of int

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_process_group_ranks()
    [0]
    >>> dist.destroy_process_group()
    """
    return list(group_of("get_process_group_ranks", group).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the default group of a rank of `group`.

    Parameters
    ----------
    group : ProcessGroup
        The group.
    group_rank : int
        A rank in it.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        There is no such rank.

    See Also
    --------
    get_group_rank

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_global_rank(dist.new_group([0]), 0)
    0
    >>> dist.destroy_process_group()
    """
    ranks = group_of("get_global_rank", group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"get_global_rank: no such rank: {group_rank} of {len(ranks)}")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in `group` of a rank of the default group.

    Parameters
    ----------
    group : ProcessGroup
        The group.
    global_rank : int
        A rank in the default group.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        It is not in the group.

    See Also
    --------
    get_global_rank

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_group_rank(dist.new_group([0]), 0)
    0
    >>> dist.destroy_process_group()
    """
    return group_of("get_group_rank", group).rank_of("get_group_rank", global_rank)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: float | timedelta | None = None,
    backend: str | None = None,
    pg_options: None = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: None = None,
    sort_ranks: bool = True,
) -> ProcessGroup:
    """A further group of some ranks of the default one. All ranks call it, in the same order,
    members or not.

    Parameters
    ----------
    ranks : sequence of int, optional
        The members, in ascending order; all if None.
    timeout : float or timedelta, optional
        Seconds for every collective of the group; that of the default group if None.
    backend : str, optional
        "shm" and "nccl" can be used side by side; that of the default group if None.
    pg_options, device_id : optional
        Accepted; have no effect.
    use_local_synchronization : bool, optional
        Only False.
    group_desc : str, optional
        Becomes the group's attribute.
    sort_ranks : bool, optional
        Only True.

    Returns
    -------
    ProcessGroup
        The group, or `GroupMember.NON_GROUP_MEMBER` on ranks that are not in it.

    Raises
    ------
    ValueError
        The ranks are not different ones of the default group, or the backend cannot be used beside
        it.
    CollectiveMismatch
        Ranks named different members.

    See Also
    --------
    new_subgroups

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> group = dist.new_group([0], group_desc="mine")
    >>> group.ranks, group.group_desc, dist.get_rank(group)
    ([0], 'mine', 0)
    >>> dist.destroy_process_group()
    """
    world = group_of("new_group", None)
    members = sorted(range(world.size()) if ranks is None else map(int, ranks))
    if use_local_synchronization or not (sort_ranks or ranks is None or members == list(ranks)):
        raise ValueError(
            "new_group: all ranks call it, and members are in ascending order: "
            f"use_local_synchronization={use_local_synchronization}, sort_ranks={sort_ranks}"
        )
    if (
        len(set(members)) != len(members)
        or not members
        or not 0 <= members[0] <= members[-1] < world.size()
    ):
        raise ValueError(
            f"new_group: ranks are not {len(members)} different ones of {world.size()}: {members}"
        )
    group_backend = Backend(world.name() if backend is None else backend)
    transports = {group_backend.engine(), Backend(world.name()).engine()}
    if len(transports) > 1 and transports != {Backend.SHM, Backend.NCCL}:
        raise ValueError(
            f"new_group: the backend cannot differ from the default group's: {backend!r} in a "
            f"group of {world.name()!r}"
        )
    limit = world.timeout if timeout is None else seconds(timeout)
    # All ranks compare the list of members, and get the block's handle from the first member (of
    # their node, if the group spans nodes).
    handle = b""
    block: native.Block | None = None
    first, n_near = members[0], len(members)
    if world.spans_nodes:
        first, n_near = world.native.first_near(members), world.native.near_size(members)
    if world.rank() == first:
        block, handle = create_block(n_near)
    info = {"members": members, "block": handle.hex()}
    nbytes = 1024 + 8 * world.size()
    infos = all_gather_json(world.native.all_gather, world.size(), info, world.timeout, nbytes)
    lists = [info["members"] for info in infos]
    if lists != [members] * world.size():
        raise CollectiveMismatch(f"new_group: ranks named different members: {lists}")
    group: Any = GroupMember.NON_GROUP_MEMBER
    if world.rank() in members and not handle:
        block = native.receive(bytes.fromhex(infos[first]["block"]), False)
    if world.spans_nodes:
        engine = world.native.subgroup(members, block)  # on all ranks
    elif block is not None:
        engine = native.Group(block, members.index(world.rank()), len(members), world.domain_blocks)
    world.native.barrier(world.timeout)  # all hold the block: the pin may go
    if handle:
        native.acknowledge(handle)
    if world.rank() in members:
        engine = group_backend.make_engine(engine, limit, world.rank())
        shared_block = None if world.spans_nodes else block
        group = ProcessGroup(engine, limit, members, shared_block, world.domain_blocks)
        group.backend = group_backend.engine() if len(transports) > 1 else world.backend
        group.group_desc = group_desc or group.group_desc
        World.groups.append(group)
    return group  # type: ignore[no-any-return]
