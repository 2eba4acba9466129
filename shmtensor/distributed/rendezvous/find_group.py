"""How the ranks of a new group find its block.

The launcher and the trainer make the block before their ranks exist and hand its handle down. Ranks
that only know a name (`tcp://localhost:29500`, MASTER_ADDR and MASTER_PORT, a file) meet at an
abstract Unix socket, which leaves nothing in any file system: rank 0 makes the block, listens, and
gives the handle to the W - 1 others of the same user.

    rank 0   bind "\\0shmtensor-<domain>-<name>"   accept: rank, world  ->  handle      close
    rank r   connect, again until it is there      send rank, world     <-  handle
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

__all__ = ["create_block", "exchange_text", "meet"]

HELLO = struct.Struct("<II")
AGAIN = 0.005  # seconds between two attempts to connect


def create_block(world: int) -> tuple[native.Block, bytes]:
    """The zeroed block of a group and its handle, whose pin the caller acknowledges once all have
    joined.
    """
    block = native.allocate(native.group_nbytes(world), zero=True, shared=True)
    return block, native.export(block)


def exchange_text(
    all_gather: Callable[..., None],
    world: int,
    mine: dict[str, Any],
    timeout: float,
    nbytes: int = 4096,
) -> list[dict[str, Any]]:
    """What each rank says, in rank order; all ranks call it.

    Args:
        all_gather: that of an engine: of equally long arrays, and a timeout in seconds.
        mine: what this rank says: what JSON can.
        nbytes: room for it, the same on all ranks.
    """
    text = json.dumps(mine).encode()
    if len(text) > nbytes:
        raise ValueError(f"init_process_group: too long for {nbytes} bytes: {mine}")
    table = np.empty((world, nbytes), np.uint8)  # private: a domain may be joined later
    all_gather(list(table), np.frombuffer(bytearray(text.ljust(nbytes)), np.uint8), timeout)
    return [json.loads(row.tobytes()) for row in table]


def address(name: str) -> bytes:
    # 107 bytes are allowed; the name is the user's, so its hash stands for it
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


def meet(name: str, rank: int, world: int, timeout: float) -> tuple[native.Block, bytes]:
    """The group block of `world` ranks that agree on `name`, and its handle.

    Raises:
        CollectiveTimeout: not all came in time.
        CollectiveMismatch: they disagree about the world size.
    """
    deadline = None if timeout < 0 else time.monotonic() + timeout
    return serve(name, world, deadline) if rank == 0 else ask(name, rank, world, deadline)


def left(name: str, deadline: float | None, missing: str) -> float | None:
    from ...errors import CollectiveTimeout

    if deadline is None:
        return None
    rest = deadline - time.monotonic()
    if rest <= 0:
        raise CollectiveTimeout(
            f"init_process_group: not all ranks came in time: {missing} at {name!r}, "
            "all have to be processes of one domain: children of one parent, or started by "
            "python -m shmtensor.run"
        )
    return rest


def serve(name: str, world: int, deadline: float | None) -> tuple[native.Block, bytes]:
    from ...errors import CollectiveMismatch

    block, handle = create_block(world)
    came: set[int] = set()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        while True:
            try:
                listener.bind(address(name))
                break
            except OSError:  # a group of this name is just being made
                left(name, deadline, "the name is taken")
                time.sleep(AGAIN)
        listener.listen(world)
        while len(came) < world - 1:
            listener.settimeout(
                left(name, deadline, f"{world - 1 - len(came)} of {world} are missing")
            )
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection, suppress(OSError):  # who goes, or says nothing, has not come
                if not is_own_user(connection):
                    continue
                connection.settimeout(5.0)
                rank, theirs = HELLO.unpack(receive_exactly(connection, HELLO.size))
                if theirs != world or rank in came or not 0 < rank < world:
                    connection.sendall(HELLO.pack(world, 0))
                    raise CollectiveMismatch(
                        f"init_process_group: ranks do not fit together: rank {rank} of "
                        f"{theirs} came, "
                        f"rank 0 is of {world} and had {sorted(came)}"
                    )
                connection.sendall(HELLO.pack(world, len(handle)) + handle)
                came.add(rank)
    return block, handle


def ask(name: str, rank: int, world: int, deadline: float | None) -> tuple[native.Block, bytes]:
    from ...errors import CollectiveMismatch

    while True:
        rest = left(name, deadline, "rank 0 is missing")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(rest)
            try:
                connection.connect(address(name))
                connection.sendall(HELLO.pack(rank, world))
                theirs, n = HELLO.unpack(receive_exactly(connection, HELLO.size))
                handle = receive_exactly(connection, n)
            except OSError:  # rank 0 is not there yet, or the socket was that of an earlier group
                time.sleep(AGAIN)
                continue
        if not handle:
            raise CollectiveMismatch(
                f"init_process_group: ranks do not fit together: rank {rank} of {world} here, "
                f"rank 0 has a group of {theirs}, or rank {rank} came twice"
            )
        return native.receive(handle, False), handle
