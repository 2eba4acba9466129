"""How the ranks of a new group find its block.

The launcher and the trainer create the block before their ranks and pass its handle on to them.
Ranks that know only a name (`tcp://localhost:29500`, MASTER_ADDR and MASTER_PORT, a file) use an
abstract Unix socket, which leaves nothing in any file system: rank 0 creates the block, listens,
and sends the handle to the W - 1 other ranks of the same user.

    rank 0   bind "\\0shmtensor-<hash of domain and name>"   accept: rank, world  ->  handle   close
    rank r   connect, and retry until it can                send rank, world     <-  handle

Any local user may bind or connect to such a name, so both sides ask the kernel who the other one is
(SO_PEERCRED) before they send or believe anything: rank 0 closes another user's connection, and
serves all others at once, so that a silent process delays nobody. Where another user holds the
name, PermissionError names uid and pid: waiting would not help. The name needs no user id in it:
the domain's id keeps users apart who mean no harm, and whoever means harm can compute any name.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from ... import native
from .handshakes import BACKLOG, LIMIT, Handshake, Handshakes, receive_exactly

__all__ = ["all_gather_json", "create_block", "find_block"]

HELLO = struct.Struct("<II")
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
RETRY_PAUSE = 0.005  # seconds between two attempts to connect
MAX_HANDLE = 4096  # bytes


def create_block(world: int) -> tuple[native.Block, bytes]:
    """A zeroed block for a group, and its handle. The caller releases the handle's pin by
    `native.acknowledge` once all ranks have joined.
    """
    block = native.allocate(native.group_nbytes(world), zero=True, shared=True)
    return block, native.export(block)


def all_gather_json(
    all_gather: Callable[..., None],
    world: int,
    info: dict[str, Any],
    timeout: float,
    nbytes: int = 4096,
) -> list[dict[str, Any]]:
    """Gathers a dict from each rank, in rank order; all ranks call it.

    Args:
        all_gather: the method of an engine: of arrays of one length, and a timeout in seconds.
        info: this rank's dict, which JSON can encode.
        nbytes: the largest size of its JSON, the same on all ranks.
    """
    text = json.dumps(info).encode()
    if len(text) > nbytes:
        raise ValueError(f"init_process_group: too long for {nbytes} bytes: {info}")
    table = np.empty((world, nbytes), np.uint8)  # private: a domain may be joined later
    all_gather(list(table), np.frombuffer(bytearray(text.ljust(nbytes)), np.uint8), timeout)
    return [json.loads(row.tobytes()) for row in table]


def address(name: str) -> bytes:
    # a socket's name has at most 107 bytes, and `name` may be longer, so it is hashed
    from hashlib import blake2b

    native.domain_ensure()
    digest = blake2b(native.domain_id() + name.encode(), digest_size=20).hexdigest()
    return b"\0shmtensor-" + digest.encode()


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The pid and the user id of the process that has connected, or that listens."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(data)
    return pid, uid


def check_holder(name: str, connection: socket.socket) -> None:
    """Raises PermissionError if the process that listens at the name is another user's."""
    pid, uid = peer_of(connection)
    if uid != os.geteuid():
        raise PermissionError(
            f"init_process_group: another user holds the name {name!r}: uid {uid}, pid {pid}: "
            "it is not rank 0 of this group; end it, or choose another name or port"
        )


def find_block(name: str, rank: int, world: int, timeout: float) -> tuple[native.Block, bytes]:
    """The group block of `world` ranks that agree on `name`, and its handle.

    Raises:
        CollectiveTimeout: not all came in time.
        CollectiveMismatch: they disagree about the world size.
        PermissionError: another user holds the name.
    """
    deadline = None if timeout < 0 else time.monotonic() + timeout
    return (
        serve_block(name, world, deadline)
        if rank == 0
        else request_block(name, rank, world, deadline)
    )


def remaining_seconds(name: str, deadline: float | None, missing: str) -> float | None:
    from ...errors import CollectiveTimeout

    if deadline is None:
        return None
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise CollectiveTimeout(
            f"init_process_group: not all ranks came in time: {missing} at {name!r}, "
            "all have to be processes of one domain: children of one parent, or started by "
            "python -m shmtensor.run"
        )
    return remaining


def bind(listener: socket.socket, name: str, deadline: float | None) -> None:
    """Binds to the name; waits while another group of this user holds it."""
    while True:
        try:
            listener.bind(address(name))
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            if not connection.connect_ex(address(name)):
                check_holder(name, connection)
        remaining_seconds(name, deadline, "the name is taken")
        time.sleep(RETRY_PAUSE)


def read_hello(connection: socket.socket) -> Handshake:
    """The rank of a connection, and its world size."""
    if peer_of(connection)[1] != os.geteuid():
        raise ConnectionRefusedError("another user's process")
    hello = yield HELLO.size
    return HELLO.unpack(hello)


def serve_block(name: str, world: int, deadline: float | None) -> tuple[native.Block, bytes]:
    block, handle = create_block(world)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            bind(listener, name, deadline)
            listener.listen(BACKLOG)
            send_handle(listener, name, world, handle, deadline)
    except BaseException:
        native.acknowledge(handle)
        raise
    return block, handle


def send_handle(
    listener: socket.socket, name: str, world: int, handle: bytes, deadline: float | None
) -> None:
    """Sends the handle to all other ranks."""
    from ...errors import CollectiveMismatch

    arrived: set[int] = set()
    with Handshakes(listener, read_hello, LIMIT + world) as handshakes:
        while len(arrived) < world - 1:
            missing = f"{world - 1 - len(arrived)} of {world} are missing"
            remaining = remaining_seconds(name, deadline, missing)
            for connection, (rank, other_world) in handshakes.poll(remaining):
                with connection, suppress(OSError):  # one that has left does not count
                    if other_world != world or rank in arrived or not 0 < rank < world:
                        connection.sendall(HELLO.pack(world, 0))
                        raise CollectiveMismatch(
                            f"init_process_group: ranks do not fit together: rank {rank} of "
                            f"{other_world} came, rank 0 is of {world} and had {sorted(arrived)}"
                        )
                    connection.sendall(HELLO.pack(world, len(handle)) + handle)
                    arrived.add(rank)


def request_block(
    name: str, rank: int, world: int, deadline: float | None
) -> tuple[native.Block, bytes]:
    from ...errors import CollectiveMismatch

    while True:
        remaining = remaining_seconds(name, deadline, "rank 0 is missing")
        end = float("inf") if deadline is None else deadline
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(remaining)
            try:
                connection.connect(address(name))
            except OSError:  # rank 0 does not listen yet
                time.sleep(RETRY_PAUSE)
                continue
            check_holder(name, connection)
            try:
                connection.sendall(HELLO.pack(rank, world))
                other_world, n = HELLO.unpack(receive_exactly(connection, HELLO.size, end))
                handle = receive_exactly(connection, n, end) if n <= MAX_HANDLE else b""
            except OSError:  # the socket was an earlier group's, or rank 0 has died
                time.sleep(RETRY_PAUSE)
                continue
        if n > MAX_HANDLE:
            raise CollectiveMismatch(
                f"init_process_group: what listens at {name!r} is not rank 0: it announces a "
                f"handle of {n} bytes, at most {MAX_HANDLE} are possible"
            )
        if not handle:
            raise CollectiveMismatch(
                f"init_process_group: ranks do not fit together: rank {rank} of {world} here, "
                f"rank 0 has a group of {other_world}, or rank {rank} came twice"
            )
        return native.receive(handle, False), handle
