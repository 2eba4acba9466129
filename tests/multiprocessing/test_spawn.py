"""spawn and start_processes: the first failure is told, with its cause."""

from __future__ import annotations

import time

import pytest
import tasks

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.errors import ProcessExitedException, ProcessRaisedException
from tests.memory.fresh import state_of, until

METHODS = ["fork", "forkserver", "spawn"]


@pytest.mark.parametrize("method", METHODS)
def test_every_index_runs(method: str) -> None:
    tensor = st.zeros(3)
    assert mp.start_processes(tasks.fill, (tensor,), nprocs=3, start_method=method) is None
    assert tensor.tolist() == [1, 2, 3]


def test_spawn_without_join() -> None:
    tensor = st.zeros(2)
    context = mp.spawn(tasks.fill, (tensor,), nprocs=2, join=False)
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
        ProcessRaisedException, match=r"(?s)Process 1 .*tasks.py.*on purpose"
    ) as caught:
        mp.start_processes(tasks.die_on, (1, "raise", ready), nprocs=2, start_method=method)
    assert caught.value.error_index == 1
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_process_is_named(method: str) -> None:
    ready = mp.SimpleQueue()
    with pytest.raises(ProcessExitedException, match=r"process 0 \(pid \d+\).*SIGKILL") as caught:
        mp.start_processes(tasks.die_on, (0, "kill", ready), nprocs=2, start_method=method)
    assert caught.value.exit_code == -9
    assert caught.value.signal_name == "SIGKILL"
    assert caught.value.error_index == 0


def test_join_with_a_timeout_comes_back() -> None:
    ready = mp.SimpleQueue()
    context = mp.start_processes(
        tasks.die_on, (5, "kill", ready), nprocs=2, join=False, start_method="fork"
    )
    assert context is not None
    assert not context.join(timeout=0.1)
    for _ in range(2):
        ready.put(None)
    while not context.join():
        continue


def test_errors_have_the_attributes_of_pytorch() -> None:
    import pickle

    raised = mp.ProcessRaisedException("text", 1, 77)
    assert (raised.msg, raised.error_index, raised.error_pid) == ("text", 1, 77)
    exited = mp.ProcessExitedException(
        "text", error_index=2, error_pid=78, exit_code=-9, signal_name="SIGKILL"
    )
    copy = pickle.loads(pickle.dumps(exited))
    assert vars(copy) == vars(exited)
    assert (copy.error_index, copy.error_pid, copy.exit_code) == (2, 78, -9)
    assert pickle.loads(pickle.dumps(raised)).error_pid == 77
    assert issubclass(mp.ProcessRaisedException, mp.ProcessException)


def test_the_pid_of_the_failed_one_is_told() -> None:
    ready = mp.SimpleQueue()
    context = mp.start_processes(
        tasks.die_on, (1, "abort", ready), nprocs=2, join=False, start_method="fork"
    )
    assert context is not None
    pids = context.pids()
    with pytest.raises(ProcessExitedException) as caught:
        while not context.join():
            continue
    assert caught.value.error_pid == pids[1]
    assert context.join()  # it may be asked again


def test_others_may_end_by_themselves_within_the_grace_period() -> None:
    out = mp.SimpleQueue()
    context = mp.start_processes(
        tasks.fail_or_finish, (out,), nprocs=2, join=False, start_method="fork"
    )
    assert context is not None
    with pytest.raises(ProcessRaisedException):
        context.join(grace_period=20.0)
    assert out.get(1.0) == 1


@pytest.mark.parametrize("method", METHODS)
def test_children_of_a_killed_process_end(method: str) -> None:
    """Even those that compute: they get SIGINT, as PyTorch's do."""
    pids = mp.SimpleQueue()
    process = mp.get_context(method).Process(target=tasks.start_busy, args=(method, pids))
    process.start()
    children = [pids.get(30.0) for _ in range(2)]
    process.kill()
    process.join()
    process.close()
    until(lambda: all(state_of(pid) in "ZX" for pid in children), "they run on")


def test_spawn_only_spawns() -> None:
    with pytest.warns(FutureWarning, match="start_processes"):
        assert mp.spawn(tasks.fill, (st.zeros(1),), start_method="fork") is None
