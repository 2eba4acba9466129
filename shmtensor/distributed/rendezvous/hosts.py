"""Hosts: whether a group spans several, the address of its store, whether a host still answers."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

from .launch_environment import launch_environment

SILENCE = 5000  # milliseconds
RETRIES = 4  # the fourth is sent after 3 s
TCP_INFO = struct.Struct("8B13I")  # as far as last_ack_recv
KEEPALIVE = (2, 1, 3)  # seconds idle, seconds between probes, unanswered probes


def is_loopback(host: str) -> bool:
    """Whether a name can only mean this machine."""
    is_number = host.replace(".", "").isdecimal()  # not 127.0.0.1.example.org
    return host in ("localhost", "::1") or (host.startswith("127.") and is_number)


def is_own_address(host: str, if_unknown: bool = False) -> bool:
    """Whether a name means this host; `if_unknown` if it cannot be resolved."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return if_unknown
    for family, kind, protocol, _, address in addresses:
        with suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            return True
    return False


def look_up(host: str) -> str:
    """The IP address to which a process that listens at a host binds: "0.0.0.0" for "".

    Raises: OSError: the name is unknown.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.getaddrinfo(host or "0.0.0.0", None, family, socket.SOCK_STREAM)
    return str(found[0][4][0])


def spans_hosts(world: int, init_method: str | None) -> bool:
    """Whether a group is known to have ranks on other hosts: LOCAL_WORLD_SIZE, or what the launcher
    has set instead, is less than the world size. Without either the ranks find out when they meet.
    """
    if init_method not in (None, "env://") and not init_method.startswith("tcp://"):
        return False
    local_world_size = launch_environment(world_size=world).local_world_size
    return local_world_size is not None and local_world_size < world


def address_of(init_method: str | None) -> tuple[str, int]:
    """The host and port of the group's store: `tcp://host:port`, or MASTER_ADDR and MASTER_PORT, or
    what the launcher has set instead.

    Raises:
        ValueError: there is none.
    """
    if init_method is None or init_method == "env://":
        launch = launch_environment()
        if launch.master_port is not None:
            return launch.master_addr.strip("[]") or "localhost", launch.master_port
        init_method = f"MASTER_ADDR {launch.master_addr!r}, MASTER_PORT is not set"
    else:
        host, _, port = init_method.removeprefix("tcp://").partition("?")[0].rpartition(":")
        if port.isdigit():
            return host.strip("[]"), int(port)
    raise ValueError(
        f"init_process_group: ranks on several hosts need an address: {init_method}, set "
        "MASTER_ADDR (rank 0's host) and MASTER_PORT for all ranks"
    )


def keep_alive(link: socket.socket, is_read: bool = False) -> None:
    """Lets the kernel probe an idle connection (keep-alive).

    Args:
        is_read: the other side always reads at once; so unacknowledged data means that it is gone.
    """
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    for name, value in zip(names, KEEPALIVE, strict=True):
        link.setsockopt(socket.IPPROTO_TCP, name, value)
    if is_read:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE)


def is_silent(link: socket.socket) -> bool:
    """Whether a machine does not acknowledge repeated retransmissions. The kernel sends no
    keep-alive probes while data is under way, and TCP_USER_TIMEOUT would also end a connection to
    a slow reader.
    """
    info = TCP_INFO.unpack(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size))
    _, _, retransmits, *_ = info
    unacknowledged, last = info[12], info[20]
    return bool(unacknowledged and retransmits >= RETRIES and last > SILENCE)
