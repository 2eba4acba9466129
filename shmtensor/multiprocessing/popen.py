"""Starting a child process by fork, spawn and forkserver.

All three differ from the standard library in this: the child is a member of the domain before it
runs user code, the parent records the exit code in the process table when it reaps the child, and
the resource tracker is not started.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import popen_fork, spawn
from multiprocessing import util as _util
from multiprocessing.context import set_spawning_popen
from operator import itemgetter
from typing import Any

from shmtensor import native
from shmtensor.memory import join_domain

from . import reduce_cuda
from .child_pipe import read_number, start_interpreter, sys_path, write
from .picklable import is_main_importable
from .reduction import dumps, explain

util: Any = _util  # untyped: private functions are used
__all__ = ["METHODS", "ForkserverPopen"]

# Runs in the new interpreter. sys.path is set first, so that shmtensor is imported from the same
# directory as in the parent.
_START = (
    "import signal; signal.getsignal(signal.SIGINT) is signal.default_int_handler and "
    "signal.signal(signal.SIGINT, signal.SIG_DFL); "  # see run_message
    "import os, pickle, sys; f = os.fdopen({fd}, 'rb'); sys.path[:] = pickle.load(f); "
    "from shmtensor.multiprocessing.child_main import main; main(f)"
)


class _Popen(popen_fork.Popen):
    """Records the exit code in the process table when the child is reaped. An interrupted call
    loses no exit code: Note [Bytes under interruption] in child_pipe.py.
    """

    returncode: int | None

    def __init__(self, process_obj: Any) -> None:
        self._reaped: list[tuple[int, int]] = []  # pid and status
        super().__init__(process_obj)

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None and (code := self._reap(flag)) is not None:
            self._record_exit(code)
            self.returncode = code
        return self.returncode

    def _reap(self, flag: int) -> int | None:
        """The exit code; None: the child runs, or somebody else has reaped it."""
        reaped = self._reaped
        if not reaped:
            with suppress(ChildProcessError):  # another thread may have reaped it
                statuses = map(os.waitpid, (self.pid,), (flag,))
                reaped.extend(filter(itemgetter(0), statuses))
        return os.waitstatus_to_exitcode(reaped[0][1]) if reaped else None

    def _record_exit(self, code: int) -> None:
        native.record_exit_pid(self.pid, code)


class ForkPopen(_Popen):
    """fork(): the child inherits everything, also tensors; nothing is pickled."""

    def _launch(self, process_obj: Any) -> None:
        if not is_main_importable():
            from .cloudpickle_closures import name_session_classes

            name_session_classes()
        launch: Any = vars(popen_fork.Popen)["_launch"]
        launch(self, process_obj)


class _InheritedFd:
    """A descriptor with the same number in the child."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def detach(self) -> int:
        return self.fd


class SpawnPopen(_Popen):
    """A new interpreter. The child joins the domain by inherited descriptors before it imports the
    main module."""

    method = "spawn"
    DupFd: Callable[[int], Any] = _InheritedFd

    def __init__(self, process_obj: Any) -> None:
        self._fds: list[int] = []
        self._handles: list[bytes] = []
        self._gpu = reduce_cuda.Handles()
        self._exit_code: list[bytes] = []  # what was read of it from the fork server
        try:
            super().__init__(process_obj)
        except MemoryError as error:  # the message is copied once more
            explain(error, process_obj)
            raise

    def duplicate_for_child(self, fd: int) -> int:
        self._fds.append(fd)
        return fd

    def _record_exit(self, code: int) -> None:
        super()._record_exit(code)
        self._release()

    def _release(self) -> None:
        """Acknowledges the handles: the child has its arguments, or never will. Idempotent."""
        handles, self._handles = self._handles, []
        for handle in handles:
            native.acknowledge(handle)
        self._gpu.discard()

    def _abandon(self) -> None:
        """Cleans up after a failed or interrupted start. A child that exists already must see the
        pipe close; else the fork server would wait for the child, and this process for the server.
        """
        self._release()
        if self.finalizer is not None:
            self.finalizer()

    def _message(self, process_obj: Any, domain: join_domain.Preparation) -> bytes:
        """The child's data after sys.path: preparation, handles of blocks, process object, and its
        pipe for a report."""
        preparation = spawn.get_preparation_data(process_obj._name)
        report = process_obj._report
        spawning: Any = self
        set_spawning_popen(spawning)
        try:
            process_obj._report = None
            data, blocks = dumps(process_obj, self._gpu)
            self._handles = [native.export(block) for block in blocks]
            number = None if report is None else self.duplicate_for_child(report)
            return pickle.dumps((domain, preparation, self._handles, data, number))
        finally:
            process_obj._report = report
            set_spawning_popen(None)

    def _launch(self, process_obj: Any) -> None:
        domain = join_domain.preparation()
        try:
            message = pickle.dumps(sys_path()) + self._message(process_obj, domain)
            child_r, parent_w = os.pipe()
            parent_r, child_w = os.pipe()
            try:
                fds = [*self._fds, child_r, child_w, *domain["descriptors"]]
                self.pid = start_interpreter(_START.format(fd=child_r), fds)
            finally:
                os.close(child_r)
                os.close(child_w)
                self.finalizer = util.Finalize(self, util.close_fds, (parent_r, parent_w))
            self.sentinel = parent_r
            write(parent_w, message)
        except BaseException:
            self._abandon()
            raise


class ForkserverPopen(SpawnPopen):
    """A fork of a small server process that has imported shmtensor: as clean as spawn and starts
    much faster."""

    method = "forkserver"

    class _SentFd:
        """A descriptor that is sent to the child through the server's socket."""

        def __init__(self, number: int) -> None:
            self.number = number

        def detach(self) -> int:
            from .forkserver import inherited

            return inherited[self.number]

    DupFd: Callable[[int], Any] = _SentFd

    def duplicate_for_child(self, fd: int) -> int:
        self._fds.append(fd)
        return len(self._fds) - 1

    def _launch(self, process_obj: Any) -> None:
        from .forkserver import server

        domain = join_domain.preparation()
        try:
            message = self._message(process_obj, domain)
            data_r, data_w = os.pipe()
            self.sentinel, status_w = os.pipe()
            # The write end stays open: the child sees the end of its parent by its closing. So an
            # interrupt after the request must find it here.
            self.finalizer = util.Finalize(self, util.close_fds, (data_w, self.sentinel))
            try:
                server.start_child(data_r, status_w, self._fds)
            finally:
                os.close(data_r)
                os.close(status_w)
            write(data_w, struct.pack("<Q", len(message)) + message)
            pid = read_number(self.sentinel, [])
            if pid is None:
                raise RuntimeError("Process.start: the fork server died before it forked the child")
            self.pid = pid
        except BaseException:
            self._abandon()
            raise

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        from multiprocessing.connection import wait

        if self.returncode is None and wait([self.sentinel], 0 if flag == os.WNOHANG else None):
            number = read_number(self.sentinel, self._exit_code)
            code = 255 if number is None else number  # 255: the server itself was killed
            self._record_exit(code)
            self.returncode = code
        return self.returncode


METHODS = {"fork": ForkPopen, "spawn": SpawnPopen, "forkserver": ForkserverPopen}
