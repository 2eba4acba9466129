"""Requests to the socket of a named tensor, answers of a hostile publisher, lines of the table of
sockets."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import memory
from shmtensor.errors import DomainError
from shmtensor.memory import list_names
from shmtensor.memory.control_message import (
    LENGTH,
    MAX_DESCRIPTORS,
    InvalidMessage,
    close_all,
    receive,
    take,
)
from shmtensor.memory.name_protocol import Layout

from ..memory import hostile

NAME = f"fuzz/{os.getpid()}"
PIECES = (
    b"[", b"]", b"{", b"}", b":", b",", b'"', b'"ask"', b'"open"', b'"describe"', b'"readonly"',
    b"true", b"false", b"null", b"NaN", b"-", b"1e999", b"\\u0000", b"\xff", b"\0", b"9" * 40,
)  # fmt: skip
NUMBERS = (0, 1, -1, 3, 4, 16, 48, 4096, 2**31, 2**62, -(2**62), 2**63, 2**64, 10**30)
VALUES = (None, True, "", "<f4", "|O", ">f8", "bfloat16", 1.5, float("nan"), [], {}, [[]], "0" * 99)


def forge(seed: int, count: int) -> None:
    """Tries `count` inputs, a third of each kind. A forged request gets an answer or the end of its
    connection, and an honest opener is served in between. A forged answer is refused, or is a
    layout inside its memory. A forged line of the table is left out, or is a valid name."""
    rng = random.Random(seed)
    tensor = st.arange(12, dtype=st.float32)
    memory.publish(NAME, tensor)
    try:
        for i in range(-(-count // 3)):
            send_request(rng)
            check_answer(rng)
            check_line(rng)
            if i % 500 == 0:
                assert memory.open(NAME).sum() == 66
        assert memory.open(NAME).sum() == 66
    finally:
        memory.unpublish(NAME)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The same with a few bytes changed, removed or repeated."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        i = rng.randrange(len(changed) + 1)
        j = min(i + rng.randrange(4), len(changed))
        changed[i:j] = rng.choice((b"", rng.randbytes(2), bytes(changed[:i]), rng.choice(PIECES)))
    return bytes(changed)


def packet(rng: random.Random, data: bytes) -> bytes:
    """A message with these bytes in place of JSON, mostly; its length may be forged."""
    kind = rng.randrange(8)
    if kind == 0:
        return data or b" "
    if kind == 1:
        return LENGTH.pack(rng.choice((0, 1, len(data) + 1, 2**32 - 1, rng.getrandbits(32)))) + data
    return damaged(rng, hostile.framed(data)) if kind == 2 else hostile.framed(data)


def request(rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 400))
    if kind == 1:
        return b"".join(rng.choices(PIECES, k=rng.randrange(1, 60)))
    if kind == 2:
        return rng.choice((b"[", b'{"":', b"[{", b'"')) * rng.randrange(1, 9000 // 4)
    honest = {"ask": rng.choice(("describe", "open")), "readonly": rng.choice(VALUES)}
    return damaged(rng, json.dumps(honest).encode())


def send_request(rng: random.Random) -> None:
    with hostile.connected(os.geteuid(), NAME) as connection:
        connection.settimeout(20)
        connection.send(packet(rng, request(rng)) or b" ")
        try:
            answer, fds = receive(connection, os.geteuid(), 20, max_descriptors=MAX_DESCRIPTORS)
        except ConnectionError:
            return
        close_all(fds)
        assert "shape" in answer
        assert len(fds) in (0, 3)


def answer(rng: random.Random) -> dict[str, Any]:
    forged: dict[str, Any] = json.loads(json.dumps(hostile.LAYOUT))
    for _ in range(rng.randrange(1, 4)):
        key = rng.choice(list(hostile.LAYOUT))
        number = rng.choice((*NUMBERS, rng.randrange(-100, 100)))
        if rng.randrange(3) == 0:
            forged[key] = rng.choice((*VALUES, number))
        elif isinstance(value := forged.get(key), list):
            value[rng.randrange(len(value) + 1) :] = [number] * rng.choice((1, 1, 2, 70))
        elif key in ("offset", "mode"):
            forged[key] = number
        else:
            forged.pop(key, None)
    return forged


def check_answer(rng: random.Random) -> None:
    text = json.dumps(answer(rng)).encode()
    data = packet(rng, damaged(rng, text) if rng.randrange(4) == 0 else text)
    memory_of_it = np.zeros(rng.choice((0, 48, 4096)), np.uint8)
    try:
        buffer = bytearray(data)
        while (message := take(buffer)) is None or buffer:
            if message is None:
                return
        array = Layout.of(message).array(memory_of_it)
    except InvalidMessage:
        return
    if array.size < 1 << 16:
        array.tobytes()  # reads all of it
    low, high = np.lib.array_utils.byte_bounds(array)
    start = memory_of_it.__array_interface__["data"][0]
    assert not array.size or start <= low <= high <= start + memory_of_it.nbytes
    if rng.randrange(50) == 0:  # by a connection, too, with a file
        with hostile.forged_publisher(NAME + "/forged", (data, (hostile.sealed,))):
            try:
                memory.open(NAME + "/forged", readonly=True)
            except (DomainError, PermissionError, FileNotFoundError):
                pass


LINE = b"0000000000000000: 00000002 00000000 00010000 0005 01 12345 @shmtensor:3:7:a/b"


def check_line(rng: random.Random) -> None:
    for uid, name in list_names.listed(damaged(rng, LINE)):
        assert 0 <= uid < 1 << 32
        assert list_names.NAME.fullmatch(name)
