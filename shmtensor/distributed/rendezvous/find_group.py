"""How the ranks of a new group find its block.

The launcher and the trainer create the block before their ranks and pass its handle on to them.
Ranks that know only a name (`tcp://localhost:29500`, MASTER_ADDR and MASTER_PORT, a file) use an
abstract Unix socket, which leaves nothing in any file system: rank 0 creates the block, listens,
and sends the handle to the W - 1 other ranks of the same user.

    rank 0   bind "\\0shmtensor-<hash of domain and name>"   accept: rank, world  ->  handle   close
    rank r   connect, and retry until it can                send rank, world     <-  handle
"""

from __future__ import annotations

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

__all__ = ["all_gather_json", "create_block", "find_block"]

HELLO = struct.Struct("<II")
RETRY_PAUSE = 0.005  # seconds between two attempts to connect


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


def is_own_user(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())


def receive_exactly(connection: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        part = connection.recv(n - len(data))
        if not part:
            raise ConnectionResetError("the other side closed")
        data += part
    return data


def find_block(name: str, rank: int, world: int, timeout: float) -> tuple[native.Block, bytes]:
    """The group block of `world` ranks that agree on `name`, and its handle.

    Raises:
        CollectiveTimeout: not all came in time.
        CollectiveMismatch: they disagree about the world size.
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


def serve_block(name: str, world: int, deadline: float | None) -> tuple[native.Block, bytes]:
    from ...errors import CollectiveMismatch

    block, handle = create_block(world)
    arrived: set[int] = set()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        while True:
            try:
                listener.bind(address(name))
                break
            except OSError:  # another group of this name is being created
                remaining_seconds(name, deadline, "the name is taken")
                time.sleep(RETRY_PAUSE)
        listener.listen(world)
        while len(arrived) < world - 1:
            listener.settimeout(
                remaining_seconds(
                    name, deadline, f"{world - 1 - len(arrived)} of {world} are missing"
                )
            )
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection, suppress(OSError):  # a peer that leaves or stays silent does not count
                if not is_own_user(connection):
                    continue
                connection.settimeout(5.0)
                rank, other_world = HELLO.unpack(receive_exactly(connection, HELLO.size))
                if other_world != world or rank in arrived or not 0 < rank < world:
                    connection.sendall(HELLO.pack(world, 0))
                    raise CollectiveMismatch(
                        f"init_process_group: ranks do not fit together: rank {rank} of "
                        f"{other_world} came, rank 0 is of {world} and had {sorted(arrived)}"
                    )
                connection.sendall(HELLO.pack(world, len(handle)) + handle)
                arrived.add(rank)
    return block, handle


def request_block(
    name: str, rank: int, world: int, deadline: float | None
) -> tuple[native.Block, bytes]:
    from ...errors import CollectiveMismatch

    while True:
        remaining = remaining_seconds(name, deadline, "rank 0 is missing")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(remaining)
            try:
                connection.connect(address(name))
                connection.sendall(HELLO.pack(rank, world))
                other_world, n = HELLO.unpack(receive_exactly(connection, HELLO.size))
                handle = receive_exactly(connection, n)
            except OSError:  # rank 0 does not listen yet, or the socket was an earlier group's
                time.sleep(RETRY_PAUSE)
                continue
        if not handle:
            raise CollectiveMismatch(
                f"init_process_group: ranks do not fit together: rank {rank} of {world} here, "
                f"rank 0 has a group of {other_world}, or rank {rank} came twice"
            )
        return native.receive(handle, False), handle
