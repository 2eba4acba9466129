"""Work of the stand-in is late, and in any order that streams and events permit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ROUNDS = 40


def wrong_rounds(cp: Any, *, event: bool) -> int:
    """One stream writes 0 and then 1, another one copies: how often the copy is not 1."""
    rt = cp.cuda.runtime
    x = cp.zeros(4, np.float32)
    one, two = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    rt.deviceSynchronize()
    wrong = 0
    for _ in range(ROUNDS):
        rt.memsetAsync(x.data.ptr, 0, 16, one.ptr)
        one.synchronize()
        rt.memsetAsync(x.data.ptr, 1, 16, one.ptr)
        if event:
            two.wait_event(one.record())
        y = cp.empty_like(x)
        rt.memcpyAsync(y.data.ptr, x.data.ptr, 16, rt.memcpyDeviceToDevice, two.ptr)
        rt.deviceSynchronize()
        wrong += int(y.view(np.uint8).get()[0] != 1)
    return wrong


def test_without_an_event_another_stream_may_come_first(cp: Any) -> None:
    assert 0 < wrong_rounds(cp, event=False) < ROUNDS


def test_with_an_event_it_never_does(cp: Any) -> None:
    assert wrong_rounds(cp, event=True) == 0


def test_the_null_stream_orders_blocking_streams(cp: Any) -> None:
    rt, blocking = cp.cuda.runtime, cp.cuda.Stream()
    x = cp.zeros(4, np.uint8)
    for value in range(1, ROUNDS):
        with blocking:
            x += 1
        y = x * 1  # on the null stream
        assert (y.get() == value).all()
    rt.deviceSynchronize()


@pytest.mark.usefixtures("no_background")
def test_events_measure_time_and_say_whether_work_is_done(cp: Any) -> None:
    stream = cp.cuda.Stream(non_blocking=True)
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    begin.record(stream)
    end.record(stream)
    assert not end.done
    end.synchronize()
    assert end.done
    assert cp.cuda.get_elapsed_time(begin, end) >= 0
    untimed = cp.cuda.Event(disable_timing=True)
    untimed.record(stream)
    untimed.synchronize()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="InvalidResourceHandle"):
        cp.cuda.get_elapsed_time(begin, untimed)


@pytest.mark.usefixtures("no_background")
def test_a_stream_says_whether_it_is_done(cp: Any) -> None:
    stream = cp.cuda.Stream(non_blocking=True)
    x = cp.zeros(4, np.float32)
    cp.cuda.runtime.deviceSynchronize()
    cp.cuda.runtime.memsetAsync(x.data.ptr, 0, 16, stream.ptr)
    assert not stream.done
    stream.synchronize()
    assert stream.done


def test_the_device_describes_itself(cp: Any) -> None:
    assert cp.cuda.Device(0).compute_capability == "80"
    assert cp.cuda.runtime.getDeviceProperties(0)["warpSize"] == 32
    assert cp.cuda.is_available()


def test_priorities_and_flags(cp: Any) -> None:
    rt = cp.cuda.runtime
    assert cp.cuda.Stream(priority=-1).priority == -1
    assert cp.cuda.Stream(priority=-100).priority == -5  # the nearest that there is
    assert cp.cuda.Stream(non_blocking=True).is_non_blocking
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):
        rt.streamCreateWithFlags(8)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):
        rt.eventCreateWithFlags(rt.eventInterprocess)  # one that measures time, too


def test_callbacks_come_in_the_order_of_the_stream(cp: Any) -> None:
    stream, seen = cp.cuda.Stream(non_blocking=True), []
    for number in range(5):
        stream.add_callback(lambda s, status, n: seen.append((s.ptr, status, n)), number)
    stream.synchronize()
    assert seen == [(stream.ptr, 0, number) for number in range(5)]


def test_limits_are_told_as_they_were_set(cp: Any) -> None:
    rt = cp.cuda.runtime
    stack = rt.deviceGetLimit(0)
    rt.deviceSetLimit(0, 4096)
    assert rt.deviceGetLimit(0) == 4096
    rt.deviceSetLimit(0, stack)
