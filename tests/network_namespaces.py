"""Hosts with addresses of their own: network namespaces of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

HOST = "10.213.7.1"  # of the first


@contextmanager
def two_hosts() -> Iterator[tuple[list[str], list[str]]]:
    """Two network namespaces with a cable between them: their names, and the cable's ends. Skips
    the test where they may not be made.
    """
    names = [f"shmtensor-{os.getpid()}-{i}" for i in range(2)]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        for name in names:
            ip("netns", "add", name)
        cable = [f"st{os.getpid() % 10**8}{end}" for end in "ab"]
        ip("link", "add", cable[0], "netns", names[0], "type", "veth", "peer", cable[1],
           "netns", names[1])  # fmt: skip
        for i, (name, end) in enumerate(zip(names, cable, strict=True)):
            ip("-n", name, "address", "add", f"10.213.7.{i + 1}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        for name in names:
            with suppress(OSError):
                subprocess.run(["ip", "netns", "del", name], capture_output=True)
        pytest.skip(f"network namespaces may not be made here: {error}")
    try:
        yield names, cable
    finally:
        for name in names:
            ip("netns", "del", name)
