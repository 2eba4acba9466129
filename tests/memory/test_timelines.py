"""Timelines: the numbers of work that streams of other processes wait for. No GPU is needed: the
test writes what one would write.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shmtensor import native

PLACES = 64
LAST = 0xFFFFFFFF


def word(offset: int) -> ctypes.c_uint32:
    """What the GPU writes: the word at an offset of the area."""
    address, _ = native.timeline_area()
    return ctypes.c_uint32.from_address(address + offset)


@contextmanager
def issued(place: int, n: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The row of a process that has issued so many numbers, with their offsets; then it is killed
    and swept.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        numbers = [native.timeline_issue(place) for _ in range(n)]
        flat = [part for pair in numbers for part in pair]
        os.write(writer, struct.pack(f"<I{2 * n}I", native.row()[0], *flat))
        signal.pause()
        os._exit(0)
    row, *flat = struct.unpack(f"<I{2 * n}I", os.read(reader, 4 + 8 * n))
    os.close(reader)
    os.close(writer)
    try:
        yield row, list(zip(flat[::2], flat[1::2], strict=True))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        native.sweep(True)


def test_a_number_is_done_when_it_or_a_later_one_is_written() -> None:
    with issued(3, 3) as (row, numbers):
        (first, offset), (second, _), (third, _) = numbers
        assert [third, second] == [(first + 2) & LAST, (first + 1) & LAST]
        assert native.timeline_state(row, 3, first) == "pending"
        word(offset).value = second
        states = [native.timeline_state(row, 3, n) for n in (first, second, third)]
        assert states == ["done", "done", "pending"]
        word(offset).value = third
    assert [native.timeline_state(row, 3, n) for n in (first, third)] == ["done", "done"]


def test_the_sweep_of_a_dead_process_ends_the_waits() -> None:
    with issued(4, 3) as (row, numbers):
        (first, offset), (second, _), (third, _) = numbers
        word(offset).value = first
    assert word(offset).value == third, "no stream waits for ever"
    states = [native.timeline_state(row, 4, n) for n in (first, second, third)]
    assert states == ["done", "lost", "lost"]


def test_a_late_write_of_the_dead_does_not_stop_a_wait() -> None:
    """Where no exit can be seen, the context may outlive the sweep."""
    with issued(4, 2) as (row, numbers):
        (first, offset), (second, _) = numbers
    word(offset).value = first
    assert native.timeline_state(row, 4, second) == "lost"
    assert word(offset).value == second


def test_the_numbers_go_on_in_the_next_process_of_the_row() -> None:
    with issued(5, 1) as (row, [(first, _)]):
        pass
    found = False
    for _ in range(8):  # rows are used again, in no order that is promised
        with issued(5, 1) as (next_row, [(number, offset)]):
            if next_row == row:
                found = True
                assert number == (first + 1) & LAST
                assert native.timeline_state(row, 5, first) == "lost"
                assert native.timeline_state(row, 5, number) == "pending"
                word(offset).value = number
                break
    assert found
    assert native.timeline_state(row, 5, number) == "done"


def test_a_number_that_nobody_issued_is_waited_for_by_nobody() -> None:
    with issued(6, 1) as (row, [(number, offset)]):
        assert native.timeline_state(row, 6, (number + 1) & LAST) == "lost"
        assert native.timeline_state(row, 6, (number + 2**31 - 1) & LAST) == "lost"
        word(offset).value = number


def test_own_timelines_are_idle_when_their_last_number_is_written() -> None:
    number, offset = native.timeline_issue(9)
    assert not native.timeline_idle(9)
    assert not native.timeline_idle()
    assert native.timeline_idle(10)
    word(offset).value = number
    assert native.timeline_idle()


@pytest.mark.parametrize("arguments", [(256, 0, 1), (0, PLACES, 1), (0, 0, 2**32)])
def test_what_is_not_there_is_named(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"timeline: no such (row|place|number): "):
        native.timeline_state(*arguments)
    with pytest.raises(ValueError, match="timeline: no such place: 64"):
        native.timeline_issue(PLACES)


def test_streams_need_registered_timelines() -> None:
    with pytest.raises(RuntimeError, match="cuStreamWaitValue32: the timelines are not registered"):
        native.timeline_wait(0, 0, 0, 1)
