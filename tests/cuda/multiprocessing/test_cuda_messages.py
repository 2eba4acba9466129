"""GPU tensors in queues, pipes, pools and arguments: handles, whose memory always comes back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.standin.program import run_module

CASES = [
    "round_trip",
    "a_worker_ends_before_its_result_is_read",
    "sparse",
    "what_a_tensor_is",
    "the_producer_drops_it",
    "a_receiver_sends_on",
    "arguments_and_pools",
    "no_room_and_no_reader",
    "a_receiver_is_killed",
    "the_producer_is_killed",
    "forked_children_are_told",
]


def test_a_case_that_fails_does_not_wait_for_its_children(cp: Any) -> None:
    with pytest.raises(AssertionError, match="on purpose"):
        run_module("tests.cuda.multiprocessing.messages", "failure")


@pytest.mark.parametrize("case", CASES)
def test_messages(cp: Any, case: str) -> None:
    run_module("tests.cuda.multiprocessing.messages", case)
