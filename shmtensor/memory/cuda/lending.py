"""Blocks that other processes use: messages, imports and holds (docs/design/cuda-memory.md).

    sender     record event, pin, FENCE, validate ------ message ------+
                                                                       v
    receiver   bit, FENCE, validate; open the slab; event passed; acknowledge ... use ...
               last array gone: record events; passed: clear the bit; no bit left: close the slab

What CUDA does is called from here; the shared words are in native/memory/device.
"""

from __future__ import annotations

import os
import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import cupy

from ... import native
from ...cuda_arrays import watch
from ...errors import StaleHandle
from . import streams
from .allocator import Own, allocator, getpid, require_own_process, slabs_by_slot
from .blocks import LENT, USED, Chunk
from .streams import StreamRecord

__all__ = ["Message", "check_alive", "discard", "export", "note_use", "receive"]

runtime = cupy.cuda.runtime
EVENTS = 64  # interprocess events per process
IDLE_S = 0.25  # an import without holds is closed after it
YIELDS = 30  # looks at a sender's event without a pause; then they grow
LONGEST_PAUSE_S = 0.0005
UUID_BYTES = 16
PLACE = struct.Struct("<16x3I")  # of a handle: slot, incarnation, index

# handle (of an array without elements: the GPU's UUID, 16 bytes), (owner's row, incarnation),
# (row, incarnation, number of an event's record, or -1), bytes from the start of the block, shape,
# strides, dtype
Message = tuple[
    bytes, tuple[int, int], tuple[int, int, int], int, tuple[int, ...], tuple[int, ...], str
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

    __slots__ = ("hold", "pid", "ptr", "size", "stream", "users")

    def __init__(self, hold: Hold, ptr: int, size: int, stream: StreamRecord) -> None:
        self.hold = hold
        self.pid = allocator.pid
        self.ptr = ptr
        self.size = size
        self.stream = stream
        self.users: set[StreamRecord] | None = None

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

    __slots__ = ("chunk", "pid")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.pid = allocator.pid

    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        if self.pid == getpid():
            allocator.ended(self)

    def end(self) -> None:
        self.chunk.count -= 1
        if not self.chunk.count and not self.chunk.is_owned:
            allocator.leave(self.chunk)


class OwnEvent:
    """An interprocess event of this process, in a place of its row.

    Attributes:
        number: of its last record; the next one's is EVENTS more.
    """

    __slots__ = ("device", "number", "ptr")

    def __init__(self, device: int, ptr: int, number: int) -> None:
        self.device = device
        self.ptr = ptr
        self.number = number


class OpenedEvent:
    """Another process's event, open in this process.

    Attributes:
        first: the number of its first record: a later event in its place has another one.
    """

    __slots__ = ("first", "ptr")

    def __init__(self, first: int, ptr: int) -> None:
        self.first = first
        self.ptr = ptr


imports: dict[int, Import] = {}  # by slot
holds: dict[tuple[int, int], Hold] = {}  # by slot and index
opened_events: dict[tuple[int, int, int], OpenedEvent] = {}  # by row, incarnation and place
own_events: list[OwnEvent] = []  # by place
recorded: defaultdict[int, deque[OwnEvent]] = defaultdict(deque)  # by device, the oldest first
numbers = list(range(EVENTS))  # of the next record of each place


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
    """Raises PeerLostError, which names the owner, if the memory of `array` belongs to a process
    that has died: its bytes may be torn. Costs an owned array two attribute reads.

    Copies: none
    """
    if allocator.pid != getpid():
        require_own_process()
    owner: Any = getattr(array.data.mem, "_owner", None)
    if owner.__class__ is Received:
        slab = owner.hold.slab
        if not native.slab_live(slab.slot, slab.inc):
            native.raise_peer_lost("cuda", *slab.owner)


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
        PeerLostError: the process that the memory belongs to has died.
        RuntimeError: this process was forked from one that uses CUDA.
    """
    require_own_process()
    layout = array.shape, array.strides, array.dtype.str
    if not array.size:
        return (allocator.uuid_of(array.data.device_id), (0, 0), (0, 0, -1), 0, *layout)
    memory = array.data.mem
    owner: Any = getattr(memory, "_owner", None)
    kind = owner.__class__
    if kind is Received:
        slab: Any = owner.hold.slab
        of, index, origin = owner, owner.hold.index, slab.owner
    elif kind is Own or kind is Home:
        of, slab = owner.chunk, owner.chunk.slab
        index, origin = of.offset >> slab.shift, native.row()
    else:
        raise ValueError(
            f"export: memory that was not allocated by shmtensor's allocator: {array.data.ptr:#x}, "
            "send array.copy()"
        )
    allocator.check_outside("export")
    if len(own_events) == EVENTS:
        wait_for_an_event(slab.device)
    try:
        with allocator.lock:
            event = record_event(slab.device, of)
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
        allocator.retry()
    return (handle, origin, event, array.data.ptr - of.ptr, *layout)


def share(slab: Any) -> None:
    """Gives a slab of this process its slot in the ledger."""
    with streams.on_device(slab.device):
        handle = runtime.ipcGetMemHandle(slab.ptr)
    slab.slot, slab.inc = native.slab_claim(
        allocator.uuid_of(slab.device), slab.size, slab.shift, handle
    )
    slabs_by_slot[slab.slot, slab.inc] = slab


def record_event(device: int, of: Any) -> tuple[int, int, int]:
    """An event after all work of this process on the block; number -1: there is none left."""
    stream = streams.current(device)
    others = set() if of.stream is None else {of.stream}
    if of.users:
        others |= of.users
    others.discard(stream)
    for other in others:
        streams.wait(stream, other)
    row, inc = native.row()
    if stream.is_idle():
        return row, inc, -1
    with streams.on_device(device):
        event = event_to_record(device)
        if event is None:
            stream.stream.synchronize()
            return row, inc, -1
        try:
            runtime.eventRecord(event.ptr, stream.ptr)
        finally:  # without a new record it has passed
            recorded[device].append(event)
    return row, inc, event.number


def wait_for_an_event(device: int) -> None:
    """Waits until an event of the device can be recorded. Without the lock: other threads may have
    to do what it waits for.
    """
    while True:
        with allocator.lock:
            before = recorded[device]
            if not before or any(streams.passed(event.ptr) for event in before):
                return
            oldest = before[0].ptr
        runtime.eventSynchronize(oldest)


def end_records() -> None:
    """This process ends: who reads its messages later finds that their work has ended. Work that
    takes more than 5 s is left: it ends with the process.
    """
    if allocator.pid != getpid():
        return
    end = time.monotonic() + 5
    for events in recorded.values():
        while events:
            if not streams.passed(events[0].ptr):
                if time.monotonic() > end:
                    return
                time.sleep(0.001)
                continue
            renew(events.popleft())


def event_to_record(device: int) -> OwnEvent | None:
    """An event of the current device with a number that the ledger knows. None: all places are
    other devices'.

    Note [Records]: an event is recorded anew only after its last record has passed. So who waits
    for a record and finds another number in its place knows that its work has ended.
    """
    before = recorded[device]
    if before and streams.passed(before[0].ptr):
        return renew(before.popleft())
    if (place := len(own_events)) < EVENTS:
        flags = runtime.eventInterprocess | runtime.eventDisableTiming
        ptr = runtime.eventCreateWithFlags(flags)
        event = OwnEvent(device, ptr, next_number(place))
        handle = runtime.ipcGetEventHandle(ptr)
        native.event_publish(event.number, allocator.uuid_of(device), handle)
        own_events.append(event)
        return event
    for event in before:
        if streams.passed(event.ptr):
            before.remove(event)
            return renew(event)
    if not before:
        return None
    runtime.eventSynchronize(before[0].ptr)
    return renew(before.popleft())


def renew(event: OwnEvent) -> OwnEvent:
    event.number = next_number(event.number % EVENTS)
    native.event_renew(event.number)
    return event


def next_number(place: int) -> int:
    number = numbers[place]
    numbers[place] = (number + EVENTS) & 0xFFFFFFFF
    return number


def discard(message: Message) -> None:
    """A message will never be received: its block is free as far as it is concerned. Idempotent.

    Copies: none
    """
    if len(message[0]) > UUID_BYTES:
        native.acknowledge(message[0])


# ---- receiving
def receive(message: Message) -> Any:
    """The array of a message: the sender's memory, held by this process until the last view of the
    array is gone and its work has ended. Waits until the sender's work on it has ended.

    Returns:
        A cupy.ndarray on the device where the memory is. In the process that allocated it: the
        same memory by its own address.

    Copies: none

    Raises:
        StaleHandle: the message was received before, or expired, and the block is gone.
        PeerLostError: the process that the memory belongs to has died; or the sender has, and its
            work on the memory had not ended.
        ForeignHandle: the message is of another domain.
        RuntimeError: the GPU is not visible in this process; or this process was forked from one
            that uses CUDA.
    """
    require_own_process()
    handle, origin, event, offset, shape, strides, dtype = message
    if len(handle) == UUID_BYTES:
        device = device_with(handle)
        nothing = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 0, None, device), 0)
        return cupy.ndarray(shape, dtype, memptr=nothing, strides=strides)
    allocator.check_outside("receive")
    try:
        with allocator.lock:
            owner, device, ptr, size = take(handle, origin)
        try:
            wait_for(event, device)
        except BaseException:
            owner = None  # drops the hold
            native.acknowledge(handle)  # it has arrived, and cannot be used
            raise
    finally:
        allocator.retry()
    native.acknowledge(handle)
    watch.has_foreign = True
    memory = cupy.cuda.UnownedMemory(ptr, size, owner, device)
    return cupy.ndarray(
        shape, dtype, memptr=cupy.cuda.MemoryPointer(memory, offset), strides=strides
    )


def take(handle: bytes, origin: tuple[int, int]) -> tuple[Any, int, int, int]:
    """Holds the block of a handle; its owner object, device, address and size."""
    slot, inc, index = PLACE.unpack_from(handle)
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
        native.acknowledge(handle)  # it has arrived, and cannot be used
        native.raise_peer_lost("receive", *origin)
    nbytes = int.from_bytes(handle[48:56], "little")
    if state == "home":
        slab = slabs_by_slot[slot, inc]
        chunk = slab.exported[index]
        if chunk.state == LENT:
            allocator.come_home((slot, index))
            chunk.state = USED
        chunk.count += 1
        stream = streams.current(slab.device)
        if stream is not chunk.stream:
            chunk.users = {stream, *(chunk.users or ())}
        return Home(chunk), slab.device, chunk.ptr, chunk.size
    if hold is None:
        try:
            hold = Hold(open_slab(slot, inc), index)
        except BaseException:
            native.slab_drop(slot, index)
            raise
        holds[slot, index] = hold
        hold.slab.holds += 1
    hold.count += 1
    slab_ptr, device = hold.slab.ptr, hold.slab.device
    ptr = slab_ptr + int.from_bytes(handle[40:48], "little")
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
    slab = imports.get(slot)
    if slab is not None:
        if slab.inc == inc:
            return slab
        close_slab(slab)  # it was kept open in case that more came
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


def wait_for(event: tuple[int, int, int], device: int) -> None:
    """Waits for the record of a sender's event, without the lock.

    Note [Waits for a sender]: a stream that waits for another process's event waits for ever if
    that process is killed ahead of the work: on a GPU nothing ends such a wait, and recording the
    event anew does not return. So the host waits, and looks whether the sender lives.

    Raises:
        PeerLostError: the sender has died, and its work had not ended.
    """
    row, inc, number = event
    if number < 0:
        return
    if (row, inc) == native.row():
        with allocator.lock, streams.on_device(device):
            place = number % EVENTS
            if place < len(own_events) and own_events[place].number == number:
                stream = cupy.cuda.get_current_stream(device)
                runtime.streamWaitEvent(stream.ptr, own_events[place].ptr)
        return
    looks, pause = 0, 0.0
    while True:
        is_dead = native.liveness(row, inc) == "dead"
        with allocator.lock:
            passed = has_passed(event, device)
        allocator.retry()
        if passed:
            return
        if is_dead:  # it was dead before the look
            native.raise_peer_lost("receive", row, inc)
        looks += 1
        if looks > YIELDS:
            pause = min(pause + 20e-6, LONGEST_PAUSE_S)
        time.sleep(pause)


def has_passed(event: tuple[int, int, int], device: int) -> bool:
    """Whether a record of another process's event has passed. The lock is held.

    Raises:
        PeerLostError: the process has left, and nothing tells.
    """
    row, inc, number = event
    line = native.event_of(row, inc, number)
    if line is None:
        native.raise_peer_lost("receive", row, inc)
        raise AssertionError
    if not line:  # Note [Records]
        return True
    uuid, handle, first = line
    place = row, inc, number % EVENTS
    opened = opened_events.get(place)
    if opened is not None and opened.first != first:
        del opened_events[place]
        runtime.eventDestroy(opened.ptr)
        opened = None
    if opened is None:
        try:
            with streams.on_device(allocator.uuids.get(uuid, device)):
                opened = OpenedEvent(first, runtime.ipcOpenEventHandle(handle))
        except runtime.CUDARuntimeError:
            if native.liveness(row, inc) != "alive":
                native.raise_peer_lost("receive", row, inc)
            raise
        opened_events[place] = opened
        allocator.wake()
    return streams.passed(opened.ptr)


def close_events() -> None:
    """Destroys the opened events of processes that have left, but for those that have not passed,
    which may never do so.
    """
    for place, opened in list(opened_events.items()):
        if native.liveness(*place[:2]) == "dead":
            if streams.passed(opened.ptr):
                runtime.eventDestroy(opened.ptr)
            del opened_events[place]


def forget_events() -> None:
    """Destroys all events. There is no work left."""
    close_events()
    for opened in opened_events.values():
        runtime.eventDestroy(opened.ptr)
    for event in own_events:
        runtime.eventDestroy(event.ptr)
    opened_events.clear()
    own_events.clear()
    recorded.clear()
    streams.forget()
