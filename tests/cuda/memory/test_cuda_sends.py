"""Arrays that travel between processes: the same memory, in order, and back to its owner."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.errors import OutOfMemoryError, StaleHandle
from tests.cuda.memory.peer import Peer, peers, until

MIB = 1 << 20


@pytest.fixture(scope="module")
def lasting() -> Iterator[list[Peer]]:
    """Two processes that serve all tests here."""
    with peers(2) as both:
        yield both


@pytest.fixture
def pair(mc: ModuleType, lasting: list[Peer]) -> Iterator[list[Peer]]:
    yield lasting
    for peer in lasting:
        peer.forget()


@pytest.fixture
def peer(pair: list[Peer]) -> Peer:
    return pair[0]


def stats(mc: ModuleType, name: str) -> int:
    value: int = mc.memory_stats()[name]
    return value


def pending() -> int:
    native.trim()  # the messages of a channel go with it, and that may be in limbo
    count: int = native.statistics()["unread_messages"]
    return count


def test_a_receiver_sees_and_writes_the_same_memory(cp: Any, mc: ModuleType, peer: Peer) -> None:
    x = cp.arange(1000, dtype=np.float32)
    message = mc.export(x)
    assert len(pickle.dumps(message)) < 250
    assert pending() == 1
    peer.receive(message)
    assert pending() == 0
    assert peer.do("out = float(a.sum())") == 499500.0
    peer.do("a *= 2; rt.deviceSynchronize()")
    assert float(x.sum()) == 999000.0
    assert "holds or open slabs" in mc.memory_summary()


@pytest.mark.parametrize(
    "view", ["x[::2, 1:]", "x.T", "x[::-1]", "x[3, 4]", "x[:, :0]", "x.view('i4')[1]"]
)
def test_views_keep_their_layout(cp: Any, mc: ModuleType, peer: Peer, view: str) -> None:
    x = cp.arange(60, dtype=np.float32).reshape(6, 10)
    sent = eval(view, {"x": x})
    peer.receive(mc.export(sent))
    shape, strides, dtype, values = peer.do(
        "out = (a.shape, a.strides, a.dtype.str, a.get().tolist())"
    )
    assert (shape, strides, dtype) == (sent.shape, sent.strides, sent.dtype.str)
    assert values == sent.get().tolist()


def test_the_receiver_waits_for_the_senders_work(cp: Any, mc: ModuleType) -> None:
    """The sender's work is late: without the event the receiver would read zeros."""
    x = cp.zeros(1 << 16, np.uint8)
    cp.cuda.runtime.deviceSynchronize()
    with peers(STANDIN_LATE_US=50_000) as [peer]:
        peer.receive(mc.export(x), "x")
        for number in range(1, 5):
            message = peer.do(
                "busy(cupy.cuda.Stream.null, 0.05); "
                f"rt.memsetAsync(x.data.ptr, {number}, x.nbytes, 0); out = mc.export(x)"
            )
            y = mc.receive(message)
            assert y.data.ptr == x.data.ptr
            assert (y.get() == number).all()
        del y


def test_each_stream_numbers_its_own_work(cp: Any, mc: ModuleType) -> None:
    with peers(STANDIN_LATE_US=500_000) as [peer]:
        peer.do("s = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]; xs = []")
        peer.do("busy(s[0], 0); rt.deviceSynchronize()")  # compiled
        messages = []
        for i in range(3):
            messages.append(
                peer.do(
                    f"with s[{i}]:\n x = cupy.empty(1000, np.uint8); busy(s[{i}], 1)\n"
                    f" rt.memsetAsync(x.data.ptr, {i + 1}, 1000, s[{i}].ptr)\n"
                    " xs.append(x); out = mc.export(x)"
                )
            )
        assert sorted(m[2][2] for m in messages) == [0, 1, 2]
        for i in (2, 0, 1):
            x = mc.receive(messages[i])
            assert (x.get() == i + 1).all()
        del x


def test_a_sender_that_never_rests_does_not_delay_its_receiver(cp: Any, mc: ModuleType) -> None:
    """The first message can be used when its own work has ended, whatever was sent after it."""
    with peers(STANDIN_LATE_US=300_000) as [peer]:
        peer.do("busy(cupy.cuda.Stream.null, 0); rt.deviceSynchronize()")  # compiled
        peer.do(
            "xs = [cupy.empty(1000, np.uint8) for _ in range(30)]; ms = []\n"
            "for x in xs:\n busy(cupy.cuda.Stream.null, 0.3)\n"
            " rt.memsetAsync(x.data.ptr, 7, 1000, 0); ms.append(mc.export(x))"
        )
        begin = time.monotonic()
        x = mc.receive(peer.do("out = ms[0]"))
        assert time.monotonic() - begin < 6  # 30 times 0.3 s in all
        assert (x.get() == 7).all()
        peer.do("for m in ms[1:]: mc.discard(m)")
        del x


def test_each_message_waits_for_its_own_work(cp: Any, mc: ModuleType) -> None:
    with peers(STANDIN_LATE_US=5_000) as [peer]:
        peer.do("busy(cupy.cuda.Stream.null, 0); rt.deviceSynchronize(); xs, ms = [], []")
        peer.do(
            "for i in range(100):\n x = cupy.empty(1000, np.uint8)\n"
            " busy(cupy.cuda.Stream.null, 0.005)\n"
            " rt.memsetAsync(x.data.ptr, i, 1000, 0); xs.append(x); ms.append(mc.export(x))"
        )
        messages = peer.do("out = ms")
        numbers = [m[2] for m in messages if m[2][2] >= 0]
        assert len(set(numbers)) == len(numbers)
        for i in reversed(range(100)):
            x = mc.receive(messages[i])
            assert (x.get() == i).all()
        del x


def test_a_block_in_limbo_is_not_used_again_before_its_receiver_drops_it(
    cp: Any, mc: ModuleType, peer: Peer
) -> None:
    x = cp.full(1000, 7, np.uint8)
    address = x.data.ptr
    peer.receive(mc.export(x))
    del x
    assert stats(mc, "lent_blocks") == 1
    others = [cp.full(1000, 1, np.uint8) for _ in range(5)]
    assert address not in [o.data.ptr for o in others]
    assert peer.do("out = int(a.sum())") == 7000
    peer.do("del a")
    assert until(lambda: stats(mc, "lent_blocks") == 0)
    others += [cp.empty(1000, np.uint8) for _ in range(5)]
    assert address in [o.data.ptr for o in others]
    assert native.check() is None
    others.clear()


def test_a_message_keeps_the_block_until_it_is_read_or_discarded(cp: Any, mc: ModuleType) -> None:
    messages = [mc.export(cp.full(100, i, np.uint8)) for i in range(2)]
    assert stats(mc, "lent_blocks") == 2
    mc.poll()
    assert stats(mc, "lent_blocks") == 2
    x = mc.receive(messages[0])  # home, out of limbo
    assert stats(mc, "lent_blocks") == 1
    assert (x.get() == 0).all()
    mc.discard(messages[1])
    mc.discard(messages[1])
    mc.poll()
    assert stats(mc, "lent_blocks") == 0
    with pytest.raises(StaleHandle):
        mc.receive(messages[1])
    y = mc.receive(messages[0])  # a second time: the block has not been reclaimed
    assert y.data.ptr == x.data.ptr
    del x, y
    mc.poll()
    with pytest.raises(StaleHandle):
        mc.receive(messages[0])


def test_a_receiver_sends_on_and_the_array_comes_home(cp: Any, mc: ModuleType) -> None:
    x = cp.arange(10, dtype=np.int64)
    with peers(2, STANDIN_LATE_US=20_000) as [first, second]:
        first.receive(mc.export(x))
        first.do("s = cupy.cuda.Stream(non_blocking=True)")
        message = first.do("with s:\n busy(s, 0.02); a += 1; out = mc.export(a)")
        second.receive(message)
        assert second.do("out = a.get().tolist()") == list(range(1, 11))
        home = mc.receive(second.do("a += 1; out = mc.export(a)"))
        assert home.data.ptr == x.data.ptr
        assert home.get().tolist() == list(range(2, 12))
        del x
        first.do("del a")
        second.do("del a")
        assert mc.memory_stats()["lent_blocks"] == 0
        assert home.get().tolist() == list(range(2, 12))
        del home


def test_one_block_received_twice_is_one_hold(cp: Any, mc: ModuleType, peer: Peer) -> None:
    x = cp.arange(100, dtype=np.uint8)
    peer.receive(mc.export(x[:50]), "a")
    peer.receive(mc.export(x[50:]), "b")
    assert peer.do("out = mc.memory_stats()['held_blocks']") == 1
    assert peer.do("out = b.data.ptr - a.data.ptr") == 50
    peer.do("del a; gc.collect()")
    del x
    assert peer.do("out = b.get().tolist()") == list(range(50, 100))
    assert stats(mc, "lent_blocks") == 1


def test_a_hold_ends_when_its_work_has_ended(
    cp: Any, mc: ModuleType, peer: Peer, late_work: Any
) -> None:
    """This process receives, queues work and drops; the timer ends the hold later."""
    x = mc.receive(peer.do("x = cupy.zeros(1000, np.uint8); out = mc.export(x)"))
    peer.do("del x")
    stream = cp.cuda.Stream(non_blocking=True)
    late_work(stream, 2)
    cp.cuda.runtime.memsetAsync(x.data.ptr, 1, 1000, stream.ptr)
    mc.note_use(x, stream)
    del x
    assert stats(mc, "held_blocks") == 1
    assert peer.do("mc.poll(); out = mc.memory_stats()['lent_blocks']") == 1
    cp.cuda.runtime.deviceSynchronize()
    assert until(lambda: stats(mc, "held_blocks") == 0)
    assert until(lambda: peer.do("out = mc.memory_stats()['lent_blocks']") == 0)


def test_an_idle_receiver_gives_memory_back(cp: Any, mc: ModuleType, peer: Peer) -> None:
    """After its last array an importer closes the slab, and the owner can free it."""
    x = cp.zeros(1000, np.uint8)
    peer.receive(mc.export(x))
    assert peer.do("out = mc.memory_stats()['open_slabs']") == 1
    peer.tell("del a; time.sleep(2)")  # and does nothing
    del x

    def is_returned() -> bool:
        mc.empty_cache()
        return bool(mc.memory_reserved() == 0)

    assert until(is_returned)
    peer.answer()
    assert peer.do("out = mc.memory_stats()['open_slabs']") == 0


def test_a_slab_that_is_open_elsewhere_is_not_freed(cp: Any, mc: ModuleType, peer: Peer) -> None:
    x = cp.zeros(MIB, np.uint8)
    peer.receive(mc.export(x))
    del x
    mc.empty_cache()
    assert mc.memory_reserved() == 32 * MIB
    peer.do("del a; mc.empty_cache()")
    mc.empty_cache()
    assert mc.memory_reserved() == 0


def test_no_memory_names_the_borrower(cp: Any, mc: ModuleType, peer: Peer) -> None:
    from shmtensor.errors import OutOfMemoryError

    x = cp.zeros(50 * MIB, np.uint8)
    peer.do("native.set_role('the borrower')")
    peer.receive(mc.export(x))
    unread = mc.export(x)
    del x
    with pytest.raises(
        OutOfMemoryError,
        match=r"held by other processes or in messages: 50.0 "
        r"MiB in 1 blocks; lent to: the borrower .*; 1 messages in flight",
    ):
        cp.empty(8 << 40, np.uint8)
    mc.discard(unread)


def test_two_processes_send_many(cp: Any, mc: ModuleType, pair: list[Peer]) -> None:
    first, second = pair
    for peer in (first, second):
        peer.do("xs = []")
    for round_ in range(30):
        x = cp.full(1000 + round_, round_, np.uint8)
        message = mc.export(x)
        del x
        first.do(f"x = mc.receive({message!r}); x += 1; m = mc.export(x); del x; out = m")
        sent = first.do("out = m")
        second.do(f"x = mc.receive({sent!r}); x += 1; out = mc.export(x); m = out; del x")
        x = mc.receive(second.do("out = m"))
        assert (x.get() == round_ + 2).all()
        del x
    assert until(lambda: stats(mc, "lent_blocks") == 0)


def test_memory_of_the_second_device(two_devices: Any, cp: Any, mc: ModuleType, peer: Peer) -> None:
    with cp.cuda.Device(1):
        x = cp.arange(10)
        message = mc.export(x)
    peer.receive(message)
    code = "with cupy.cuda.Device(1):\n out = a.data.device_id, int(a.sum()); a += 1"
    assert peer.do(code) == (1, 45)
    home = mc.receive(peer.do("out = mc.export(a)"))
    assert home.data.device_id == 1
    with cp.cuda.Device(1):
        assert int(home.sum()) == 55
    del x, home


def test_more_streams_than_timelines(cp: Any, mc: ModuleType, peer: Peer) -> None:
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(70)]
    messages = []
    for i, stream in enumerate(streams):
        with stream:
            x = cp.empty(100, np.uint8)
            cp.cuda.runtime.memsetAsync(x.data.ptr, i, 100, stream.ptr)
            messages.append(mc.export(x))
    for i in (0, 63, 64, 69):
        peer.receive(messages[i])
        assert peer.do("out = set(a.get().tolist())") == {i}
    peer.do("del a")
    for message in messages:
        mc.discard(message)
    del x


def test_an_empty_array_names_its_gpu(two_devices: Any, cp: Any, mc: ModuleType) -> None:
    messages = []
    for device in (0, 1):
        with cp.cuda.Device(device):
            messages.append(mc.export(cp.empty((3, 0), np.float32)))
    assert [mc.receive(m).device.id for m in messages] == [0, 1]
    with peers(CUDA_VISIBLE_DEVICES="1,0") as [other]:
        for device, message in enumerate(messages):
            other.receive(message)
            assert other.do("out = a.device.id, a.shape, a.dtype.str") == (
                1 - device,
                (3, 0),
                "<f4",
            )
            back = mc.receive(other.do("out = mc.export(a)"))
            assert back.device.id == device
        other.do("del a")
    with peers(CUDA_VISIBLE_DEVICES="1") as [other]:
        with pytest.raises(RuntimeError, match="is not visible in this process"):
            other.receive(messages[0])
        other.receive(messages[1])
        assert other.do("out = a.device.id") == 0
        other.do("del a")
    for message in messages:
        mc.discard(message)


def test_the_end_of_a_channel_gives_memory_back_when_it_is_short(cp: Any, mc: ModuleType) -> None:
    size = cp.cuda.runtime.memGetInfo()[1] * 6 // 10  # two do not fit
    channel = native.allocate(100_000, True, True)
    holder = native.receive(native.export(channel))
    x = cp.empty(size, np.uint8)
    message = mc.export(x, channel)
    del x
    with pytest.raises(OutOfMemoryError, match="1 messages in flight"):
        cp.empty(size, np.uint8)  # the channel is there: the message may be read
    del channel, holder
    y = cp.empty(size, np.uint8)
    with pytest.raises(StaleHandle):
        mc.receive(message)
    del y
