"""spawn and start_processes: the first failure is told, with its cause."""

from __future__ import annotations

import time

import deeds
import pytest

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.errors import ProcessExitedException, ProcessRaisedException

METHODS = ["fork", "forkserver", "spawn"]


@pytest.mark.parametrize("method", METHODS)
def test_every_index_runs(method: str) -> None:
    tensor = st.zeros(3)
    assert mp.start_processes(deeds.fill, (tensor,), nprocs=3, start_method=method) is None
    assert tensor.tolist() == [1, 2, 3]


def test_spawn_without_join() -> None:
    tensor = st.zeros(2)
    context = mp.spawn(deeds.fill, (tensor,), nprocs=2, join=False)
    assert isinstance(context, mp.SpawnContext)
    assert len(context.pids()) == 2
    while not context.join():
        continue
    assert tensor.tolist() == [1, 2]


@pytest.mark.parametrize("method", METHODS)
def test_an_exception_arrives_with_its_traceback(method: str) -> None:
    ready = mp.SimpleQueue()
    start = time.monotonic()
    with pytest.raises(
        ProcessRaisedException, match=r"(?s)Process 1 .*deeds.py.*on purpose"
    ) as caught:
        mp.start_processes(deeds.die_on, (1, "raise", ready), nprocs=2, start_method=method)
    assert caught.value.error_index == 1
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_process_is_named(method: str) -> None:
    ready = mp.SimpleQueue()
    with pytest.raises(ProcessExitedException, match=r"process 0 \(pid \d+\).*SIGKILL") as caught:
        mp.start_processes(deeds.die_on, (0, "kill", ready), nprocs=2, start_method=method)
    assert caught.value.exit_code == -9
    assert caught.value.signal_name == "SIGKILL"
    assert caught.value.error_index == 0


def test_an_exit_code_is_told() -> None:
    ready = mp.SimpleQueue()
    with pytest.raises(ProcessExitedException, match="exit code 7") as caught:
        mp.start_processes(deeds.die_on, (0, "abort", ready), nprocs=2, start_method="fork")
    assert caught.value.exit_code == 7


def test_join_with_a_timeout_comes_back() -> None:
    ready = mp.SimpleQueue()
    context = mp.start_processes(
        deeds.die_on, (5, "kill", ready), nprocs=2, join=False, start_method="fork"
    )
    assert context is not None
    assert not context.join(timeout=0.1)
    for _ in range(2):
        ready.put(None)
    while not context.join():
        continue
