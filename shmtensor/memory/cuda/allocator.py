"""The allocator: CuPy's arrays get blocks of slabs, and give them back when their work has ended.

           malloc                    last view gone                events of other streams passed
    FREE ---------> USED ---------------------------> LEAVING ------------------------------------+
      ^                      \\ no other stream used it                                            |
      |                       +-----------------------+------------------------------------------+
      |    not exported                               |
      +-----------------------------------------------+
      |    no row has a bit, no message in flight     v  exported
      +---------------------------------------------LENT

A finaliser may run at any moment, also while its own thread is in here. So it only notes what has
ended, and whoever has the lock does the rest (Note [Finalisers]).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import cupy

from ... import native
from . import streams
from .blocks import BINNED, LEAVING, LENT, MIB, OWN, USED, Chunk, FreeLists, Slab, layout_of
from .streams import StreamRecord, records

runtime = cupy.cuda.runtime
MEMORY_ALLOCATION = 2  # cudaErrorMemoryAllocation
EXIT_S = 0.2  # an allocation waits so long for the exit of the dead
Memory, MemoryPointer, UnownedMemory = (
    cupy.cuda.Memory,
    cupy.cuda.MemoryPointer,
    cupy.cuda.UnownedMemory,
)
get_current_stream = cupy.cuda.get_current_stream
getpid, call_if_free = os.getpid, native.call_if_free
Own = native.Own  # owns a block for the arrays over it: CuPy's memory object refers to it


class Device(native.DeviceFigures):
    """One GPU's slabs, free blocks and figures."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.slabs: dict[int, Slab] = {}  # by address
        self.free = (FreeLists(), FreeLists(), FreeLists())
        self.reserved = self.peak_reserved = self.total_reserved = 0
        self.slabs_made = self.slabs_freed = self.retries = self.out_of_memory_errors = 0
        self.forgotten: dict[str, int] = {}  # of figures that add up: when they began anew
        self.limit: int | None = None  # bytes that may be reserved

    def add_slab(self, pool: int, ptr: int, size: int, shift: int) -> None:
        slab = self.slabs[ptr] = Slab(self, pool, ptr, size, shift)
        self.reserved += size
        self.total_reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self.slabs_made += 1
        self.free[pool].add(slab.first)


class Allocator(native.DeviceAllocator):
    """All that this process has of GPU memory, under one lock.

    `malloc`, CuPy's allocator, and the end of an Own are in C (native/memory/device). They do the
    usual case alone, without the lock while nobody has it (Note [Short way] there), and call
    `allocate` and `ended` for the others.

    Note [Finalisers]: a finaliser appends to `finished` and tries to take the lock. If that fails,
    the thread that has it, which may be the same one, works the list off when it is done: every
    holder of the lock calls `retry` after it.

    Note [Interrupts]: Python runs signal handlers and finalisers between any two lines, also right
    after a lock was taken. So the lock is taken by `with` alone, which nothing can come into, or by
    `native.call_if_free`; and it knows its thread: what a finaliser or handler allocates inside of
    the allocator does not wait for it.
    """

    finished: deque[Any]  # blocks, and other owners, without arrays
    devices: dict[int, Device]
    # Whose events have not passed yet: what to do then, device, events.
    leaving: list[tuple[Any, int, list[int]]]
    out_of_memory: Callable[[Device, int], Exception]  # the error with the figures: statistics.py

    def __init__(self) -> None:
        self.pid = 0  # of the process that uses CUDA; 0: none has
        self.lock = native.DeviceLock()
        self.is_inside: Callable[[], bool] = self.lock.is_owned  # whether this thread has it
        self.finished = deque()
        self.devices = {}
        self.records = records
        self.get_device, self.get_current_stream = runtime.getDevice, get_current_stream
        self.memory_type, self.pointer_type = UnownedMemory, MemoryPointer
        self.uuids: dict[bytes, int] = {}
        self.leaving = []
        self.lent: dict[tuple[int, int], Chunk] = {}  # by slot and index
        self.lent_bytes = 0
        self.is_closed = False  # the interpreter ends
        self.on_work: Callable[[], None] | None = None  # wakes the timer
        self.close_imports: Callable[[], None] | None = None

    # ---- the process
    def begin(self) -> None:
        """This process uses CUDA from now on.

        Raises:
            RuntimeError: it was forked from one that does.
        """
        if self.pid == getpid():
            return
        if self.pid:
            raise forked()
        self.pid = getpid()
        count = runtime.getDeviceCount()
        self.devices.update({index: Device(index) for index in range(count)})
        streams.Devices.are_several = count > 1
        for index in range(count):
            uuid = runtime.getDeviceProperties(index)["uuid"]
            self.uuids[uuid.ljust(16, b"\0")[:16]] = index

    def uuid_of(self, device: int) -> bytes:
        return next(uuid for uuid, index in self.uuids.items() if index == device)

    def inside(self, where: str) -> RuntimeError:
        """The error of a call by a finaliser or signal handler amid this thread's own work."""
        return RuntimeError(
            f"cuda.{where}: called by a finaliser or signal handler amid an allocation: do it "
            "outside of them"
        )

    def end_finished(self) -> None:
        """Ends what finalisers have noted. The lock is held."""
        finished = self.finished
        while finished:
            target = finished.popleft()
            self.end(target) if target.__class__ is Chunk else target.end()

    def end(self, chunk: Chunk) -> None:
        """The array that a block was allocated for, and its views, are gone. The lock is held."""
        chunk.is_owned = False
        device = self.devices[chunk.slab.device]
        device.allocated -= chunk.size
        device.frees += 1
        if not chunk.count:
            self.leave(chunk)

    def ended(self, owner: Any) -> None:
        """The last array over an owner, or a block, is gone. Called by finalisers."""
        if self.is_closed:
            return
        self.finished.append(owner)
        self.retry()

    def retry(self) -> None:
        """Ends what finalisers have noted, unless a thread has the lock, which will do so."""
        while self.finished and not self.is_inside():
            if not call_if_free(self.lock, self.end_finished):
                return

    # ---- allocation
    def allocate(self, nbytes: int) -> Any:
        """A MemoryPointer to `nbytes` bytes of the current device, uninitialised.

        Raises:
            OutOfMemoryError: the device has no memory left.
            RuntimeError: this process was forked from one that uses CUDA.
        """
        if self.pid != getpid():
            raise forked()
        index = runtime.getDevice()
        if not nbytes:
            return MemoryPointer(UnownedMemory(0, 0, None, index), 0)
        if self.is_inside():  # a finaliser or signal handler, amid our own work
            return MemoryPointer(Memory(nbytes), 0)
        device = self.devices[index]
        cupy_stream = get_current_stream(index)
        stream = records[index].get(cupy_stream.ptr) or streams.of(index, cupy_stream)
        size = (nbytes + 511) & -512
        try:
            with self.lock:
                if self.leaving:
                    self.poll()
                binned = stream.bins.get(size)
                chunk = binned.pop() if binned else self.find(device, stream, nbytes)
                chunk.state = USED
                chunk.stream = stream
                chunk.is_owned = True
                chunk.slab.used += 1
                device.allocations += 1
                device.total_allocated += chunk.size
                device.allocated += chunk.size
                if device.allocated > device.peak_allocated:
                    device.peak_allocated = device.allocated
        finally:
            if self.finished:
                self.retry()
        return MemoryPointer(UnownedMemory(chunk.ptr, chunk.size, Own(self, chunk), index), 0)

    def find(self, device: Device, stream: StreamRecord, nbytes: int) -> Chunk:
        """A chunk that was not in a bin: free, of limbo, of another stream, or of a new slab."""
        size, pool, slab_size, shift = layout_of(nbytes)
        free = device.free[pool]
        limit = size + max(2 * MIB, size >> 3) if pool == OWN else slab_size
        if binned := stream.bins.get(size):  # of a size that is rounded to more than a granule
            return binned.pop()
        if chunk := free.take(stream, size, limit) or free.take(None, size, limit):
            return chunk
        self.reclaim()
        self.empty_bins(device)
        if len(records[device.index]) > streams.MANY:
            streams.let_go(records[device.index])
        if chunk := free.take(stream, size, limit) or free.take(None, size, limit):
            return chunk
        for other in list(free.lists):
            if other is None or other is stream:
                continue
            if chunk := free.take(other, size, limit):
                streams.wait(stream, other)
                return chunk
        if not self.grow(device, pool, slab_size, shift):
            device.retries += 1
            self.make_room(device)
            chunk = free.take(None, size, limit) or free.take(stream, size, limit)
            if chunk:
                return chunk
            least = (size + 2 * MIB - 1) & -(2 * MIB)  # a slab for this block alone
            if not (
                self.grow(device, pool, slab_size, shift) or self.grow(device, pool, least, shift)
            ):
                device.out_of_memory_errors += 1
                raise self.out_of_memory(device, nbytes)
        chunk = free.take(None, size, limit)
        assert chunk is not None
        return chunk

    def grow(self, device: Device, pool: int, size: int, shift: int) -> bool:
        """Whether the driver gave a new slab."""
        if device.limit is not None and device.reserved + size > device.limit:
            return False
        with streams.on_device(device.index):
            try:
                ptr = runtime.malloc(size)
            except runtime.CUDARuntimeError as error:
                if error.status != MEMORY_ALLOCATION:
                    raise
                return False
        device.add_slab(pool, ptr, size, shift)
        return True

    def make_room(self, device: Device) -> None:
        """Waits for the work of limbo and returns slabs that are free to the driver. Waits up to
        0.2 s for the exit of dead processes, whose contexts still have memory.

        Note [Lost messages]: a message keeps its block until the channel that carries it (`via`) is
        reclaimed. A channel that nobody holds any more waits for that in the heap's limbo, while
        the heap has memory enough; `native.trim` empties it.
        """
        with streams.on_device(device.index):
            runtime.deviceSynchronize()
        self.poll()
        native.sweep(True)
        end = time.monotonic() + EXIT_S
        while native.rows_exiting() and time.monotonic() < end:
            time.sleep(0.005)
            native.sweep(True)
        if self.lent:  # Note [Lost messages]
            native.trim()
        if self.close_imports is not None:
            self.close_imports()
        self.reclaim()
        self.release_slabs(device)

    # ---- the way back; the lock is held
    def used_devices(self) -> list[Device]:
        """The devices that this process has memory or streams of."""
        return [d for d in self.devices.values() if d.slabs or records[d.index]]

    def leave(self, chunk: Chunk) -> None:
        """No array of this process is over the block any more."""
        if chunk.state == LEAVING:  # it came home meanwhile: this time counts, with all its users
            self.withdraw(chunk)
        events = self.events_of(chunk.users, chunk.slab.device)
        if events:
            chunk.state = LEAVING
            self.leaving.append((chunk, chunk.slab.device, events))
            self.wake()
        else:
            self.release(chunk)

    def withdraw(self, chunk: Chunk) -> None:
        """The block no longer waits for the events of an earlier time."""
        for entry in self.leaving:
            if entry[0] is chunk:
                for event in entry[2]:
                    streams.release(entry[1], event)
        self.leaving = [entry for entry in self.leaving if entry[0] is not chunk]

    def events_of(self, users: set[StreamRecord] | None, device: int) -> list[int]:
        """Events recorded on the streams that are not idle."""
        if not users:
            return []
        return [event for stream in users if (event := streams.record(stream))]

    def release(self, chunk: Chunk) -> None:
        """The block's work on other streams has ended."""
        if chunk.count:  # came home meanwhile
            chunk.state = USED
            return
        chunk.users = None
        if chunk.is_exported:
            chunk.state = LENT
            self.lent[chunk.slab.slot, chunk.offset >> chunk.slab.shift] = chunk
            self.lent_bytes += chunk.size
            self.wake()
        else:
            self.give_back(chunk)

    def give_back(self, chunk: Chunk) -> None:
        chunk.slab.used -= 1
        stream = chunk.stream
        if stream is None or stream.stream is None:
            self.devices[chunk.slab.device].free[chunk.slab.pool].add(chunk)
            return
        chunk.state = BINNED
        size = chunk.size
        binned = stream.bins.get(size)
        if binned is None:
            stream.bins[size] = [chunk]
        else:
            binned.append(chunk)

    def empty_bins(self, device: Device) -> None:
        """Merges what the bins of the device's streams have into its free lists."""
        for stream in records[device.index].values():
            for binned in stream.bins.values():
                for chunk in binned:
                    device.free[chunk.slab.pool].add(chunk)
            stream.bins.clear()

    def poll(self) -> bool:
        """Ends what waited for events that have passed; whether anything did."""
        before = self.leaving
        if not before:
            return False
        waiting: list[Any] = []
        ended: list[Any] = []
        for entry in before:
            _, device, events = entry
            while events and streams.passed(events[-1]):
                streams.release(device, events.pop())
            (waiting if events else ended).append(entry)
        self.leaving = waiting
        progress = bool(ended)
        try:
            while ended:
                target = ended.pop()[0]
                self.release(target) if target.__class__ is Chunk else target.release()
        finally:
            if ended:  # an interrupt
                self.leaving += ended
        return progress

    def reclaim(self) -> bool:
        """Frees the blocks of the ledger's limbo that nobody holds; whether there were any."""
        if not self.lent:
            return False
        places = list(self.lent)
        freed = False
        for place, is_free in zip(places, native.slab_reclaim(places), strict=True):
            if is_free:
                freed = True
                chunk = self.come_home(place)
                del chunk.slab.exported[place[1]]
                chunk.is_exported = False
                self.give_back(chunk)
        return freed

    def come_home(self, place: tuple[int, int]) -> Chunk:
        """Takes a block out of the ledger's limbo."""
        chunk = self.lent.pop(place)
        self.lent_bytes -= chunk.size
        return chunk

    def release_slabs(self, device: Device) -> int:
        """Returns every slab without blocks that nobody else uses to the driver; the device has no
        work. Bytes returned.
        """
        with streams.on_device(device.index):
            runtime.deviceSynchronize()
        self.empty_bins(device)
        for free in device.free:
            free.idle()
        returned = 0
        for slab in [slab for slab in device.slabs.values() if not slab.used]:
            if slab.slot >= 0 and not native.slab_retire(slab.slot, slab.inc):
                continue
            free = device.free[slab.pool]
            # Before it is freed, so that an interrupt loses a slab, but leaves none that is freed.
            chunks = [chunk for chunk in free.chunks() if chunk.slab is slab]
            for chunk in chunks:
                free.remove(chunk)
            del device.slabs[slab.ptr]
            device.reserved -= slab.size
            try:
                with streams.on_device(device.index):
                    runtime.free(slab.ptr)
            except runtime.CUDARuntimeError:  # it is still there
                device.slabs[slab.ptr] = slab
                device.reserved += slab.size
                for chunk in chunks:
                    free.add(chunk)
                raise
            if slab.slot >= 0:
                native.slab_end(slab.slot)
                slabs_by_slot.pop((slab.slot, slab.inc), None)
            device.slabs_freed += 1
            returned += slab.size
        return returned

    def wake(self) -> None:
        if self.on_work is not None:
            self.on_work()


# Slabs of this process that have a slot, by slot and incarnation.
slabs_by_slot: dict[tuple[int, int], Slab] = {}


def forked() -> RuntimeError:
    """The error of a process that was forked from one that uses CUDA."""
    return RuntimeError(
        f"cuda: process {os.getpid()} was forked from process {allocator.pid}, which uses CUDA; "
        "CUDA cannot be used in the child: start processes by the methods 'spawn' or 'forkserver'"
    )


def require_own_process() -> None:
    """Begins to use CUDA in this process.

    Raises:
        RuntimeError: it was forked from one that does.
    """
    if allocator.pid != getpid():
        allocator.begin()


allocator = Allocator()
