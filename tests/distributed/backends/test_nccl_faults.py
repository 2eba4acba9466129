"""The backend nccl when something is missing, fails, hangs or dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed.backends.nccl import cupy_nccl as cuda
from shmtensor.distributed.backends.nccl import init_communicator
from shmtensor.distributed.backends.nccl import member as nccl_member
from shmtensor.distributed.backends.nccl.init_communicator import check_gpus
from shmtensor.errors import CollectiveTimeout, PeerLostError

from ..run_ranks import die, run, values
from .nccl_ranks import LARGE, begin, engine, needs_gpus, on_gpus


def two_gpus(test: Any) -> Any:
    """Marks a test that needs two GPUs."""
    for mark in needs_gpus:
        test = mark(test)
    return test


def nccl_error() -> Exception:
    error: Exception = engine().communicator.nccl.NcclError(6)  # ncclRemoteError
    return error


# ---------------------------------------------------------------- deaths
def expect_loss(call: Any) -> tuple[str, int, bool]:
    """The error after a rank died in a collective that all had begun; whether NCCL is aborted."""
    with pytest.raises(PeerLostError) as caught:
        call()
    with pytest.raises(PeerLostError):  # and the group stays broken
        dist.all_reduce(st.zeros(3))
    return caught.value.name, caught.value.pid, engine().communicator.is_aborted


def die_at_work() -> Any:
    pids: list[Any] = [None] * 2
    dist.all_gather_object(pids, os.getpid())
    if dist.get_rank() == 1:
        engine().communicator.all_reduce = lambda *_: die()
    name, pid, is_over = expect_loss(lambda: dist.all_reduce(st.zeros(LARGE)))
    return name, pid == pids[1], is_over


@two_gpus
def test_a_death_on_the_stream_aborts_and_is_named() -> None:
    outcomes = on_gpus(2, die_at_work)
    assert outcomes[1].exitcode == -signal.SIGKILL
    assert outcomes[0].value == ("rank 1", True, True), outcomes


def die_a_little_later() -> Any:
    def refuse(*_: Any) -> None:
        if dist.get_rank() == 0:
            raise nccl_error()
        time.sleep(0.1)
        die()

    engine().communicator.all_reduce = refuse
    return expect_loss(lambda: dist.all_reduce(st.zeros(LARGE)))


@two_gpus
def test_a_death_that_nccl_sees_first_is_named() -> None:
    outcomes = on_gpus(2, die_a_little_later)
    assert outcomes[0].error is None, outcomes[0].error
    assert outcomes[0].value[0] == "rank 1"


def die_with_a_message() -> Any:
    if dist.get_rank() == 1:
        engine().communicator.send = lambda *_: die()
        dist.send(st.zeros(LARGE), 0)
    return expect_loss(lambda: dist.recv(st.zeros(LARGE), 1))


@two_gpus
def test_a_death_with_a_message_is_named() -> None:
    outcomes = on_gpus(2, die_with_a_message)
    assert outcomes[0].error is None, outcomes[0].error
    name, _, is_over = outcomes[0].value
    assert (name, is_over) == ("rank 1", True)


def begin_badly(make: Any) -> str:
    """The error of a group whose rank 1 makes its communicator by `make`."""
    begin()
    if dist.get_rank() == 1:
        cupy, nccl = cuda.find_cupy()
        changed = SimpleNamespace(get_unique_id=nccl.get_unique_id, NcclCommunicator=make)
        init_communicator.find_cupy = lambda: (cupy, changed)
    with pytest.raises(RuntimeError) as caught:
        dist.new_group(backend="nccl")
    return str(caught.value)


def die_in_nccl(*_: Any) -> None:
    die()


def refuse_to_begin(*_: Any) -> None:
    raise RuntimeError("NCCL_ERROR_SYSTEM_ERROR: no memory to share")


@two_gpus
def test_a_death_while_nccl_brings_the_ranks_together() -> None:
    outcomes = run(begin_badly, 2, die_in_nccl, start_method="spawn", patience=250.0)
    assert outcomes[0].error is None, outcomes
    assert "rank 1" in outcomes[0].value
    assert "SIGKILL" in outcomes[0].value


@two_gpus
def test_a_failure_while_nccl_brings_the_ranks_together() -> None:
    outcomes = run(begin_badly, 2, refuse_to_begin, start_method="spawn", patience=250.0)
    first, second = values(outcomes)
    assert second == "NCCL_ERROR_SYSTEM_ERROR: no memory to share"
    assert "rank 1 gave up: RuntimeError: NCCL_ERROR_SYSTEM_ERROR" in first


def shrink() -> Any:
    if dist.get_rank() == 1:
        die()
    with pytest.raises(PeerLostError):
        dist.all_reduce(st.zeros(LARGE))
    dist.shrink_group([1])
    x = st.full((LARGE,), 2.0)
    dist.all_reduce(x)
    return dist.get_backend(), float(x[-1].item()), engine().statistics()[2]


@two_gpus
def test_the_remaining_rank_continues_with_nccl() -> None:
    assert on_gpus(2, shrink)[0].value == ("nccl", 2.0, 4 * LARGE)


# ---------------------------------------------------------------- failures that leave all alive
def never_done() -> Any:
    return SimpleNamespace(done=False)


def hang() -> Any:
    world: Any = dist.GroupMember.WORLD
    dist.all_reduce(st.zeros(LARGE))
    if dist.get_rank() == 1:  # its kernel never ends
        engine().communicator.mark = never_done
    world.timeout = 0.3
    texts = []
    for _ in range(2):
        with pytest.raises((CollectiveTimeout, RuntimeError)) as caught:
            dist.all_reduce(st.zeros(LARGE))
        texts.append((type(caught.value), str(caught.value)))
    return texts, engine().communicator.is_aborted


@two_gpus
def test_the_timeout_ends_it_on_all_ranks() -> None:
    for texts, is_over in values(on_gpus(2, hang)):
        assert is_over
        assert texts[0][0] is CollectiveTimeout, texts
        assert "all_reduce: NCCL has not finished in time: on ranks [1] of 2" in texts[0][1]
        assert "broken" in texts[1][1]


def stop() -> Any:
    pids: list[Any] = [None, None]
    dist.all_gather_object(pids, os.getpid())
    world: Any = dist.GroupMember.WORLD
    x = st.zeros(LARGE)
    if dist.get_rank() == 1:
        engine().communicator.all_reduce = lambda *_: os.kill(os.getpid(), signal.SIGSTOP)
        with pytest.raises(RuntimeError):
            dist.all_reduce(x)
        return "went on"
    world.timeout = nccl_member.GRACE = 0.3
    try:
        with pytest.raises(PeerLostError, match=r"rank 1 \(pid \d+\) is stopped") as caught:
            dist.all_reduce(x)
        assert caught.value.pid == pids[1]
    finally:
        os.kill(pids[1], signal.SIGCONT)
    return "message"


@two_gpus
def test_a_stopped_rank_is_named_at_the_timeout() -> None:
    outcomes = on_gpus(2, stop)
    assert [each.error for each in outcomes] == [None, None]
    assert [each.value for each in outcomes] == ["message", "went on"]


def fail(fault: str) -> Any:
    def refuse(*_: Any) -> Any:
        raise MemoryError("cudaErrorMemoryAllocation: out of memory")

    if dist.get_rank() == 1:
        communicator = engine().communicator
        if fault == "memory":
            communicator.allocate = refuse
        else:
            communicator.check, communicator.mark = refuse, never_done
    try:
        dist.all_gather([st.zeros(LARGE), st.zeros(LARGE)], st.zeros(LARGE))
    except (RuntimeError, MemoryError) as error:
        return type(error).__name__, str(error)
    return "not noticed"


@two_gpus
@pytest.mark.parametrize("fault", ["memory", "asynchronous"])
def test_a_failure_on_one_rank_is_an_error_on_all(fault: str) -> None:
    first, second = values(on_gpus(2, fail, fault))
    assert second == ("MemoryError", "cudaErrorMemoryAllocation: out of memory")
    assert first[0] == "PeerLostError"
    assert "rank 1" in first[1]
    assert "all_gather: MemoryError: cudaErrorMemoryAllocation" in first[1]


def leave() -> Any:
    if dist.get_rank() == 1:
        return "left"
    with pytest.raises(RuntimeError, match=r"rank 1 .*has left the group"):
        dist.all_reduce(st.zeros(3))
    return "message"


@two_gpus
def test_nobody_waits_for_a_departed_rank() -> None:
    assert values(on_gpus(2, leave)) == ["message", "left"]


def fork() -> Any:
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    group: Any = dist.GroupMember.WORLD

    def child() -> None:
        try:
            group.native.all_reduce(np.zeros(3), 0, 1.0)
        except RuntimeError as error:
            queue.put(str(error))

    process = context.Process(target=child)
    process.start()
    process.join()
    text = queue.get()
    queue.close()
    dist.barrier()
    return text


@two_gpus
def test_a_forked_child_is_not_a_member() -> None:
    messages = values(on_gpus(2, fork))
    assert messages == [
        f"all_reduce: this process was forked from rank {r}: no member" for r in (0, 1)
    ]


# ---------------------------------------------------------------- missing packages and GPUs
def cupy_with(devices: int = 8, version: int = 22703, has_nccl: bool = True) -> Any:
    """What the search for CuPy, NCCL and GPUs looks at."""
    nccl = SimpleNamespace(
        available=has_nccl, get_version=lambda: version, get_unique_id=lambda: (0,) * 128
    )
    runtime = SimpleNamespace(
        getDeviceCount=lambda: devices, deviceGetPCIBusId=lambda i: f"0000:0{i}:00.0"
    )
    cuda = SimpleNamespace(nccl=nccl, runtime=runtime, is_available=lambda: devices > 0)
    return SimpleNamespace(cuda=cuda)


@pytest.mark.parametrize(
    ("cupy", "message"),
    [
        (None, r'needs CuPy.*pip install "shmtensor\[cuda12\]"'),
        (cupy_with(has_nccl=False), "pip install nvidia-nccl-cu12"),
        (cupy_with(version=2804), "2.10 or newer: this is 2804"),
        (cupy_with(devices=0), "CuPy finds none"),
    ],
    ids=["CuPy", "NCCL", "version", "GPU"],
)
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, cupy: Any, message: str) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert not dist.is_nccl_available()
    with pytest.raises(RuntimeError, match=message):
        cuda.find_cupy()


def test_nccl_is_available_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy_with())
    assert dist.is_nccl_available()
    assert dist.is_backend_available("nccl")


def test_the_gpu_is_that_of_the_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert cuda.find_device(cupy_with(), 0) == (2, "0000:02:00.0")
    assert cuda.find_device(cupy_with(devices=1), 0) == (0, "0000:00:00.0")
    with pytest.raises(RuntimeError, match="none for local rank 2, CuPy finds 2"):
        cuda.find_device(cupy_with(devices=2), 0)


def test_what_a_rank_lacks_is_an_error_on_all() -> None:
    check_gpus("here", [{"gpu": "a"}, {"gpu": "b"}])
    with pytest.raises(RuntimeError, match="here: rank 1: RuntimeError: the backend nccl needs"):
        check_gpus("here", [{"gpu": "a"}, {"lacks": "RuntimeError: the backend nccl needs NCCL"}])
    with pytest.raises(RuntimeError, match=r"ranks \[0, 2\] of 3 have the same, a"):
        check_gpus("here", [{"gpu": "a"}, {"gpu": "b"}, {"gpu": "a"}])


def lack(rank: int) -> str:
    """The error of each rank where one has no CuPy."""
    sys.modules["cupy"] = None if dist.get_rank() == rank else cupy_with()  # type: ignore[assignment]
    with pytest.raises(RuntimeError) as caught:
        dist.new_group(backend="nccl")
    return str(caught.value)


def test_a_missing_library_on_one_rank_is_an_error_on_all() -> None:
    texts = values(run(lack, 2, 1))
    assert texts[0] == texts[1]
    assert "rank 1: RuntimeError: the backend nccl needs CuPy" in texts[0]
