"""Named tensors: for programs that share no ancestor.

    publish("weights", t)          open("weights")          names()          unpublish("weights")

The opener sees the same memory: it becomes a guest of the domain in which the tensor lies. A name
dies with the last process that published or opened its tensor; nothing of it lies in a file system.
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
from .named_tensor_server import NameServer, ask, keeper

__all__ = ["Domain", "Name", "domains", "names", "open", "publish", "unpublish"]

_NAME = re.compile(r"[\w.:@/+-]{1,80}", re.ASCII)


def _checked(where: str, name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where}: a name is a str: {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{where}: a name has 1 to 80 letters, digits and any of . _ : @ / + -: {name!r}"
        )
    return name


def publish(name: str, tensor: Any, *, mode: int = 0o600) -> None:
    """Gives a tensor a name under which any program on this machine opens it.

    The tensor is kept until `unpublish` or the end of this process. Whoever may open it for writing
    becomes a member of this process's domain and could damage every tensor in it; whoever only may
    read still writes to the domain's ledger. So open a name only to those whom you trust that far.

    Args:
        name: one publisher per user and name; letters, digits and `. _ : @ / + -`.
        tensor: a Tensor or array in shared memory, of a numeric dtype, any shape and strides.
        mode: who may open it, as for a file: 4 reads, 2 writes; this user, its group, others.

    Copies: none

    Raises:
        ValueError: a bad name or mode, or memory that is not shared (`share_memory_()` moves it).
        FileExistsError: the name is taken.
    """
    _checked("publish", name)
    if not isinstance(mode, int) or isinstance(mode, bool) or mode & ~0o666:
        raise ValueError(f"publish: a mode has bits of 0o666: {mode!r}")
    for bits in (mode >> 6, mode >> 3 & 7, mode & 7):
        if bits == 2:
            raise ValueError(f"publish: who may write must be able to read: mode {mode:#o}")
    array = np.asarray(tensor.detach().array if hasattr(tensor, "detach") else tensor)
    if array.dtype.hasobject or array.dtype.kind not in "biufc" or not array.dtype.isnative:
        raise ValueError(f"publish: not of a numeric dtype: {array.dtype}")
    if not native.is_shared(array):
        raise ValueError(
            f"publish: the memory of {name!r} is not shared: {array.nbytes} bytes of "
            f"{array.dtype}, share_memory_() moves a tensor there"
        )
    handle = native.export(array)
    native.acknowledge(handle)  # no message is under way: this process keeps the block
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
    made = NameServer(os.geteuid(), name, mode, about, handle, keeps=array)
    named_tensor_server.speak("publish.exported")
    try:
        made.bind()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise FileExistsError(
            f"publish: the name is taken: {name!r} of user {made.uid}{_holder(made.uid, name)}"
        ) from error
    keeper.add(made)


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
    """Takes a name back. Tensors that were opened by it stay; nobody opens it any more.

    Raises:
        FileNotFoundError: this process has not published that name.
    """
    with keeper.lock:
        found = keeper.doors.get((os.geteuid(), _checked("unpublish", name)))
        if found is None or found.keeps is None:
            raise FileNotFoundError(f"unpublish: not published by this process: {name!r}")
        keeper.remove(found, farewell=True)


def open(
    name: str, *, readonly: bool = False, owner: int | None = None, timeout: float = 0.0
) -> Any:
    """The tensor that another program published under a name: the same memory.

    This process becomes a guest of the domain in which the tensor lies, until it has let go of
    everything there. The tensor stays valid when the publisher dies.

    Args:
        readonly: writes through this tensor are refused; where the publisher is another user, or
            this process writes to nothing else there, the kernel refuses them, too.
        owner: the user who published it; default this one.
        timeout: seconds to wait for the name to be published.

    Copies: none

    Raises:
        FileNotFoundError: nobody has published it (names are seen within a network namespace).
        PermissionError: its mode does not let this user, or another user sits on the name.
        TimeoutError: its holder does not answer.
        DomainError: its domain cannot be joined: no row is free, or no address space.
    """
    _checked("open", name)
    uid = os.geteuid() if owner is None else owner
    end = time.monotonic() + timeout
    while True:
        try:
            return _open(uid, name, readonly)
        except ConnectionError:
            if time.monotonic() >= end:
                raise FileNotFoundError(
                    f"open: no such name: {name!r} of user {uid} (a name ends with the last "
                    "process that published or opened it, and is seen in one network namespace)"
                ) from None
            time.sleep(0.01)


def _open(uid: int, name: str, readonly: bool) -> Any:
    link, (answer, fds) = ask(
        uid, name, {"ask": "open", "readonly": readonly}, named_tensor_server.ANSWER_TIMEOUT
    )
    named_tensor_server.speak("open.answered")
    try:
        if answer.get("gone"):
            raise ConnectionError("it was taken back")
        if "refused" in answer:
            raise PermissionError(f"open: {name!r}: {answer['refused']}")
        try:
            array, block = _received(name, answer, fds, readonly)
        except StaleHandle as error:  # its last holder died before this process held it
            raise ConnectionError("its holder has gone") from error
        named_tensor_server.speak("open.held")
    except BaseException:
        link.close()
        raise
    finally:
        for fd in fds:
            os.close(fd)
    about = {key: answer[key] for key in ("id", "shape", "strides", "dtype", "offset", "readonly")}
    mode = int(answer["mode"]) & (0o444 if readonly else 0o666)
    handle = bytes.fromhex(answer["handle"])
    keeper.follow(NameServer(uid, name, mode, about, handle, link=link), block)
    return native.wrap(array)


def _dtype(text: str) -> Any:
    """The dtype of an answer; NumPy has no name for bfloat16."""
    return bfloat16 if text == "bfloat16" else np.dtype(text)


def _received(name: str, answer: dict[str, Any], fds: list[int], readonly: bool) -> Any:
    """The array and its block, everything in the answer checked against the block."""
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
        # NumPy refuses what does not fit the buffer.
        array: Any = np.ndarray(shape, dtype, block, offset, strides)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"open: {name!r}: not an answer of a holder: {error}") from error
    if readonly or answer.get("readonly"):
        array.flags.writeable = False
    return array, block


@dataclass(frozen=True)
class Name:
    """A published tensor, as its holder describes it.

    Attributes:
        name, owner: what to open: the name and the user id.
        pid: who serves it; 0 in another pid namespace; None: it does not answer or may not be read.
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
    """Every name of every user that can be seen from here, sorted.

    Raises:
        OSError: /proc/net/unix cannot be read.
    """
    found = set()
    with Path("/proc/net/unix").open() as table:
        for line in table:
            _, at, rest = line.rstrip("\n").partition("@" + named_tensor_server.PREFIX)
            uid, colon, name = rest.partition(":")
            # num refcount protocol flags ...: 00010000 listens
            if at and colon and uid.isdigit() and line.split()[3] == "00010000":
                found.add((name, int(uid)))
    return [_described(name, uid) for name, uid in sorted(found)]


def _described(name: str, uid: int) -> Name:
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
        id: 16 bytes. own: its heap lies there; in the others it is a guest.
        row, incarnation: this process's place in it. readonly: it may not write to the tensors.
        processes, zombies: rows of living processes; of dead ones with unread messages.
        slots_used, slots_orphaned: slots of 64 MiB in use; held without an owner.
        held_blocks: blocks of others that this process holds there.
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
    """The domains that this process is in, its own first; none before it made or joined one."""
    return [Domain(**record) for record in native.domains()]
