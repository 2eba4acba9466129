"""NCCL on the stand-in under CuPy's own module: work of streams, several processes, deaths, misuse.

The values of all calls are those of tests/distributed/backends/test_nccl.py.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.cuda.standin.build import ROOT, SOURCE
from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.program import start

SUM = 0


class Ranks:
    """Two communicators of this process, of a device each, and arrays on their devices."""

    def __init__(self, cp: Any) -> None:
        from cupy.cuda import nccl

        self.cp, self.nccl = cp, nccl
        self.comms = nccl.NcclCommunicator.initAll(2)
        self.streams = []
        for rank in range(2):
            with cp.cuda.Device(rank):
                self.streams.append(cp.cuda.Stream(non_blocking=True))

    def put(self, arrays: list[Any]) -> list[Any]:
        results = []
        for rank, a in enumerate(arrays):
            with self.cp.cuda.Device(rank):
                results.append(self.cp.asarray(a))
                self.cp.cuda.Device().synchronize()
        return results

    def each(self, call: Any) -> None:
        """call(rank, communicator, stream) for both in one group."""
        self.nccl.groupStart()
        for rank, comm in enumerate(self.comms):
            with self.cp.cuda.Device(rank):
                call(rank, comm, self.streams[rank].ptr)
        self.nccl.groupEnd()

    def get(self, arrays: list[Any]) -> list[Any]:
        results = []
        for rank, x in enumerate(arrays):
            with self.cp.cuda.Device(rank):
                self.streams[rank].synchronize()
                results.append(x.get())
        return results

    def close(self) -> None:
        for comm in self.comms:
            comm.destroy()


@pytest.fixture
def ranks(cp: Any) -> Any:
    both = Ranks(cp)
    yield both
    both.close()


@pytest.mark.usefixtures("no_background")
def test_calls_are_work_of_the_stream_that_waits_for_all(ranks: Any) -> None:
    xs = ranks.put([np.ones(4, np.float32)] * 2)
    with ranks.cp.cuda.Device(0):
        p = xs[0].data.ptr
        ranks.comms[0].allReduce(p, p, 4, 7, SUM, ranks.streams[0].ptr)
        assert not ranks.streams[0].done
        assert (xs[0].get() == 1).all()  # another stream, and nothing orders them
    with ranks.cp.cuda.Device(1):
        p = xs[1].data.ptr
        ranks.comms[1].allReduce(p, p, 4, 7, SUM, ranks.streams[1].ptr)
    assert all((x == 2).all() for x in ranks.get(xs))


def test_a_send_is_done_when_it_is_received(ranks: Any) -> None:
    xs = ranks.put([np.ones(4, np.float32), np.zeros(4, np.float32)])
    with ranks.cp.cuda.Device(0):
        ranks.comms[0].send(xs[0].data.ptr, 4, 7, 1, ranks.streams[0].ptr)
    for _ in range(3):
        with ranks.cp.cuda.Device(1):
            ranks.cp.ones(3).sum().get()
    assert not ranks.streams[0].done
    with ranks.cp.cuda.Device(1):
        ranks.comms[1].recv(xs[1].data.ptr, 4, 7, 0, ranks.streams[1].ptr)
    assert all((x == 1).all() for x in ranks.get(xs))


def test_the_communicator_says_who_it_is(ranks: Any) -> None:
    assert [comm.rank_id() for comm in ranks.comms] == [0, 1]
    assert [comm.device_id() for comm in ranks.comms] == [0, 1]
    assert [comm.size() for comm in ranks.comms] == [2, 2]
    assert ranks.nccl.get_version() >= 22000
    for comm in ranks.comms:
        comm.check_async_error()


def test_calls_that_differ_are_an_error(ranks: Any, misuses: Misuses) -> None:
    xs = ranks.put([np.ones(4, np.float32)] * 2)
    ranks.each(lambda r, comm, s: comm.allReduce(xs[r].data.ptr, xs[r].data.ptr, 4 - r, 7, SUM, s))
    ranks.get(xs)
    for comm in ranks.comms:
        with pytest.raises(ranks.nccl.NcclError, match="INVALID_USAGE"):
            comm.check_async_error()
    misuses.expected = 2


def test_what_a_call_refuses(ranks: Any, misuses: Misuses) -> None:
    NcclError = ranks.nccl.NcclError
    xs, comm = ranks.put([np.ones(4, np.float32)] * 2), ranks.comms[0]
    p, s = xs[0].data.ptr, ranks.streams[0].ptr
    with pytest.raises(NcclError, match="INVALID_ARGUMENT"):
        comm.allReduce(p, p, 1 << 20, 7, SUM, s)  # beyond the allocation
    with pytest.raises(NcclError, match="INVALID_ARGUMENT"):
        comm.allReduce(p, p, 4, 7, SUM, ranks.streams[1].ptr)  # another device's stream
    with pytest.raises(NcclError, match="INVALID_ARGUMENT"):
        comm.allReduce(np.ones(4, np.float32).ctypes.data, p, 4, 7, SUM, s)
    with pytest.raises(NcclError, match="INVALID_ARGUMENT"):
        comm.send(p, 4, 7, 2, s)
    with pytest.raises(NcclError, match="INVALID_USAGE"):
        ranks.nccl.groupEnd()
    with pytest.raises(NcclError, match="INVALID_USAGE"):
        ranks.nccl.NcclCommunicator.initAll([0, 0])
    misuses.expected = 6


def test_abort_ends_a_wait_that_has_no_end(ranks: Any) -> None:
    xs = ranks.put([np.ones(4, np.float32)] * 2)
    p, stream = xs[0].data.ptr, ranks.streams[0]
    ranks.comms[0].allReduce(p, p, 4, 7, SUM, stream.ptr)
    assert not stream.done
    ranks.comms[0].abort()
    stream.synchronize()
    ranks.comms[1].abort()


RANK = """
from cupy.cuda import nccl
rank, world = int(sys.argv[1]), int(sys.argv[2])
rt.setDevice(rank)
comm = nccl.NcclCommunicator(world, pickle.load(sys.stdin.buffer), rank)
stream = cupy.cuda.Stream(non_blocking=True)
def said(x): print(x, flush=True)
x = cupy.full(1000, rank + 1, np.float32)
p = x.data.ptr
rt.deviceSynchronize()
"""
WORK = """
for n in range(20):
    comm.allReduce(p, p, 1000, 7, 2 if n % 2 else 0, stream.ptr)
stream.synchronize()
said(float(x[7]))
nccl.groupStart()
comm.send(p, 1000, 7, (rank + 1) % world, stream.ptr)
y = cupy.full(1000, -1, np.float32)
rt.deviceSynchronize()
comm.recv(y.data.ptr, 1000, 7, (rank - 1) % world, stream.ptr)
nccl.groupEnd()
stream.synchronize()
said(float(y[9]))
comm.destroy()
"""
VICTIM = """
said("ready")
sys.stdin.buffer.read()
"""
WAITER = """
comm.allReduce(p, p, 1000, 7, 0, stream.ptr)
import time
time.sleep(0.2)
assert not stream.done
said("waits")
assert sys.stdin.buffer.readline() == b"abort\\n"
assert not stream.done
comm.abort()
stream.synchronize()
said("over")
"""


def start_ranks(programs: list[str]) -> list[Any]:
    """Starts a process per rank; rank 0 makes the unique id."""
    processes = []
    for rank, program in enumerate(programs):
        code = f"import sys\nsys.argv[1:] = ['{rank}', '{len(programs)}']\n" + RANK + program
        if rank == 0:
            given = "comm = nccl.NcclCommunicator(world, pickle.load(sys.stdin.buffer), rank)"
            made = (
                "unique = nccl.get_unique_id()\nsys.stdout.buffer.write(pickle.dumps(unique))\n"
                "sys.stdout.flush()\ncomm = nccl.NcclCommunicator(world, unique, rank)"
            )
            code = code.replace(given, made)
        processes.append(start(code, STANDIN_DEVICES=max(2, len(programs))))
    return processes


def connect(processes: list[Any]) -> None:
    import pickle

    unique = pickle.load(processes[0].stdout)
    assert isinstance(unique, bytes)
    for process in processes[1:]:
        process.stdin.write(pickle.dumps(unique))
        process.stdin.flush()


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_of_several_processes(misuses: Misuses, world: int) -> None:
    processes = start_ranks([WORK] * world)
    try:
        connect(processes)
        results = [process.communicate(timeout=100) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    value = float(sum(range(1, world + 1)))
    for _ in range(9):
        value *= world
    for process, (out, err) in zip(processes, results):
        assert (process.returncode, err) == (0, b""), err.decode()
        assert [float(line) for line in out.split()] == [value, value]


def test_a_dead_rank_leaves_the_others_waiting_until_they_abort(misuses: Misuses) -> None:
    processes = start_ranks([WAITER, VICTIM])
    waiter, victim = processes
    try:
        connect(processes)
        assert victim.stdout.readline() == b"ready\n"
        assert waiter.stdout.readline() == b"waits\n"
        victim.kill()
        victim.communicate()
        waiter.stdin.write(b"abort\n")
        waiter.stdin.flush()
        out, err = waiter.communicate(timeout=100)
        assert (waiter.returncode, out, err) == (0, b"over\n", b""), err.decode()
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_program_ends_though_its_peer_never_came(misuses: Misuses) -> None:
    processes = start_ranks(["comm.allReduce(p, p, 9, 7, 0, stream.ptr)\n", VICTIM])
    try:
        connect(processes)
        assert processes[0].wait(timeout=100) == 0
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_the_functions_take_cupys_arguments(misuses: Misuses) -> None:
    """Names and order of the parameters, as CuPy declares them."""
    text = (SOURCE / "cupy_backends" / "cuda" / "libs" / "nccl.pyx").read_text()
    source = (ROOT / "tests" / "cuda" / "standin" / "device" / "nccl.cc").read_text()

    def names(pattern: str, text: str) -> dict[str, list[str]]:
        return {
            name.lstrip("_"): [re.findall(r"\w+", part)[-1] for part in inside.split(",") if part]
            for name, inside in re.findall(pattern, text)
        }

    declared = names(r"\b(_?nccl[A-Z]\w+)\(([^)]*)\) nogil", text)
    ours = names(r"STANDIN_API [\w* ]+?(nccl[A-Z]\w+)\(([^)]*)\) \{", source)
    assert len(declared) > 15
    for name, parameters in declared.items():
        if name == "ncclConfigInitializer":  # a macro
            continue
        if name in ("ncclCommInitRankConfig", "ncclCommSplit"):
            assert len(ours[name]) == len(parameters)
        else:
            assert ours[name] == parameters, name
