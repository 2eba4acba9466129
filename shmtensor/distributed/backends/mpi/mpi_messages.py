"""Messages by MPI, by way of mpi4py; how MPI begins and ends.

All MPI calls return at once (Isend, Irecv, Testall, Iprobe), and a process makes one at a time. So
any level of thread support suffices.

MPI does not notice that a rank has died: `mpirun` does, and ends the job. It also ends the job when
a process exits with another code than 0, or without MPI_Finalize. MPI_Finalize waits for all ranks,
so a rank that fails must exit without it: `native.call_at_success` calls it only at exit code 0.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

from .... import native
from ....errors import CollectiveTimeout
from ...group.operands import Array
from ..transport import Transport

PAUSE = 1e-3  # seconds between two polls


class MpiTransport(Transport):
    """Messages by MPI; the methods are those of Transport.

    Args:
        module: mpi4py's MPI.
        comm: a communicator that nobody else uses.
    """

    def __init__(self, module: Any, comm: Any) -> None:
        super().__init__(comm.rank, comm.size, comm.Get_attr(module.TAG_UB), module.Exception)
        self.module, self.comm = module, comm

    def send(self, x: Array, to: int, tag: int, until_received: bool = False) -> Any:
        return (self.comm.Issend if until_received else self.comm.Isend)(x, to, tag)

    def receive(self, x: Array, source: int, tag: int) -> Any:
        return self.comm.Irecv(x, source, tag)

    def are_done(self, requests: Sequence[Any]) -> bool:
        return bool(self.module.Request.Testall(requests))

    def find(self, tag: int) -> int | None:
        status = self.module.Status()
        if not self.comm.Iprobe(self.module.ANY_SOURCE, tag, status):
            return None
        return int(status.Get_source())


transport: MpiTransport | None = None  # a process has one


def init_mpi(timeout: float) -> MpiTransport:
    """Messages by a duplicate of MPI's COMM_WORLD, separate from the user's; waits for all ranks.

    Raises:
        RuntimeError: mpi4py is not installed.
        CollectiveTimeout: not all came in time.
    """
    global transport
    if transport is not None:
        return transport
    try:
        import mpi4py
    except ImportError:
        raise RuntimeError(
            "init_process_group: the backend mpi needs mpi4py, which is not installed: "
            "pip install 'shmtensor[mpi]'"
        ) from None
    mpi4py.rc.finalize = False  # it would wait for ranks that do not come
    from mpi4py import MPI

    comm, request = MPI.COMM_WORLD.Idup()
    end = time.monotonic() + timeout
    while not request.Test():
        if timeout >= 0 and time.monotonic() > end:
            raise CollectiveTimeout(
                f"init_process_group: timed out after {timeout:g} s: not all {comm.size} ranks "
                "have come"
            )
        time.sleep(PAUSE)
    # MPI's library is loaded with mpi4py's extension, and found by way of it.
    address = ctypes.cast(ctypes.CDLL(MPI.__file__).MPI_Finalize, ctypes.c_void_p).value
    native.call_at_success(address or 0)
    transport = MpiTransport(MPI, comm)
    return transport
