"""Pickles written by hand, opcode by opcode, in files of `save`."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from shmtensor.serialization import load


def file_with(pickled: bytes, **records: bytes) -> io.BytesIO:
    """A file of tensors with this pickle and these storages."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, data in records.items():
            archive.writestr(f"archive/data/{name.strip('_')}", data)
    return file


def attempt(pickled: bytes, **records: bytes) -> Any:
    """Loads a pickle without its PROTO and STOP."""
    return load(file_with(b"\x80\x02" + pickled + b".", **records))


def refuses(pickled: bytes, match: str, **records: bytes) -> Callable[[], None]:
    def attack() -> None:
        with pytest.raises(pickle.UnpicklingError, match=match):
            attempt(pickled, **records)

    return attack


def word(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def number(value: int) -> bytes:
    return b"\x8a\x10" + value.to_bytes(16, "little", signed=True)
