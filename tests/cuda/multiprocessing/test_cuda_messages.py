"""GPU tensors in queues, pipes, pools and arguments: handles, whose memory always comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cuda.standin.build import ROOT

CASES = [
    "round_trip",
    "what_a_tensor_is",
    "the_producer_drops_it",
    "a_receiver_sends_on",
    "arguments_and_pools",
    "no_room_and_no_reader",
    "a_receiver_is_killed",
    "the_producer_is_killed",
    "forked_children_are_told",
]


@pytest.mark.parametrize("case", CASES)
def test_messages(cp: Any, case: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.cuda.multiprocessing.messages", case],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SHMTENSOR_DOMAIN": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.stdout.endswith("ok\n"), result.stderr
    assert "stand-in device:" not in result.stderr  # a misuse
    assert result.returncode == 0
