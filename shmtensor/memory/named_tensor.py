"""Named tensors: for programs that share no ancestor.

    publish("weights", t)          open("weights")          names()          unpublish("weights")

The opener sees the same memory: as a guest of the tensor's domain if it is the same user, else by
a file that holds this storage alone. A name ends with the last process that published or opened its
tensor; no file system is involved. `named_tensor_server.py` has the protocol.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import native
from ..errors import DomainError, StaleHandle
from . import name_protocol
from .control_message import InvalidMessage, close_all
from .list_names import NAME
from .name_protocol import Layout, ask
from .named_tensor_server import NameServer, server_thread
from .peer_credentials import peer
from .published_file import PublishedFile, file_of, move_to_file


def _check_name(where: str, name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where}: a name is a str: {type(name).__name__}")
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{where}: a name has 1 to 80 letters, digits and any of . _ : @ / + -: {name!r}"
        )
    return name


def publish(name: str, tensor: Any, *, mode: int = 0o600) -> None:
    """Gives a tensor a name by which any program on this machine can open it.

    Parameters
    ----------
    name : str
        One publisher per user and name; letters, digits and `. _ : @ / + -`.
    tensor : Tensor or ndarray
        In shared memory, of a numeric dtype, any shape and strides.
    mode : int, optional
        Who may open it, as for a file: 4 reads, 2 writes; this user, its group, others.

    Raises
    ------
    ValueError
        A bad name or mode; memory that is not shared (`share_memory_()` moves it), or that must
        move and cannot, because another process, a NumPy array or a value saved for backward
        refers to it: publish it before they do, or publish `tensor.clone()`.
    FileExistsError
        The name is taken.
    OutOfSharedMemory
        No memory for a file of its own.

    See Also
    --------
    open, unpublish, names

    Notes
    -----
    Copies: none; one of the storage if the mode goes beyond this user.

    The tensor is kept until `unpublish` or the end of this process.

    A mode for this user alone (0600, 0400) leaves the memory where it is. A process that opens it
    joins this process's domain, and could reach all of its tensors.

    A mode beyond that (0640, 0644, 0666) moves the tensor's storage, with all tensors that view it,
    into a file of its own: whoever may open the name sees that storage, all of it, and nothing
    else; in an `empty` one, that nobody has filled, the bytes of freed tensors. Later writes are
    seen on both sides. From then on the memory is not in the domain: `is_shared()` is False, queues
    send copies, `share_memory_()` gives the tensor new memory that the name does not follow, and a
    forked child shares it. Addresses taken before (`data_ptr()`) are of the former memory, and no
    other thread may use these tensors during the move. Root counts as this user, but opens only
    what is in a file.

    Examples
    --------
    >>> import os
    >>> name = f"example-{os.getpid()}"
    >>> st.memory.publish(name, st.arange(3))
    >>> st.memory.open(name, readonly=True)
    tensor([0, 1, 2])
    >>> st.memory.unpublish(name)
    """
    _check_name("publish", name)
    if not isinstance(mode, int) or isinstance(mode, bool) or mode & ~0o666:
        raise ValueError(f"publish: a mode has bits of 0o666: {mode!r}")
    for bits in (mode >> 6, mode >> 3 & 7, mode & 7):
        if bits == 2:
            raise ValueError(f"publish: a mode that grants writing must grant reading: {mode:#o}")
    mode, is_in_file = _check_memory(name, _array_of(tensor), mode)
    server = NameServer(os.geteuid(), name, mode)
    try:
        server.bind()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise FileExistsError(
            f"publish: the name is taken: {name!r} of user {server.uid}{_holder(server.uid, name)}"
        ) from error
    try:
        if mode & 0o077 and not is_in_file:
            move_to_file(tensor, mode)
        _export(server, _array_of(tensor))
    except BaseException:
        server.close()
        raise
    server_thread.add(server)


def _array_of(tensor: Any) -> Any:
    return np.asarray(tensor.detach().array if hasattr(tensor, "detach") else tensor)


def _check_memory(name: str, array: Any, mode: int) -> tuple[int, bool]:
    """What of the mode the array can grant, and whether its memory is in a file of its own. Returns
    no array: each reference to one counts when it is moved."""
    if array.dtype.hasobject or array.dtype.kind not in "biufc" or not array.dtype.isnative:
        raise ValueError(f"publish: not of a numeric dtype: {array.dtype}")
    file = file_of(array)
    if file is None and not native.is_shared(array):
        raise ValueError(
            f"publish: the memory of {name!r} is not shared: {array.nbytes} bytes of "
            f"{array.dtype}, share_memory_() moves a tensor there"
        )
    if not array.flags.writeable:
        mode &= 0o444
    if file is None:
        return mode, False
    if (owner := os.fstat(file.descriptor).st_uid) != os.geteuid():
        raise ValueError(
            f"publish: the memory of {name!r} belongs to another user: {owner}, publish "
            "tensor.clone()"
        )
    if mode & 0o222 and file.is_final:
        raise ValueError(
            f"publish: mode {mode:#o} lets write what was published for reading only, which is "
            "final: publish it with the widest mode first, or publish tensor.clone()"
        )
    return mode, True


def _export(server: NameServer, array: Any) -> None:
    """Lets the server describe and send the array."""
    file = file_of(array)
    if file is not None:
        start, server_id = file.memory().__array_interface__["data"][0], file.id
    else:
        handle = native.export(array)
        native.acknowledge(handle)  # nothing is in flight: this process keeps the block
        server.handle = handle
        start, server_id = native.block_of(array)[0], handle[:16].hex()
    offset = array.__array_interface__["data"][0] - start
    server.about = {"id": server_id, **Layout.describe(array, offset)}
    server.array = array
    name_protocol.fault_point("publish.exported")


def _holder(uid: int, name: str) -> str:
    with contextlib.suppress(OSError, InvalidMessage):
        connection, _, fds = ask(uid, name, {"ask": "describe"}, 1.0)
        close_all(fds)
        with connection:
            return f", held by pid {peer(connection)[0]}"
    return ""


def unpublish(name: str) -> None:
    """Withdraws a name. Tensors opened by it stay valid; it cannot be opened any more.

    Parameters
    ----------
    name : str
        As given to `publish`.

    Raises
    ------
    FileNotFoundError
        This process has not published that name.

    Examples
    --------
    >>> import os
    >>> name = f"example-{os.getpid()}"
    >>> st.memory.publish(name, st.ones(2))
    >>> opened = st.memory.open(name)
    >>> st.memory.unpublish(name)
    >>> opened
    tensor([1., 1.])
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

    Parameters
    ----------
    name : str
        As given to `publish`.
    readonly : bool, optional
        Writes through this tensor raise an error, and its array cannot be made writable. The
        kernel refuses them, too, if the memory is in a file of its own, or if this process opened
        nothing in its domain for writing.
    owner : int, optional
        The id of the user who published it; this one by default.
    timeout : float, optional
        Seconds to wait for the name to be published.

    Returns
    -------
    Tensor
        Of the publisher's shape, strides and dtype. It stays valid when the publisher dies.

    Raises
    ------
    FileNotFoundError
        Nobody has published it (each network namespace has its own names).
    PermissionError
        Its mode excludes this user, or another user holds the name.
    TimeoutError
        Its holder does not answer within 5 s.
    DomainError
        Its domain cannot be joined (no row is free, no address space), or its holder sends what no
        honest process sends.

    Notes
    -----
    Copies: none.

    From a process of this user: this process becomes a guest of the tensor's domain until it has
    freed everything that it opened there. From another user: it gets the file of that storage, and
    neither side can reach anything else of the other. What the other user sends is checked before
    it is used, and its file cannot shrink. Its numbers may change while they are read: check an
    index before you use it.

    Examples
    --------
    >>> import os
    >>> name = f"example-{os.getpid()}"
    >>> x = st.zeros(3)
    >>> st.memory.publish(name, x)
    >>> y = st.memory.open(name)  # also in another program
    >>> y[0] = 5
    >>> x
    tensor([5., 0., 0.])
    >>> st.memory.unpublish(name)
    >>> st.memory.open(name)
    Traceback (most recent call last):
    FileNotFoundError: open: no such name: ...
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
        except InvalidMessage as error:
            raise DomainError(
                f"open: the holder of {name!r} of user {uid} sends an invalid answer: {error}"
            ) from None


def _open(uid: int, name: str, readonly: bool) -> Any:
    request = {"ask": "open", "readonly": readonly}
    link, answer, fds = ask(uid, name, request, name_protocol.ANSWER_TIMEOUT)
    name_protocol.fault_point("open.answered")
    try:
        if answer.get("gone"):
            raise ConnectionError("it was unpublished")
        if "refused" in answer:
            raise _refusal(uid, name, readonly, answer)
        layout = Layout.of(answer)
        try:
            memory, handle, array = _receive(uid, layout, answer, fds, readonly)
        except StaleHandle as error:  # its last holder died before this process held it
            raise ConnectionError("its holder has died") from error
        name_protocol.fault_point("open.held")
        if uid == os.geteuid():
            mode = layout.mode & (0o444 if readonly else 0o666)
            about = {key: answer[key] for key in ("shape", "strides", "dtype", "offset")}
            about.update(id=answer.get("id"), readonly=layout.readonly)
            server = NameServer(uid, name, mode, about, handle, link=link)
            server_thread.follow(server, memory)
        else:
            link.close()
    except BaseException:
        link.close()
        raise
    finally:
        close_all(fds)
    return native.wrap(array)


def _refusal(uid: int, name: str, readonly: bool, answer: dict[str, Any]) -> PermissionError:
    mode = answer.get("mode")
    known = f"mode {mode:04o}" if type(mode) is int and 0 <= mode <= 0o777 else "an unknown mode"
    verb = "read" if readonly else "write"
    return PermissionError(
        f"open: {name!r}: user {os.geteuid()} may not {verb} it: {known} of user {uid}"
    )


def _receive(
    uid: int, layout: Layout, answer: dict[str, Any], fds: list[int], readonly: bool
) -> tuple[Any, bytes | None, Any]:
    """The Block or PublishedFile of an answer, its handle, and the array over it.

    Only a process of this user may send a domain's descriptors (Note [Who gets descriptors]).
    """
    readonly = readonly or layout.readonly
    if len(fds) == 1:
        file = PublishedFile.receive(fds[0], layout.end, readonly)
        return file, None, layout.array(file.memory(readonly))
    if len(fds) != 3 or uid != os.geteuid():
        raise InvalidMessage(f"{len(fds)} descriptors")
    text = answer.get("handle")
    try:
        handle = bytes.fromhex(text) if isinstance(text, str) else b""
        block = native.guest_receive((fds[0], fds[1], fds[2]), readonly, handle)
    except ValueError as error:
        raise InvalidMessage(str(error)) from None
    view = memoryview(block)
    memory: Any = np.frombuffer(view.toreadonly() if readonly else view, np.uint8)
    return block, handle, layout.array(memory)


@dataclass(frozen=True)
class Domain:
    """A domain that this process is in: a shared heap and the processes that use it.

    Parameters
    ----------
    id : bytes
        16 bytes.
    own : bool
        Whether this process's heap is part of it; in the other domains it is a guest.
    row, incarnation : int
        This process's entry in its process table.
    readonly : bool
        Whether this process may not write to its tensors.
    processes, zombies : int
        Rows of living processes; of dead ones with unread messages.
    slots_used, slots_orphaned : int
        Slots of 64 MiB in use; held without an owner.
    held_blocks : int
        Blocks of other processes that this process holds there.

    Notes
    -----
    `domains` makes these; programs read their fields.

    Examples
    --------
    >>> x = st.ones(3)
    >>> domain = st.memory.domains()[0]
    >>> domain.own, domain.readonly, len(domain.id)
    (True, False, 16)
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
    """The domains that this process is in, its own first.

    Returns
    -------
    list of Domain
        Empty before the process creates or joins one.

    Examples
    --------
    >>> x = st.ones(3)
    >>> st.memory.domains()[0].own
    True
    """
    return [Domain(**record) for record in native.domains()]
