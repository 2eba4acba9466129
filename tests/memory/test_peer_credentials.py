"""Who is at the other end of a socket; ids that a user namespace does not map identify nobody."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import pytest

from shmtensor.memory.peer_credentials import groups, own_user, peer

UNSHARE = ["unshare", "--user"]
PROGRAM = """
import socket
from shmtensor.memory.peer_credentials import groups, own_user, peer
one, other = socket.socketpair()
print(peer(one)[1:], own_user(), groups(one))
"""


def can_unshare() -> bool:
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode
    )


def test_the_kernel_tells_who_the_other_side_is() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer(one) == (os.getpid(), os.geteuid(), os.getegid())
        assert groups(one) >= {os.getegid()}
    assert own_user() == os.geteuid()


@pytest.mark.skipif(not can_unshare(), reason="may not make a user namespace")
def test_unmapped_ids_identify_nobody() -> None:
    """All have the number 65534 there, this process's user, too."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SHMTENSOR_DOMAIN": ""}
    result = subprocess.run(
        [*UNSHARE, sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "(-1, -1) -1 {-1}\n", result.stderr
