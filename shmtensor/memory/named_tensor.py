"""Named tensors: for programs that share no ancestor.

    publish("weights", t)          open("weights")          names()          unpublish("weights")

The opener sees the same memory: it becomes a guest of the tensor's domain. A name ends with the
last process that published or opened its tensor; no file system is involved.
`named_tensor_server.py` has the protocol.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import native
from ..dtypes import bfloat16
from ..errors import StaleHandle
from . import named_tensor_server
from .named_tensor_server import NameServer, ask, server_thread

__all__ = ["Domain", "Name", "domains", "names", "open", "publish", "unpublish"]

_NAME = re.compile(r"[\w.:@/+-]{1,80}", re.ASCII)


def _check_name(where: str, name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where}: a name is a str: {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{where}: a name has 1 to 80 letters, digits and any of . _ : @ / + -: {name!r}"
        )
    return name


def publish(name: str, tensor: Any, *, mode: int = 0o600) -> None:
    """Gives a tensor a name by which any program on this machine can open it.

    The tensor is kept until `unpublish` or the end of this process. A process that may open it for
    writing joins this process's domain and can damage every tensor in it. A process that may only
    read still writes to the domain's ledger. Grant access only to users whom you trust that far.

    Args:
        name: one publisher per user and name; letters, digits and `. _ : @ / + -`.
        tensor: a Tensor or array in shared memory, of a numeric dtype, any shape and strides.
        mode: who may open it, as for a file: 4 reads, 2 writes; this user, its group, others.

    Copies: none

    Raises:
        ValueError: a bad name or mode, or memory that is not shared (`share_memory_()` moves it).
        FileExistsError: the name is taken.
    """
    _check_name("publish", name)
    if not isinstance(mode, int) or isinstance(mode, bool) or mode & ~0o666:
        raise ValueError(f"publish: a mode has bits of 0o666: {mode!r}")
    for bits in (mode >> 6, mode >> 3 & 7, mode & 7):
        if bits == 2:
            raise ValueError(f"publish: a mode that grants writing must grant reading: {mode:#o}")
    array = np.asarray(tensor.detach().array if hasattr(tensor, "detach") else tensor)
    if array.dtype.hasobject or array.dtype.kind not in "biufc" or not array.dtype.isnative:
        raise ValueError(f"publish: not of a numeric dtype: {array.dtype}")
    if not native.is_shared(array):
        raise ValueError(
            f"publish: the memory of {name!r} is not shared: {array.nbytes} bytes of "
            f"{array.dtype}, share_memory_() moves a tensor there"
        )
    handle = native.export(array)
    native.acknowledge(handle)  # nothing is in flight: this process keeps the block
    base, _ = native.block_of(array)
    about = {
        "id": handle[:16].hex(),
        "shape": array.shape,
        "strides": array.strides,
        "dtype": "bfloat16" if array.dtype == bfloat16 else array.dtype.str,
        "offset": array.ctypes.data - base,
        "readonly": not array.flags.writeable,
    }
    if not array.flags.writeable:
        mode &= 0o444
    server = NameServer(os.geteuid(), name, mode, about, handle, array)
    named_tensor_server.fault_point("publish.exported")
    try:
        server.bind()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise FileExistsError(
            f"publish: the name is taken: {name!r} of user {server.uid}{_holder(server.uid, name)}"
        ) from error
    server_thread.add(server)


def _holder(uid: int, name: str) -> str:
    with contextlib.suppress(OSError, ValueError):
        connection, (_, fds) = ask(uid, name, {"ask": "describe"}, 1.0)
        pid = named_tensor_server.peer(connection)[0]
        connection.close()
        for fd in fds:
            os.close(fd)
        return f", held by pid {pid}"
    return ""


def unpublish(name: str) -> None:
    """Withdraws a name. Tensors opened by it stay valid; it cannot be opened any more.

    Raises:
        FileNotFoundError: this process has not published that name.
    """
    with server_thread.lock:
        server = server_thread.servers.get((os.geteuid(), _check_name("unpublish", name)))
        if server is None or server.array is None:
            raise FileNotFoundError(f"unpublish: not published by this process: {name!r}")
        server_thread.remove(server, notify=True)


def open(
    name: str, *, readonly: bool = False, owner: int | None = None, timeout: float = 0.0
) -> Any:
    """The tensor that another program published under a name: the same memory.

    This process becomes a guest of the tensor's domain until it has freed everything that it opened
    there. The tensor stays valid when the publisher dies.

    Args:
        readonly: writes through this tensor raise an error. The kernel refuses them, too, if the
            publisher is another user, or if this process opened nothing there for writing.
        owner: the id of the user who published it; default this one.
        timeout: seconds to wait for the name to be published.

    Copies: none

    Raises:
        FileNotFoundError: nobody has published it (each network namespace has its own names).
        PermissionError: its mode excludes this user, or another user holds the name.
        TimeoutError: its holder does not answer.
        DomainError: its domain cannot be joined: no row is free, or no address space.
    """
    _check_name("open", name)
    uid = os.geteuid() if owner is None else owner
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _open(uid, name, readonly)
        except ConnectionError:
            if time.monotonic() >= deadline:
                raise FileNotFoundError(
                    f"open: no such name: {name!r} of user {uid} (a name ends with the last "
                    "process that published or opened it, and belongs to one network namespace)"
                ) from None
            time.sleep(0.01)


def _open(uid: int, name: str, readonly: bool) -> Any:
    link, (answer, fds) = ask(
        uid, name, {"ask": "open", "readonly": readonly}, named_tensor_server.ANSWER_TIMEOUT
    )
    named_tensor_server.fault_point("open.answered")
    try:
        if answer.get("gone"):
            raise ConnectionError("it was unpublished")
        if "refused" in answer:
            raise PermissionError(f"open: {name!r}: {answer['refused']}")
        try:
            array, block = _receive_array(name, answer, fds, readonly)
        except StaleHandle as error:  # its last holder died before this process held it
            raise ConnectionError("its holder has died") from error
        named_tensor_server.fault_point("open.held")
    except BaseException:
        link.close()
        raise
    finally:
        for fd in fds:
            os.close(fd)
    about = {key: answer[key] for key in ("id", "shape", "strides", "dtype", "offset", "readonly")}
    mode = int(answer["mode"]) & (0o444 if readonly else 0o666)
    handle = bytes.fromhex(answer["handle"])
    server_thread.follow(NameServer(uid, name, mode, about, handle, link=link), block)
    return native.wrap(array)


def _dtype(text: str) -> Any:
    """The dtype of an answer; NumPy has no name for bfloat16."""
    return bfloat16 if text == "bfloat16" else np.dtype(text)


def _receive_array(name: str, answer: dict[str, Any], fds: list[int], readonly: bool) -> Any:
    """The array and its block. Checks everything in the answer against the block."""
    try:
        handle = bytes.fromhex(answer["handle"])
        dtype = _dtype(answer["dtype"])
        shape, strides = tuple(answer["shape"]), tuple(answer["strides"])
        offset = int(answer["offset"])
        if dtype.kind not in "biufc" or len(fds) not in (3, 4) or len(shape) != len(strides):
            raise ValueError(f"dtype {dtype}, {len(fds)} descriptors, shape {shape}")
        if not all(isinstance(n, int) for n in (*shape, *strides)):
            raise ValueError(f"shape {shape}, strides {strides}")
        block = native.guest_receive(
            (fds[0], fds[1], fds[2]), fds[3] if len(fds) == 4 else -1, readonly, handle
        )
        # NumPy refuses a layout that does not fit the buffer.
        array: Any = np.ndarray(shape, dtype, block, offset, strides)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"open: {name!r}: invalid answer: {error}") from error
    if readonly or answer.get("readonly"):
        array.flags.writeable = False
    return array, block


@dataclass(frozen=True)
class Name:
    """A published tensor, as its holder describes it.

    Attributes:
        name, owner: arguments of `open`: the name and the user id.
        pid: the process that serves it; 0 in another pid namespace; None: it does not answer, or
            this user may not read it.
        shape, dtype, nbytes, mode: of the tensor; None where pid is.
    """

    name: str
    owner: int
    pid: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    nbytes: int | None = None
    mode: int | None = None


def names() -> list[Name]:
    """All names of all users in this network namespace, sorted.

    Raises:
        OSError: /proc/net/unix cannot be read.
    """
    pairs = set()
    with Path("/proc/net/unix").open() as table:
        for line in table:
            _, prefix, address = line.rstrip("\n").partition("@" + named_tensor_server.PREFIX)
            uid, colon, name = address.partition(":")
            # columns: num refcount protocol flags ...; flags 00010000: the socket listens
            if prefix and colon and uid.isdigit() and line.split()[3] == "00010000":
                pairs.add((name, int(uid)))
    return [_describe(name, uid) for name, uid in sorted(pairs)]


def _describe(name: str, uid: int) -> Name:
    try:
        connection, (answer, fds) = ask(uid, name, {"ask": "describe"}, 1.0)
        with connection:
            pid = named_tensor_server.peer(connection)[0]
        for fd in fds:
            os.close(fd)
        dtype, shape = _dtype(answer["dtype"]), tuple(int(n) for n in answer["shape"])
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return Name(name, uid, pid, shape, dtype.name, size, int(answer["mode"]))
    except (OSError, KeyError, TypeError, ValueError):
        return Name(name, uid)


@dataclass(frozen=True)
class Domain:
    """A domain that this process is in.

    Attributes:
        id: 16 bytes.
        own: whether this process's heap is part of it; in the other domains it is a guest.
        row, incarnation: this process's entry in its process table.
        readonly: whether this process may not write to its tensors.
        processes, zombies: rows of living processes; of dead ones with unread messages.
        slots_used, slots_orphaned: slots of 64 MiB in use; held without an owner.
        held_blocks: blocks of other processes that this process holds there.
    """

    id: bytes
    own: bool
    row: int
    incarnation: int
    readonly: bool
    processes: int
    zombies: int
    slots_used: int
    slots_orphaned: int
    held_blocks: int


def domains() -> list[Domain]:
    """The domains that this process is in, its own first; empty before it creates or joins one."""
    return [Domain(**record) for record in native.domains()]
