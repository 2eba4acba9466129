"""Errors of the engines of all backends; an engine is left once."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from shmtensor.distributed.backends.member import Member, leave_all
from shmtensor.distributed.group.call_signature import describe


class Counted(Member):
    """Counts calls of leave()."""

    times = 0

    def _leave(self) -> None:
        self.times += 1


def test_only_another_rank_of_the_group_is_a_peer() -> None:
    member = Counted(1, 3)
    member.check_peer("send", 2)
    with pytest.raises(ValueError, match="send: a rank cannot send to itself: rank 1"):
        member.check_peer("send", 1)
    for peer in (-1, 3):
        with pytest.raises(ValueError, match=f"recv: no such rank: {peer} of 3"):
            member.check_peer("recv", peer)


def test_a_second_thread_is_refused() -> None:
    member = Counted(0, 2)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            with member.exclusive("reduce"):
                pass
        except RuntimeError as error:
            errors.append(error)

    with member.exclusive("barrier"):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert "reduce: another thread is in a collective of this group: rank 0" in str(errors[0])
    call()
    assert len(errors) == 1


def test_a_group_is_left_once() -> None:
    member = Counted(0, 2)
    member.check_member("barrier")
    member.leave()
    leave_all()
    assert member.times == 1
    with pytest.raises(RuntimeError, match="barrier: this rank has left the group: rank 0"):
        member.check_member("barrier")


def test_a_forked_child_is_not_a_member_and_leaves_nothing() -> None:
    member = Counted(0, 2)
    member.pid = os.getpid() + 1  # as in a child of the process that created it
    member.leave()
    assert member.times == 0
    with pytest.raises(RuntimeError, match="this process was forked from rank 0: no member"):
        member.check_member("barrier")


def test_the_head_of_a_message_says_what_it_is() -> None:
    head = Counted(0, 2).message_head(np.zeros((2, 3), np.float32), 7)
    assert describe(head) == "send(float32 (2, 3))"
