"""A switch of Ethernet devices that holds every frame back: the delay of a network, where the
kernel has no netem.

    python benchmarks/harness/delaying_switch.py SECONDS DEVICE DEVICE ...

It reads frames from packet sockets and sends them, so that all connections between the devices are
delayed, in both directions, whatever their addresses and ports. Frames come and go with their
offload header: as one of up to 64 KB, which costs one read and one write.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections import deque

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23  # linux/if_packet.h
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
ALL_PROTOCOLS = 0x0003
OFFLOAD = 10  # bytes of the header before a frame (linux/virtio_net.h)
BUFFER = 64 << 20


def open_port(device: str) -> socket.socket:
    """A packet socket of a device."""
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    port.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER)
    port.bind((device, ALL_PROTOCOLS))
    return port


def switch(delay: float, devices: list[str]) -> None:
    """Forwards frames until the process is ended."""
    ports = [open_port(device) for device in devices]
    port_of: dict[bytes, socket.socket] = {}  # by the address of a sender that was seen there
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()  # due, source, frame
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for source in select.select(ports, [], [], timeout)[0]:
            waiting.append((time.monotonic() + delay, source, source.recv(1 << 17)))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, source, frame = waiting.popleft()
            receiver, sender = frame[OFFLOAD : OFFLOAD + 6], frame[OFFLOAD + 6 : OFFLOAD + 12]
            port_of[sender] = source
            known = port_of.get(receiver)
            for port in ports if known is None else [known]:
                if port is not source:
                    port.send(frame)


if __name__ == "__main__":
    # Before the ranks, whatever their priority: a switch does not wait for them.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    switch(float(sys.argv[1]), sys.argv[2:])
