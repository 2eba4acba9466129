"""The backend nccl when something is missing, fails, hangs or dies; with a stand-in for CuPy."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed.backends.nccl import cupy_nccl as cuda
from shmtensor.distributed.backends.nccl import member as nccl_member
from shmtensor.errors import CollectiveTimeout, PeerLostError

from ..battery import kill_one
from ..run_ranks import die, run, values
from . import fake_gpu as fakegpu
from . import fake_nccl as fakenccl
from .nccl_ranks import engine, on_gpus

LARGE = 40_000


# ---------------------------------------------------------------- deaths
@pytest.mark.parametrize(("seed", "ranks"), [(0, 2), (1, 3), (2, 3)])
def test_a_death_at_a_random_moment_is_named_by_all(tmp_path: Path, seed: int, ranks: int) -> None:
    kill_one(seed, ranks, lambda function, n, *args: on_gpus(str(tmp_path), n, function, *args))


def expect_loss(call: Any) -> tuple[str, int, bool]:
    """The error after a rank died in a collective that all had begun; whether NCCL is aborted."""
    with pytest.raises(PeerLostError) as caught:
        call()
    with pytest.raises(PeerLostError):  # and the group stays broken
        dist.all_reduce(st.zeros(3))
    return caught.value.name, caught.value.pid, engine().communicator.is_aborted


def die_at_work() -> Any:
    pids: list[Any] = [None] * 3
    dist.all_gather_object(pids, os.getpid())
    if dist.get_rank() == 1:
        fakenccl.NcclCommunicator.allReduce = lambda *_: die()  # type: ignore[method-assign]
    name, pid, is_over = expect_loss(lambda: dist.all_reduce(st.zeros(LARGE)))
    return name, pid == pids[1], is_over


def test_a_death_on_the_stream_aborts_and_is_named(tmp_path: Path) -> None:
    outcomes = on_gpus(str(tmp_path), 3, die_at_work)
    assert outcomes[1].exitcode == -signal.SIGKILL
    assert [outcomes[0].value, outcomes[2].value] == [("rank 1", True, True)] * 2


def die_a_little_later() -> Any:
    def refuse(*_: Any) -> None:
        if dist.get_rank() == 0:
            raise fakenccl.NcclError("NCCL_ERROR_REMOTE_ERROR: a connection has ended")
        time.sleep(0.1)
        die()

    fakenccl.NcclCommunicator.allReduce = refuse  # type: ignore[method-assign]
    return expect_loss(lambda: dist.all_reduce(st.zeros(LARGE)))


def test_a_death_that_nccl_sees_first_is_named(tmp_path: Path) -> None:
    outcomes = on_gpus(str(tmp_path), 2, die_a_little_later)
    assert outcomes[0].error is None, outcomes[0].error
    assert outcomes[0].value[0] == "rank 1"


def die_with_a_message() -> Any:
    rank = dist.get_rank()
    if rank == 1:
        fakenccl.NcclCommunicator.send = lambda *_: die()  # type: ignore[method-assign]
        dist.send(st.zeros(LARGE), 0)
    if rank == 0:
        return expect_loss(lambda: dist.recv(st.zeros(LARGE), 1))
    return "not concerned"


def test_a_death_with_a_message_is_named(tmp_path: Path) -> None:
    outcomes = on_gpus(str(tmp_path), 3, die_with_a_message)
    assert outcomes[0].error is None, outcomes[0].error
    name, _, is_over = outcomes[0].value
    assert (name, is_over) == ("rank 1", True)
    assert outcomes[2].value == "not concerned"


def die_at_the_beginning(folder: str) -> Any:
    rank = dist.get_rank()
    with fakenccl.installed(folder):
        if rank == 1:
            fakenccl.NcclCommunicator.__init__ = lambda *_: die()  # type: ignore[method-assign]
        with pytest.raises(PeerLostError) as caught:
            dist.new_group(backend="nccl")
        return caught.value.name


def test_a_death_while_nccl_brings_the_ranks_together(tmp_path: Path) -> None:
    outcomes = run(die_at_the_beginning, 2, str(tmp_path))
    assert (outcomes[0].error, outcomes[0].value) == (None, "rank 1")


def fail_at_the_beginning(folder: str) -> str:
    def refuse(*_: Any) -> None:
        raise fakenccl.NcclError("NCCL_ERROR_SYSTEM_ERROR: no memory to share")

    with fakenccl.installed(folder):
        if dist.get_rank() == 1:
            fakenccl.NcclCommunicator.__init__ = refuse  # type: ignore[method-assign]
        with pytest.raises(RuntimeError) as caught:
            dist.new_group(backend="nccl")
        return str(caught.value)


def test_a_failure_while_nccl_brings_the_ranks_together(tmp_path: Path) -> None:
    first, second = values(run(fail_at_the_beginning, 2, str(tmp_path)))
    assert second == "NCCL_ERROR_SYSTEM_ERROR: no memory to share"
    assert "rank 1 gave up: NcclError: NCCL_ERROR_SYSTEM_ERROR" in first


def shrink() -> Any:
    rank = dist.get_rank()
    if rank == 1:
        die()
    with pytest.raises(PeerLostError):
        dist.all_reduce(st.zeros(LARGE))
    dist.shrink_group([1])
    x = st.full((LARGE,), rank + 1.0)
    dist.all_reduce(x)
    return dist.get_backend(), float(x[-1].item()), engine().statistics()[2]


def test_the_remaining_ranks_continue_with_nccl(tmp_path: Path) -> None:
    outcomes = on_gpus(str(tmp_path), 3, shrink)
    assert [outcomes[r].value for r in (0, 2)] == [("nccl", 4.0, 4 * LARGE)] * 2


# ---------------------------------------------------------------- failures that leave all alive
def hang() -> Any:
    world: Any = dist.GroupMember.WORLD
    dist.barrier()
    if dist.get_rank() == 1:  # its kernel never ends
        fakenccl.Event.done = False  # type: ignore[method-assign, assignment]
    world.timeout = 0.3
    texts = []
    for _ in range(2):
        with pytest.raises((CollectiveTimeout, RuntimeError)) as caught:
            dist.all_reduce(st.zeros(LARGE))
        texts.append((type(caught.value), str(caught.value)))
    return texts, engine().communicator.is_aborted


def test_the_timeout_ends_it_on_all_ranks(tmp_path: Path) -> None:
    for texts, is_over in values(on_gpus(str(tmp_path), 2, hang)):
        assert is_over
        assert texts[0][0] is CollectiveTimeout, texts
        assert "all_reduce: NCCL has not finished in time: on ranks [0, 1] of 2" in texts[0][1]
        assert "broken" in texts[1][1]


def stop() -> Any:
    pids: list[Any] = [None, None]
    dist.all_gather_object(pids, os.getpid())
    world: Any = dist.GroupMember.WORLD
    if dist.get_rank() == 1:
        fakenccl.NcclCommunicator.allReduce = lambda *_: os.kill(os.getpid(), signal.SIGSTOP)  # type: ignore[method-assign]
        with pytest.raises(RuntimeError):
            dist.all_reduce(st.zeros(LARGE))
        return "went on"
    world.timeout = nccl_member.GRACE = 0.3
    try:
        with pytest.raises(PeerLostError, match=r"rank 1 \(pid \d+\) is stopped") as caught:
            dist.all_reduce(st.zeros(LARGE))
        assert caught.value.pid == pids[1]
    finally:
        os.kill(pids[1], signal.SIGCONT)
    return "message"


def test_a_stopped_rank_is_named_at_the_timeout(tmp_path: Path) -> None:
    outcomes = on_gpus(str(tmp_path), 2, stop)
    assert [each.error for each in outcomes] == [None, None]
    assert [each.value for each in outcomes] == ["message", "went on"]


def fail(fault: str) -> Any:
    def refuse(*_: Any) -> Any:
        raise MemoryError("cudaErrorMemoryAllocation: out of memory")

    if dist.get_rank() == 1:
        if fault == "memory":
            sys.modules["cupy"].cuda.alloc = refuse
        else:
            fakenccl.NcclCommunicator.check_async_error = refuse  # type: ignore[method-assign]
            fakenccl.Event.done = False  # type: ignore[method-assign, assignment]
    try:
        dist.all_reduce(st.zeros(LARGE))
    except (RuntimeError, MemoryError) as error:
        return type(error).__name__, str(error)
    return "not noticed"


@pytest.mark.parametrize("fault", ["memory", "asynchronous"])
def test_a_failure_on_one_rank_is_an_error_on_all(tmp_path: Path, fault: str) -> None:
    first, second = values(on_gpus(str(tmp_path), 2, fail, fault))
    assert second == ("MemoryError", "cudaErrorMemoryAllocation: out of memory")
    assert first[0] == "PeerLostError"
    assert "rank 1" in first[1]
    assert "all_reduce: MemoryError: cudaErrorMemoryAllocation" in first[1]


def leave() -> Any:
    if dist.get_rank() == 1:
        return "left"
    with pytest.raises(RuntimeError, match=r"rank 1 .*has left the group"):
        dist.all_reduce(st.zeros(3))
    dist.destroy_process_group()
    assert not fakenccl.violations
    return "message"


def test_nobody_waits_for_a_departed_rank(tmp_path: Path) -> None:
    assert values(on_gpus(str(tmp_path), 2, leave)) == ["message", "left"]


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


def test_a_forked_child_is_not_a_member(tmp_path: Path) -> None:
    messages = values(on_gpus(str(tmp_path), 2, fork))
    assert messages == [
        f"all_reduce: this process was forked from rank {r}: no member" for r in (0, 1)
    ]


# ---------------------------------------------------------------- missing packages and GPUs
def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert not dist.is_nccl_available()
    with pytest.raises(RuntimeError, match=r'needs CuPy.*pip install "shmtensor\[cuda12\]"'):
        cuda.find_cupy()
    for options, message in (
        ({"nccl": False}, "pip install nvidia-nccl-cu12"),
        ({"version": 2804}, "2.10 or newer: this is 2804"),
        ({"devices": 0}, "CuPy finds none"),
    ):
        with fakenccl.installed(str(tmp_path), **options):
            assert not dist.is_nccl_available()
            with pytest.raises(RuntimeError, match=message):
                cuda.find_cupy()
    with fakenccl.installed(str(tmp_path)):
        assert dist.is_nccl_available()
        assert dist.is_backend_available("nccl")


def begin(rank: int, folder: str, name: str, options: dict[str, Any], queue: Any) -> None:
    os.environ["LOCAL_RANK"] = str(rank)
    with fakenccl.installed(folder, **options.get(str(rank), options)):
        try:
            dist.init_process_group("nccl", init_method=name, rank=rank, world_size=2, timeout=20)
            x = st.full((3,), rank + 1.0)
            dist.all_reduce(x)
            text = f"{dist.get_backend()} {x.tolist()} GPU {engine().communicator.device.id}"
            dist.destroy_process_group()
        except RuntimeError as error:
            text = str(error)
        queue.put((rank, text))


def start_backends(folder: Path, name: str, **options: Any) -> list[str]:
    from shmtensor import multiprocessing as mp

    context: Any = mp.get_context("fork")
    queue = context.Queue()
    processes = [
        context.Process(target=begin, args=(r, str(folder), name, options, queue)) for r in range(2)
    ]
    for process in processes:
        process.start()
    texts = dict(queue.get(True, 60) for _ in processes)
    for process in processes:
        process.join()
    queue.close()
    return [texts[r] for r in range(2)]


def test_the_default_group_begins_by_name(tmp_path: Path) -> None:
    assert start_backends(tmp_path, "gpus") == [f"nccl [3.0, 3.0, 3.0] GPU {r}" for r in range(2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"1": {"nccl": False}, "0": {}}, "rank 1: RuntimeError: the backend nccl needs NCCL"),
        ({"same": True}, r"ranks [0, 1] of 2 have the same, 0000:07:00.0"),
        ({"devices": 1}, r"ranks [0, 1] of 2 have the same, 0000:00:00.0"),
        ({"1": {"devices": 0}, "0": {}}, "rank 1: RuntimeError: the backend nccl needs a GPU"),
    ],
)
def test_a_missing_library_on_one_rank_is_an_error_on_all(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    texts = start_backends(tmp_path, "lacking", **options)
    assert texts[0] == texts[1]
    assert message in texts[0]


def test_more_ranks_than_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    with fakenccl.installed(str(tmp_path), devices=2):
        with pytest.raises(RuntimeError, match="none for local rank 2, CuPy finds 2"):
            cuda.find_device(sys.modules["cupy"], 0)


# ---------------------------------------------------------------- the stand-in finds errors
def wrong_use(cupy: Any, nccl: Any, mistake: str) -> None:
    with cupy.cuda.Device(0):
        comm = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            memory = cupy.cuda.alloc(64)
        event = cupy.cuda.Event(disable_timing=True)
        if mistake == "no NCCL dtype":
            comm.allReduce(memory.ptr, memory.ptr, 16, 10, 0, stream.ptr)
        elif mistake == "too much":
            comm.allReduce(memory.ptr, memory.ptr, 17, 7, 0, stream.ptr)
        elif mistake == "given up too early":
            comm.allReduce(memory.ptr, memory.ptr, 16, 7, 0, stream.ptr)
            del memory
            event.record(stream)
            assert event.done
        elif mistake == "not pinned":
            host = np.zeros(16, np.float32)
            cupy.cuda.runtime.memcpyAsync(memory.ptr, host.ctypes.data, 64, 1, stream.ptr)
        elif mistake == "after abort":
            comm.abort()
            comm.broadcast(memory.ptr, memory.ptr, 64, 1, 0, stream.ptr)
        elif mistake == "unpaired":
            nccl.groupEnd()
        elif mistake == "in a group":
            nccl.groupStart()
            event.record(stream)
        elif mistake == "two at once":
            other = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
            other.allReduce(memory.ptr, memory.ptr, 16, 7, 0, stream.ptr)
            comm.allReduce(memory.ptr, memory.ptr, 16, 7, 0, stream.ptr)
    if mistake == "no device":
        comm.allReduce(memory.ptr, memory.ptr, 16, 7, 0, stream.ptr)


@pytest.mark.parametrize(
    "mistake",
    [
        "no NCCL dtype",
        "too much",
        "given up too early",
        "not pinned",
        "after abort",
        "unpaired",
        "in a group",
        "two at once",
        "no device",
    ],
)
def test_the_stand_in_notices_wrong_use(tmp_path: Path, mistake: str) -> None:
    with fakenccl.installed(str(tmp_path)):
        cupy: Any = sys.modules["cupy"]
        with pytest.raises(fakegpu.Violation):
            wrong_use(cupy, cupy.cuda.nccl, mistake)
    fakenccl.violations.clear()
    fakegpu.local.__dict__.clear()
