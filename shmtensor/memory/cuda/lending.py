"""Blocks that other processes use: messages, imports and holds (docs/design/cuda-memory.md).

    sender     number the work, pin, FENCE, validate --- message ------+
                                                                       v
    receiver   bit, FENCE, validate; open the slab; the stream waits; acknowledge ... use ...
               last array gone: record events; passed: clear the bit; no bit left: close the slab

What CUDA does is called from here; the shared words are in native/memory/device.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ... import native
from ...cuda_arrays import watch
from ...errors import PeerLostError, StaleHandle
from . import streams, waits
from .allocator import Own, allocator, getpid, require_own_process, slabs_by_slot
from .blocks import LENT, USED, Chunk
from .streams import StreamRecord
from .waits import Work

runtime, ndarray = cupy.cuda.runtime, cupy.ndarray
MemoryPointer, UnownedMemory = cupy.cuda.MemoryPointer, cupy.cuda.UnownedMemory
IDLE_S = 0.25  # an import without holds is closed after it
UUID_BYTES = 16
LEAVING = 16  # holds and blocks whose work has not ended, before a message makes room
# Of a handle: slot, incarnation, index, start in the slab, bytes.
PLACE = struct.Struct("<16x3I12x2Q")

# handle (of an array without elements: the GPU's UUID, 16 bytes), (owner's row, incarnation), work,
# bytes from the start of the block, shape, strides, dtype
Message = tuple[
    bytes, tuple[int, int], Work, int, tuple[int, ...], tuple[int, ...], str | np.dtype[Any]
]


class Import:
    """Another process's slab, open in this process."""

    __slots__ = ("device", "holds", "idle_since", "inc", "owner", "ptr", "slot")

    def __init__(self, slot: int, inc: int, device: int, owner: tuple[int, int]) -> None:
        self.slot = slot
        self.inc = inc
        self.device = device
        self.owner = owner  # row, incarnation
        self.ptr = 0
        self.holds = 0
        self.idle_since = 0.0


class Hold:
    """A block of another process's slab that this process holds: one bit, `count` arrays."""

    __slots__ = ("count", "index", "slab")

    def __init__(self, slab: Import, index: int) -> None:
        self.slab = slab
        self.index = index
        self.count = 0


class Received:
    """Owns the hold of one received array and its views."""

    __slots__ = ("hold", "pid", "ptr", "size", "stream", "users", "work")

    def __init__(self, hold: Hold, ptr: int, size: int, stream: StreamRecord) -> None:
        self.hold = hold
        self.pid = allocator.pid
        self.ptr = ptr
        self.size = size
        self.stream = stream
        self.users: set[StreamRecord] | None = None
        self.work: Work | None = None  # of the sender, that was not seen done

    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        if self.pid == getpid():
            allocator.ended(self)

    def end(self) -> None:
        users = {self.stream, *self.users} if self.users else {self.stream}
        events = allocator.events_of(users, self.hold.slab.device)
        if events:
            allocator.leaving.append((self, self.hold.slab.device, events))
            allocator.wake()
        else:
            self.release()

    def release(self) -> None:
        """The array's work has ended."""
        drop(self.hold)


class Home:
    """Owns one array of this process that came back by message."""

    __slots__ = ("chunk", "pid", "stream", "work")

    def __init__(self, chunk: Chunk, stream: StreamRecord) -> None:
        self.chunk = chunk
        self.pid = allocator.pid
        self.stream = stream  # that received it
        self.work: Work | None = None  # as of Received

    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        if self.pid == getpid():
            allocator.ended(self)

    def end(self) -> None:
        self.chunk.count -= 1
        if not self.chunk.count and not self.chunk.is_owned:
            allocator.leave(self.chunk)


imports: dict[int, Import] = {}  # by slot
holds: dict[tuple[int, int], Hold] = {}  # by slot and index


# ---- streams
def note_use(array: Any, stream: Any = None) -> None:
    """Says that work on `array` was queued on another stream than the one that allocated it: the
    memory is used again only when that work has ended.

    Args:
        array: a cupy.ndarray; memory that is not of this allocator is left alone.
        stream: a CuPy stream of the array's device; None: the current one.

    Copies: none
    """
    if allocator.pid != getpid():
        require_own_process()
    owner: Any = getattr(array.data.mem, "_owner", None)
    kind = owner.__class__
    if kind is Own or kind is Home:
        of: Any = owner.chunk
    elif kind is Received:
        of = owner
    else:
        return
    device = array.data.device_id
    used = streams.current(device) if stream is None else streams.of(device, stream)
    if used is not of.stream:
        if of.users is None:
            of.users = {used}
        else:
            of.users.add(used)


def check_alive(array: Any) -> None:
    """Raises PeerLostError, which names the process, if the memory of `array` belongs to a process
    that has died, or was sent by one that died before its work on it had ended: its bytes may be
    torn. Costs an owned array two attribute reads.

    Copies: none
    """
    if allocator.pid != getpid():
        require_own_process()
    owner: Any = getattr(array.data.mem, "_owner", None)
    if owner.__class__ is Received:
        slab = owner.hold.slab
        if not native.slab_live(slab.slot, slab.inc):
            native.raise_peer_lost("cuda", *slab.owner)
    elif owner.__class__ is not Home:
        return
    if owner.work is not None and waits.require(owner.work):
        owner.work = None


# ---- sending
def export(array: Any, via: Any = None) -> Message:
    """A message from which another process of the domain makes the same array: the same memory.

    The message is small and can be pickled. It may be received once, many times or never: until it
    is received or discarded, the block stays, also after this process has dropped its arrays. A
    message that is never delivered must be given to `discard`; one that is lost otherwise keeps its
    block until `via` or this process ends.

    Args:
        array: a cupy.ndarray whose memory is of this allocator, own or received.
        via: the array or Block of the channel that carries the message; its end voids the message.

    Copies: none

    Raises:
        ValueError: CuPy allocated the memory elsewhere: `array.copy()` can be sent.
        PeerLostError: the process that the memory belongs to has died, or the one that sent it
            died before its work on it had ended.
        RuntimeError: this process was forked from one that uses CUDA.
    """
    if allocator.pid != getpid():
        require_own_process()
    layout = array.shape, array.strides, array.dtype.str
    pointer = array.data
    if not array.size:
        return (allocator.uuid_of(pointer.device_id), (0, 0), (0, 0, -1, 0), 0, *layout)
    owner: Any = getattr(pointer.mem, "_owner", None)
    kind = owner.__class__
    if kind is Received:
        slab: Any = owner.hold.slab
        of, index, origin = owner, owner.hold.index, slab.owner
    elif kind is Own or kind is Home:
        of, slab = owner.chunk, owner.chunk.slab
        index, origin = of.offset >> slab.shift, native.row()
    else:
        raise ValueError(
            f"export: memory that was not allocated by shmtensor's allocator: {pointer.ptr:#x}, "
            "send array.copy()"
        )
    if allocator.is_inside():
        raise allocator.inside("export")
    if kind is not Own and owner.work is not None and waits.require(owner.work):
        owner.work = None
    try:
        with allocator.lock:
            work = number_work(slab.device, of)
            if kind is not Received:
                if slab.slot < 0:
                    share(slab)
                slab.exported[index] = of
                of.is_exported = True
            handle = native.slab_export(slab.slot, slab.inc, index, of.size, via)
    except StaleHandle:
        if kind is Received:
            native.raise_peer_lost("export", *origin)
        raise
    finally:
        if allocator.finished:
            allocator.retry()
    return (handle, origin, work, pointer.ptr - of.ptr, *layout)


def share(slab: Any) -> None:
    """Gives a slab of this process its slot in the ledger."""
    with streams.on_device(slab.device):
        handle = runtime.ipcGetMemHandle(slab.ptr)
    slab.slot, slab.inc = native.slab_claim(
        allocator.uuid_of(slab.device), slab.size, slab.shift, handle
    )
    slabs_by_slot[slab.slot, slab.inc] = slab


def number_work(device: int, of: Any) -> Work:
    """All work of this process on the block, for others to wait for."""
    stream = streams.current(device)
    if of.stream is not stream or of.users:
        for other in {of.stream, *(of.users or ())} - {stream, None}:
            streams.wait(stream, other)
    return (*native.row(), *waits.number(stream))


def discard(message: Message) -> None:
    """A message will never be received: its block is free as far as it is concerned. Idempotent.

    Copies: none
    """
    if len(message[0]) > UUID_BYTES:
        native.acknowledge(message[0])


# ---- receiving
def receive(message: Message) -> Any:
    """The array of a message: the sender's memory, held by this process until the last view of the
    array is gone and its work has ended. The current stream waits until the sender's work on it has
    ended; the host does not.

    Returns:
        A cupy.ndarray on the device where the memory is. In the process that allocated it: the
        same memory by its own address.

    Copies: none

    Raises:
        StaleHandle: the message was received before, or expired, and the block is gone.
        PeerLostError: the process that the memory belongs to has died; or the sender has, and its
            work on the memory had not ended. If it dies later: the next use of the array, and the
            next wait for the GPU or copy from it (waits.py).
        ForeignHandle: the message is of another domain.
        RuntimeError: the GPU is not visible in this process; or this process was forked from one
            that uses CUDA.
    """
    if allocator.pid != getpid():
        require_own_process()
    handle, origin, work, offset, shape, strides, dtype = message
    if len(handle) == UUID_BYTES:
        device = device_with(handle)
        return ndarray(shape, dtype, MemoryPointer(UnownedMemory(0, 0, None, device), 0), strides)
    if allocator.is_inside():
        raise allocator.inside("receive")
    is_held = False
    try:
        with allocator.lock:
            owner, device, ptr, size = take(handle, origin)
        is_held = True
        if work[2] >= 0 and not waits.wait(owner.stream, work):
            owner.work = work
    except BaseException as error:
        owner = None  # drops the hold
        if is_held or isinstance(error, PeerLostError):
            native.acknowledge(handle)  # it has arrived, and cannot be used
        raise
    finally:
        if allocator.finished:
            allocator.retry()
    native.acknowledge(handle)
    watch.has_foreign = True
    return ndarray(
        shape, dtype, MemoryPointer(UnownedMemory(ptr, size, owner, device), offset), strides
    )


def take(handle: bytes, origin: tuple[int, int]) -> tuple[Any, int, int, int]:
    """Holds the block of a handle; its owner object, device, address and size."""
    slot, inc, index, start, nbytes = PLACE.unpack_from(handle)
    if len(allocator.leaving) > LEAVING:  # else the timer does, or an allocation
        allocator.poll()
    hold = holds.get((slot, index))
    if hold is not None and hold.slab.inc != inc:
        hold = None
    try:
        state = native.slab_hold(handle, hold is not None)
    except StaleHandle:
        if native.liveness(*origin) != "dead":
            raise
        state = "lost"
    if state == "lost":
        native.raise_peer_lost("receive", *origin)
    if state == "home":
        own = slabs_by_slot[slot, inc]
        chunk = own.exported[index]
        if chunk.state == LENT:
            allocator.come_home((slot, index))
            chunk.state = USED
        chunk.count += 1
        stream = streams.current(own.device)
        if stream is not chunk.stream:
            chunk.users = {stream, *(chunk.users or ())}
        return Home(chunk, stream), own.device, chunk.ptr, chunk.size
    if hold is None:
        try:
            slab = imports.get(slot)
            if slab is None or slab.inc != inc:
                slab = open_slab(slot, inc)
            hold = Hold(slab, index)
        except BaseException:
            native.slab_drop(slot, index)
            raise
        holds[slot, index] = hold
        slab.holds += 1
    hold.count += 1
    device = hold.slab.device
    ptr = hold.slab.ptr + start
    return Received(hold, ptr, nbytes, streams.current(device)), device, ptr, nbytes


def drop(hold: Hold) -> None:
    """One array less."""
    hold.count -= 1
    if hold.count:
        return
    del holds[hold.slab.slot, hold.index]
    native.slab_drop(hold.slab.slot, hold.index)
    hold.slab.holds -= 1
    if not hold.slab.holds:
        hold.slab.idle_since = time.monotonic()
        allocator.wake()


# ---- slabs of other processes
def device_with(uuid: bytes) -> int:
    """The number of a GPU in this process, which may see others, or in another order."""
    device = allocator.uuids.get(uuid)
    if device is None:
        raise RuntimeError(
            f"receive: the GPU of the tensor, {uuid.hex()}, is not visible in this process "
            "(CUDA_VISIBLE_DEVICES?): send a copy on the CPU"
        )
    return device


def open_slab(slot: int, inc: int) -> Import:
    """The slab of a block that this process holds; opened once."""
    former = imports.get(slot)
    if former is not None:
        close_slab(former)  # it was kept open in case that more came
    uuid, _, handle, row, row_inc = native.slab_line(slot)
    device = device_with(uuid)
    slab = Import(slot, inc, device, (row, row_inc))
    native.slab_opened(slot)  # before it is opened: a death closes both
    try:
        with streams.on_device(device):
            slab.ptr = runtime.ipcOpenMemHandle(handle)
    except runtime.CUDARuntimeError:
        native.slab_closed(slot)
        if native.liveness(row, row_inc) != "alive":
            native.raise_peer_lost("receive", row, row_inc)
        raise
    imports[slot] = slab
    allocator.wake()
    return slab


def close_slab(slab: Import) -> None:
    with streams.on_device(slab.device):
        runtime.ipcCloseMemHandle(slab.ptr)
    del imports[slab.slot]
    native.slab_closed(slab.slot)


def close_idle(seconds: float = 0.0) -> None:
    """Closes the imports that this process has held nothing of for some time."""
    latest = time.monotonic() - seconds
    for slab in list(imports.values()):
        is_lost = not native.slab_live(slab.slot, slab.inc)
        if not slab.holds and (is_lost or slab.idle_since <= latest):
            close_slab(slab)
