"""What a hostile process does to a named tensor: forged answers, forged requests, attacks on what
it was given. Runs in this process, or in an actor that has become another user."""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from shmtensor import native
from shmtensor.memory import name_protocol
from shmtensor.memory.control_message import LENGTH, encode
from shmtensor.memory.published_file import PublishedFile, file_of

BECOME = "os.setgroups([]); os.setgid(65534); os.setuid(65534)"
NOBODY = 65534
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
LAYOUT: dict[str, Any] = {
    "id": "0:0", "shape": [3, 4], "strides": [16, 4], "dtype": "<f4", "offset": 0,
    "readonly": False, "mode": 0o666,
}  # fmt: skip


# ---- files
def sealed(nbytes: int = 4096, seals: int = SEALS, flags: int = 0) -> int:
    fd = os.memfd_create("forged", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
    os.ftruncate(fd, nbytes)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def huge_pages() -> int:
    try:
        return sealed(2 << 20, flags=os.MFD_HUGETLB)
    except OSError:  # the kernel has none: another file that is refused
        return pipe()


def pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


def named_file() -> int:
    fd, path = tempfile.mkstemp(dir="/dev/shm")
    os.unlink(path)
    os.ftruncate(fd, 4096)
    return fd


def read_only() -> int:
    fd = sealed()
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(fd)


def framed(data: bytes) -> bytes:
    """A message with this in place of JSON."""
    return LENGTH.pack(len(data)) + data


# ---- answers: a message, and what makes its descriptors
Answer = tuple[bytes, tuple[Callable[[], int], ...]]


def answer(*files: Callable[[], int], **changes: Any) -> Answer:
    return framed(json.dumps({**LAYOUT, **changes}).encode()), files


def without(key: str) -> Answer:
    message = {k: v for k, v in LAYOUT.items() if k != key}
    return framed(json.dumps(message).encode()), (sealed,)


ANSWERS: dict[str, Answer] = {
    "bytes": (framed(b"\xff\xfe\x00garbage"), ()),
    "a number": (framed(b"1"), ()),
    "a list": (framed(b"[]"), ()),
    "an empty dictionary": (framed(b"{}"), ()),
    "8000 brackets": (framed(b"[" * 8000), ()),
    "brackets in a dictionary": (framed(b'{"shape":' + b"[" * 4000), ()),
    "a deep shape": (framed(b'{"shape":' + b"[" * 900 + b"]" * 900 + b"}"), ()),
    "too long": (framed(b" " * 9000 + b"{}"), ()),
    "no length": (json.dumps(LAYOUT).encode(), (sealed,)),
    "a length beyond the packet": (framed(json.dumps(LAYOUT).encode())[:-1], (sealed,)),
    "two messages": (framed(b"{}") * 2, ()),
    "half a length": (b"\0\0", ()),
    "huge digits": answer(sealed, shape=[10**4200, 1]),
    "no shape": without("shape"),
    "no mode": without("mode"),
    "a shape that is text": answer(sealed, shape="34"),
    "sizes that are text": answer(sealed, shape=["3", "4"]),
    "sizes that are true": answer(sealed, shape=[True, True]),
    "fractions": answer(sealed, shape=[3.0, 4.0]),
    "infinity": answer(sealed, offset=float("inf")),
    "negative sizes": answer(sealed, shape=[-3, -4]),
    "absurd sizes": answer(sealed, shape=[2**40, 2**40], strides=[0, 0]),
    "a size beyond the file": answer(sealed, shape=[1025], strides=[4]),
    "a stride beyond the file": answer(sealed, strides=[2**40, 4]),
    "a stride before the file": answer(sealed, strides=[-16, 4]),
    "an overflowing stride": answer(sealed, shape=[2**61, 2], strides=[2**61, 2**61]),
    "an offset beyond the file": answer(sealed, offset=4096),
    "a negative offset": answer(sealed, offset=-8),
    "more strides than sizes": answer(sealed, strides=[16, 4, 4]),
    "65 dimensions": answer(sealed, shape=[1] * 65, strides=[4] * 65),
    "objects": answer(sealed, dtype="|O"),
    "records": answer(sealed, dtype="f4,f4"),
    "the other byte order": answer(sealed, dtype=">f4"),
    "a dtype that is a number": answer(sealed, dtype=7),
    "a mode that is text": answer(sealed, mode="0666"),
    "no descriptor": answer(),
    "two descriptors": answer(sealed, sealed),
    "five descriptors": answer(sealed, sealed, sealed, sealed, sealed),
    "no seals": answer(lambda: sealed(seals=0)),
    "seals that can be removed by growing": answer(lambda: sealed(seals=fcntl.F_SEAL_SHRINK)),
    "a file that is too short": answer(lambda: sealed(40)),
    "an empty file": answer(lambda: sealed(0)),
    "a file of huge pages": answer(huge_pages),
    "a file that is read-only": answer(read_only),
    "a pipe": answer(pipe),
    "a folder": answer(lambda: os.open("/", os.O_RDONLY)),
    "a file with a name": answer(named_file),
}  # fmt: skip


class ForgedPublisher:
    """Serves a name: each client that asks gets the same forged answer; None: no answer."""

    def __init__(self, uid: int, name: str, forged: Answer | None) -> None:
        self.forged = forged
        self.clients: list[socket.socket] = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(name_protocol.address(uid, name))
        self.listener.listen(16)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.clients.append(client)
            if client.recv(1000) and self.forged is not None:
                data, files = self.forged
                fds = array.array("i", [file() for file in files])
                try:
                    client.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
                finally:
                    for fd in fds:
                        os.close(fd)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        for sock in (self.listener, *self.clients):
            sock.close()


@contextmanager
def forged_publisher(name: str, forged: Answer | None) -> Iterator[None]:
    publisher = ForgedPublisher(os.geteuid(), name, forged)
    try:
        yield
    finally:
        publisher.close()


def domain_answer() -> Answer:
    """An honest answer with the descriptors of this process's own domain."""
    block = native.allocate(48, shared=True)
    kept.append(block)
    handle = native.export(block)
    native.acknowledge(handle)
    files = tuple(lambda fd=fd: os.dup(fd) for fd in native.domain_fds())  # type: ignore[misc]
    return answer(*files, handle=handle.hex())


kept: list[Any] = []


# ---- requests
REQUESTS: dict[str, bytes] = {
    "8000 brackets": framed(b"[" * 8000),
    "200 brackets": framed(b"[" * 200),
    "objects": framed(b'{"a":' * 50),
    "bytes": framed(bytes(range(256))),
    "half a request": framed(b'{"ask": "op'),
    "a list": framed(b"[]"),
    "a number": framed(b"7"),
    "nothing asked": framed(b"{}"),
    "an unknown question": framed(b'{"ask": "exec"}'),
    "a question that is a list": framed(b'{"ask": ["open"]}'),
    "too long": framed(b'{"ask": "describe"' + b" " * 300 + b"}"),
    "no length": b'{"ask": "describe"}',
    "an absurd length": b"\xff\xff\xff\xff" + b'{"ask": "describe"}',
    "a length beyond the packet": framed(b'{"ask": "describe"}')[:-1],
    "two requests": framed(b'{"ask": "describe"}') * 2,
    "half a length": b"\0\0",
}


def connected(uid: int, name: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(name_protocol.address(uid, name))
    except BaseException:
        connection.close()
        raise
    return connection


def request_with_descriptors(uid: int, name: str, n: int) -> None:
    """A request with `n` descriptors; waits until the other end has answered or closed."""
    with connected(uid, name) as connection:
        null = os.open("/dev/null", os.O_RDONLY)
        try:
            fds = array.array("i", [null] * n)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
            connection.sendmsg([encode({"ask": "describe"})], rights)
        finally:
            os.close(null)
        connection.recv(1000)


def ask_and_never_read(uid: int, name: str) -> None:
    """Asks until the other end closes the connection."""
    with connected(uid, name) as connection, contextlib.suppress(OSError):
        while True:
            connection.send(encode({"ask": "describe"}))


# ---- attacks on a file that was let in
def attack(tensor: Any) -> list[str]:
    """What of all that would change a reader's file or reach beyond it does succeed."""
    file = file_of(tensor.array)
    assert file is not None
    fd, size = file.descriptor, os.fstat(file.descriptor).st_size
    address = tensor.array.__array_interface__["data"][0] & -mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    PUNCH_HOLE, KEEP_SIZE, REMOVE = 2, 1, 9
    offset = ctypes.c_int64
    attempts: dict[str, Callable[[], Any]] = {
        "pwrite": lambda: os.pwrite(fd, b"x", 0),
        "map for writing": lambda: mmap.mmap(fd, size).close(),
        "mprotect": lambda: check(
            libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 3)
        ),
        "madvise": lambda: check(
            libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), REMOVE)
        ),
        "punch a hole": lambda: check(
            libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset(0), offset(size))
        ),
        "reopen": lambda: os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDWR)),
        "chmod": lambda: os.fchmod(fd, 0o666),
        "flags.writeable": lambda: setattr(tensor.array.flags, "writeable", True),
        **resize_attempts(file),
    }
    return [name for name, attempt in attempts.items() if succeeds(attempt)]


def resize_attempts(file: PublishedFile) -> dict[str, Callable[[], Any]]:
    fd, size = file.descriptor, os.fstat(file.descriptor).st_size
    return {
        "truncate": lambda: os.ftruncate(fd, 0),
        "grow": lambda: os.ftruncate(fd, size + 4096),
        "allocate": lambda: os.posix_fallocate(fd, 0, size + 4096),
        "seal": lambda: fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
    }


def resize_attack(tensor: Any) -> list[str]:
    file = file_of(tensor.array)
    assert file is not None
    return [name for name, attempt in resize_attempts(file).items() if succeeds(attempt)]


def check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")


def succeeds(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except (OSError, ValueError):
        return False
    return True


def inodes() -> set[tuple[int, int]]:
    """The files that this process has open."""
    result = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:  # the descriptor of this listing
            continue
        result.add((status.st_dev, status.st_ino))
    return result
