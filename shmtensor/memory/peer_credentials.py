"""Who is at the other end of a Unix socket, by the kernel's word (SO_PEERCRED, SO_PEERGROUPS).

Note [Unmapped ids]: in a user namespace that does not map all ids, those that it does not map have
one common number (65534, /proc/sys/kernel/overflowuid). It identifies nobody: it may be this
process's own number too. So such an id is reported as UNKNOWN, which equals no id.
"""

from __future__ import annotations

import os
import socket
import struct
from functools import cache

UNKNOWN = -1
ALL_IDS = (1 << 32) - 1
_SO_PEERGROUPS = 59


@cache
def overflow_id(kind: str) -> int:
    with open(f"/proc/sys/kernel/overflow{kind}") as file:
        return int(file.read())


def known(kind: str, number: int) -> int:
    """A "uid" or "gid" that the kernel has reported, or UNKNOWN: Note [Unmapped ids]."""
    if number != overflow_id(kind):
        return number
    with open(f"/proc/self/{kind}_map") as file:
        n_mapped = sum(int(line.split()[2]) for line in file)
    return number if n_mapped == ALL_IDS else UNKNOWN


def own_user() -> int:
    """The effective user id of this process, or UNKNOWN."""
    return known("uid", os.geteuid())


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """pid (0: in another pid namespace), uid and gid of the process at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, gid = struct.unpack("iII", credentials)
    return pid, known("uid", uid), known("gid", gid)


def groups(connection: socket.socket) -> set[int]:
    """All groups of the process at the other end; only its primary group if it is in over 256."""
    gid = peer(connection)[2]
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 1024)  # Python's maximum
    except OSError:
        return {gid}
    return {gid, *(known("gid", each) for each in struct.unpack(f"{len(data) // 4}I", data))}
