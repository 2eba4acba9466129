"""The secret that processes on several machines share: who knows it may take part in a run.

The user sets it, because the machines have nothing else in common before they communicate:

| variable | value |
|---|---|
| SHMTENSOR_SECRET | the secret itself: hexadecimal, or any text |
| SHMTENSOR_SECRET_FILE | the name of a file with the secret, which only its owner can read |
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["shared_secret"]

MIN_BYTES = 16


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
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = text.encode()
    if len(secret) < MIN_BYTES:
        raise PermissionError(
            f"{where}: the secret is short: {len(secret)} bytes, at least {MIN_BYTES} are needed"
        )
    return secret
