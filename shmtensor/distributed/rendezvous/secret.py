"""The secret that processes on several machines share: who knows it may take part in a run.

The user sets it, because the machines have nothing else in common before they communicate:

| variable | value |
|---|---|
| SHMTENSOR_SECRET | the secret itself: hexadecimal, or any text |
| SHMTENSOR_SECRET_FILE | the name of a file with the secret, which only its owner can read |

Without a secret the processes of one parent share a key that Python passes on to children; by it
they meet on loopback only.
"""

from __future__ import annotations

import os
import stat
from multiprocessing import current_process
from pathlib import Path

from .hosts import is_loopback

MIN_BYTES = 16


def decode_secret(text: str) -> bytes:
    """The secret that the user wrote as hexadecimal digits or as any other text."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()


def secret_of_run(address: str = "localhost") -> bytes:
    """The secret that the processes of this run share: the user's or the launcher's, or else, on
    loopback, the key that Python passes to the children of one parent.

    Raises:
        PermissionError: other machines reach the address, and the user has given no secret. Or the
            user's is shorter than 16 bytes, or others may read its file.
    """
    is_given = os.environ.get("SHMTENSOR_SECRET") or os.environ.get("SHMTENSOR_SECRET_FILE")
    if is_given or not is_loopback(address):
        return shared_secret("TCPStore" if is_loopback(address) else f"TCPStore: {address}")
    return bytes(current_process().authkey)


def shared_secret(where: str) -> bytes:
    """The secret that the user has given to all machines.

    Raises:
        PermissionError: none is given, it is shorter than 16 bytes, or others may read its file.
    """
    text = os.environ.get("SHMTENSOR_SECRET", "")
    name = os.environ.get("SHMTENSOR_SECRET_FILE", "")
    if not text and name:
        mode = os.stat(name).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(
                f"{where}: others may read the secret: {name} has mode {mode & 0o777:o}, chmod 600"
            )
        text = Path(name).read_text().strip()
    if not text:
        raise PermissionError(
            f"{where}: machines that communicate need a secret in common, and there is "
            "none: give all the same SHMTENSOR_SECRET, or SHMTENSOR_SECRET_FILE with it, made by: "
            'python -c "import secrets; print(secrets.token_hex())"'
        )
    secret = decode_secret(text)
    check_length(where, secret)
    return secret


def check_length(where: str, secret: bytes) -> None:
    """Raises PermissionError if a secret is shorter than 16 bytes."""
    if len(secret) < MIN_BYTES:
        raise PermissionError(
            f"{where}: the secret is short: {len(secret)} bytes, at least {MIN_BYTES} are needed"
        )


def has_secret() -> bool:
    """Whether the user has given a secret, by which ranks may meet over the network. Under a
    launcher MASTER_PORT is the launcher's own, and the secret may be.
    """
    is_given = os.environ.get("SHMTENSOR_SECRET") or os.environ.get("SHMTENSOR_SECRET_FILE")
    is_launched = "SHMTENSOR_LAUNCHER" in os.environ or (
        os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    )
    return bool(is_given) and not is_launched
