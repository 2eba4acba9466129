"""Memory is not given out twice, nor while work on it is queued."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.multiprocessing.reduce_cuda import Handles
from tests.cuda.memory.peer import until
from tests.cuda.standin.program import run


def test_a_block_that_comes_home_while_it_leaves_is_free_once(cp: Any, mc: ModuleType) -> None:
    from shmtensor.memory.cuda.allocator import allocator

    done = threading.Event()
    side = cp.cuda.Stream(non_blocking=True)
    x = cp.ones(1000, "u1")
    message = mc.export(x)
    mc.note_use(x, side)
    side.launch_host_func(lambda _: done.wait(20), None)
    del x
    y = mc.receive(message)
    del y
    assert len(allocator.leaving) == 1
    done.set()
    assert until(lambda: not (mc.poll() or allocator.leaving))
    a, b = cp.empty(1000, "u1"), cp.empty(1000, "u1")
    assert a.data.ptr != b.data.ptr


def test_the_first_op_on_a_side_stream_is_noted(cp: Any, mc: ModuleType) -> None:
    x, y = st.zeros(1 << 16, device="cuda"), st.ones(1 << 16, device="cuda")
    st.full((1,), 7.0, device="cuda")  # a kernel's first launch may wait for all streams
    cp.cuda.runtime.deviceSynchronize()
    side, done = st.cuda.Stream(), threading.Event()
    side.stream.launch_host_func(lambda _: done.wait(20), None)
    with st.cuda.stream(side):
        x.copy_(y)  # allocates nothing there
    del y
    z = st.full((1 << 16,), 7.0, device="cuda")
    cp.cuda.Stream.null.synchronize()
    done.set()
    side.synchronize()
    assert x[:3].tolist() == [1.0] * 3
    assert z[:3].tolist() == [7.0] * 3


class Cycle:
    """Garbage whose finaliser allocates on the GPU."""

    def __init__(self, cp: Any) -> None:
        self.me, self.cp = self, cp

    def __del__(self) -> None:
        self.cp.empty(8)


def test_a_finaliser_may_allocate_amid_an_allocation(cp: Any, mc: ModuleType) -> None:
    threshold = gc.get_threshold()
    kept = []
    try:
        for n in range(1, 40):
            gc.disable()
            gc.collect()
            Cycle(cp)
            gc.set_threshold(n, 10, 10)
            gc.enable()
            kept.append(cp.empty(512 * (n + 2)))
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
    gc.collect()
    assert len({x.data.ptr for x in kept}) == len(kept)


def test_messages_that_are_not_sent_hold_nothing(mc: ModuleType) -> None:
    queue = st.Queue(1)
    x = st.ones(3, device="cuda")
    assert queue.put_many([x, x * 2, (lambda: None, x * 3)], timeout=0) == 1
    assert queue.get().tolist() == [1.0] * 3
    queue.shutdown()
    failed = False
    try:
        queue.put(x)
    except st.errors.ShutDown:
        failed = True
    assert failed
    del x
    assert until(lambda: st.cuda.memory_allocated(0) == 0)
    queue.close()


def test_messages_that_are_refused_or_interrupted_hold_nothing(mc: ModuleType) -> None:
    class Late(Exception):
        pass

    def ring(number: int, frame: Any) -> None:
        raise Late

    queue = st.Queue(1)
    x, y = st.ones(3, device="cuda"), st.ones(3, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="non-leaf"):
        queue.put_many([x + 1, [x + 2], y * 2])
    queue.put(0)
    former = signal.signal(signal.SIGALRM, ring)
    try:
        for call in (lambda: queue.put(x + 3), lambda: queue.put_many([x + 4, [x + 5]])):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Late):
                call()
    finally:
        signal.signal(signal.SIGALRM, former)
    mc.poll()
    assert until(lambda: mc.memory_stats()["lent_blocks"] == 0)
    queue.close()


def test_a_container_that_changes_while_it_is_encoded(mc: ModuleType) -> None:
    """The export of a tensor runs Python's code, and other threads."""

    class Changing(Handles):
        def __init__(self, change: Callable[[], Any]) -> None:
            super().__init__()
            self.change = change

        def add(self, array: Any) -> Any:
            self.change()
            return super().add(array)

    x = st.ones(3, device="cuda")
    for found, change in (
        (items := [x, x + 1, "text"], lambda: items.clear()),
        (grown := [x, x + 1, "text"], lambda: grown.append(1)),
        (pairs := {"x": x, "y": x + 1}, lambda: pairs.pop("x", None)),
        (more := {"x": x, "y": x + 1}, lambda: more.update(z=1)),
    ):
        handles = Changing(change)
        with pytest.raises(RuntimeError, match=r"put: a (list|dict) changed its size"):
            native.encode(found, handles)
        assert not handles.messages


INTERRUPTED = r"""
import gc, random, signal, threading, time
import shmtensor.memory.cuda as mc
from shmtensor.memory.cuda.allocator import allocator
mc.install()

LARGE = (1 << 20) + 1  # the smallest block of the larger slabs

class Interrupt(BaseException):
    pass

def interrupt(number, frame):
    raise Interrupt

sys.unraisablehook = lambda unraisable: None  # of finalisers
signal.signal(signal.SIGALRM, interrupt)
rng = random.Random(int(os.environ["SEED"]))
streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
interrupts = 0
warm = cupy.ndarray(100, np.uint8), cupy.ndarray(LARGE, np.uint8)  # a slab of each size
end = time.monotonic() + 2
# Each may lose a block, and a slab is made when those of one are lost: a few of them at most.
while time.monotonic() < end and interrupts < 400:
    kept = []
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(2e-5, 6e-4))
        for _ in range(200):  # an interrupt in a finaliser is lost
            x = cupy.ndarray(rng.choice([100, 10000, LARGE]), np.uint8)
            if rng.random() < 0.2:
                mc.note_use(x, streams[0])
            if rng.random() < 0.2:
                mc.discard(mc.export(x))
            kept = [x]
            mc.poll()
    except Interrupt:
        interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)

def use():
    global used
    cupy.empty(1000, np.uint8)
    mc.memory_stats()
    used = True

used = False
assert not allocator.is_inside()
thread = threading.Thread(target=use, daemon=True)
thread.start()
thread.join(20)
print("used" if used else "locked", interrupts > 20, flush=True)
os._exit(0)
"""


def test_an_interrupt_leaves_the_allocator_s_lock_free(cp: Any) -> None:
    for seed in (1, 2):
        code, out, err = run(INTERRUPTED, SEED=seed)
        assert out == "used True\n", err
        assert not code


CLASH = """
import signal, threading
import shmtensor.memory.cuda as mc
from shmtensor import errors
mc.install()
from shmtensor.memory.cuda.allocator import allocator
x, z = cupy.empty(10, np.uint8), cupy.empty(10, np.uint8)
with allocator.lock:  # as a signal handler that comes amid an allocation
    y = cupy.empty(10, np.uint8)
    mc.poll()
    del x
    for call in (mc.export, lambda _: mc.empty_cache()):
        try:
            call(z)
        except RuntimeError as error:
            print(error)
allocator.retry()
print(mc.memory_allocated(0))
del y, z
mc.uninstall()
"""


def test_a_signal_handler_amid_an_allocation(cp: Any) -> None:
    code, out, err = run(CLASH)
    assert out.splitlines() == [
        f"cuda.{name}: called by a finaliser or signal handler amid an allocation: do it outside "
        "of them"
        for name in ("export", "empty_cache")
    ] + ["512"], err
    assert not code


INTERRUPTED_RELEASE = """
import shmtensor.memory.cuda as mc
from shmtensor.memory.cuda.allocator import allocator
mc.install()
module = sys.modules["shmtensor.memory.cuda.allocator"]
runtime = module.runtime

class Interrupt(BaseException):
    pass

class Interrupted:  # the runtime, with an interrupt right after a slab is freed
    def __getattr__(self, name):
        return getattr(runtime, name)

    def free(self, ptr):
        runtime.free(ptr)
        raise Interrupt

x = cupy.empty(100, np.uint8)
del x
module.runtime = Interrupted()
try:
    mc.empty_cache()
except Interrupt:
    print("interrupted")
module.runtime = runtime
print(mc.memory_reserved(0), len(allocator.devices[0].slabs), flush=True)
mc.empty_cache()
x = cupy.ones(100, np.uint8)  # of a slab that is there
print(int(x.sum()))
# as after an interrupt between `take` and the count of the slab's blocks
del x
with allocator.lock:
    device = allocator.devices[0]
    device.free[0].idle()
    allocator.empty_bins(device)
    lost = [c for free in device.free for c in free.chunks()][0]
    device.free[0].remove(lost)
mc.empty_cache()
print(mc.memory_reserved(0))
mc.uninstall()
"""


def test_an_interrupt_amid_the_return_of_a_slab(cp: Any) -> None:
    code, out, err = run(INTERRUPTED_RELEASE)
    assert out.split() == ["interrupted", "0", "0", "100", "0"], err
    assert not code
