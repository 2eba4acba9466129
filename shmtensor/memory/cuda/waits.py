"""Waits of streams for the work of other processes, by words in shared, page-locked memory.

    sender's stream     ... work, write 7 to the word
    receiver's stream   wait until the word is 7 or a later number ... its own work
    sender is killed    the sweep of its row writes the word; what was not done is lost
                        (a thread of native/memory/device/timelines.cc sweeps during long waits)

A stream that waited for CUDA's event of a killed process would wait for ever
(docs/design/cuda-memory.md, "Waits for a sender").

Note [Lost work]: the receiver's stream goes on after a death, over bytes that may be torn. So the
next use of the array raises, and so does the next wait for the GPU, or copy of a tensor from it,
whatever it is of: results of before the death may depend on those bytes. That raises once.
"""

from __future__ import annotations

import threading
import time

import cupy

from ... import native
from ...cuda_arrays import watch
from .streams import StreamRecord, on_device

runtime = cupy.cuda.runtime
TIMELINES = 64  # of a process
PORTABLE, MAPPED = 1, 2  # cudaHostRegister: for all devices; GPUs write to it
EXIT_S = 5.0  # the longest wait for this process's own work at its end
LONGEST_PAUSE_S = 0.0005

# The sender's row and incarnation, the place of its timeline (-1: it had no work left), the number.
Work = tuple[int, int, int, int]

streams: list[StreamRecord | None] = []  # whose numbers a timeline counts, by place
places: dict[StreamRecord, int] = {}
pending = watch.waits  # works that streams of this process wait for
lost: set[Work] = set()  # of them, those whose process has died
is_registered: bool | None = None  # None: not tried
registration = threading.Lock()
thread = threading.local()


def can_wait() -> bool:
    """Whether GPUs write to the timelines and wait for them; tries it at the first call."""
    global is_registered
    if is_registered is None:
        with registration:
            if is_registered is None:
                address, nbytes = native.timeline_area()
                try:
                    runtime.hostRegister(address, nbytes, PORTABLE | MAPPED)
                except runtime.CUDARuntimeError:
                    is_registered = False
                else:
                    is_registered = native.timeline_registered(address)
    return is_registered


# ---- sending
def number(stream: StreamRecord) -> tuple[int, int]:
    """Numbers what the stream has to do now: its timeline's place, and the number. (-1, 0): it has
    nothing to do. Where no timeline can be had, the host waits until that is so.
    """
    if stream.is_idle():
        return -1, 0
    place = places.get(stream, -1)
    if place < 0 and (not can_wait() or (place := place_of(stream)) < 0):
        stream.stream.synchronize()
        return -1, 0
    with on_device(stream.device):
        return place, native.timeline_write(stream.ptr, place)


def place_of(stream: StreamRecord) -> int:
    """A timeline for a stream that has none; -1: all are of streams that have work."""
    if len(streams) < TIMELINES:
        place = len(streams)
        streams.append(stream)
    else:
        place = next((k for k in range(TIMELINES) if native.timeline_idle(k)), -1)
        if place < 0:
            return -1
        former = streams[place]
        if former is not None:
            del places[former]
        streams[place] = stream
    places[stream] = place
    return place


# ---- receiving
def wait(stream: StreamRecord, work: Work) -> bool:
    """Lets later work of the stream wait for a sender's; whether that is done already. Whether the
    sender lives is not asked, which would cost more than all the rest: the sweep tells.

    Raises:
        PeerLostError: the sender's row was swept, and it was not done.
    """
    row, inc, place, issued = work
    state = native.timeline_state(row, place, issued)
    if state == "done":
        return True
    if state == "lost":
        native.raise_peer_lost("receive", row, inc)
    if not (is_registered or can_wait()):
        return wait_on_host(work)
    if len(pending) >= TIMELINES:
        settle()
    pending[work] = None
    try:
        with on_device(stream.device):
            if not hasattr(thread, "has_context"):  # the driver, other than the runtime, needs one
                runtime.streamQuery(stream.ptr)
                thread.has_context = True
            native.timeline_wait(stream.ptr, row, place, issued)
    except BaseException:
        pending.pop(work, None)
        raise
    return False


def wait_on_host(work: Work) -> bool:
    """Where GPUs cannot: returns True when it is done."""
    pause = 0.0
    while not require(work):
        if native.liveness(*work[:2]) == "dead" and not require(work):
            native.raise_peer_lost("receive", *work[:2])
        time.sleep(pause)
        pause = min(pause + 20e-6, LONGEST_PAUSE_S)
    return True


def require(work: Work) -> bool:
    """Whether a sender's work is done.

    Raises:
        PeerLostError: the sender has died, and it was not done.
    """
    state = state_of(work)
    if state == "pending":
        return False
    pending.pop(work, None)
    if state == "lost":
        native.raise_peer_lost("cuda", *work[:2])
    return True


def state_of(work: Work) -> str:
    """ "done", "pending" or "lost". Who has lost it once says so for ever: the timeline forgets it
    when another process of that row has died.
    """
    if work in lost:
        return "lost"
    state = native.timeline_state(work[0], *work[2:])
    if state == "lost":
        lost.add(work)
    return state


def check() -> None:
    """Note [Lost work].

    Raises:
        PeerLostError: this process's streams have waited for work that was lost.
    """
    first = None
    for work in list(pending):
        state = state_of(work)
        if state != "pending":
            pending.pop(work, None)
        if state == "lost":
            first = first or work
    if first is not None:
        native.raise_peer_lost("cuda", *first[:2])


def settle() -> None:
    """Forgets the works that are done; those that were lost stay for `check`."""
    for work in list(pending):
        if state_of(work) == "done":
            pending.pop(work, None)


# ---- the end
def finish() -> None:
    """This process ends: waits until the work that others wait for is done, up to 5 s."""
    end = time.monotonic() + EXIT_S
    while not native.timeline_idle() and time.monotonic() < end:
        time.sleep(0.001)


def forget() -> None:
    """There is no work left."""
    pending.clear()
    streams.clear()
    places.clear()
