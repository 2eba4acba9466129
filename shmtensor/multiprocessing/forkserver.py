"""The fork server: a small process with one thread that forks the children of this one, on request.

    parent ── request socket: descriptors (data pipe, status pipe, inherited ones) ──> server
    server ── fork ──> child
    parent ── data pipe: preparation and process object ──> child
    parent <─ status pipe: {"number": pid}, then {"number": exit code} ── server

Request and status are control messages (memory/control_message.py).

It replaces the standard library's, which starts the resource tracker and cannot join a domain
before it imports the modules to preload. It ends with its parent: when the request socket closes.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import socket
import struct
import sys
import threading
from multiprocessing import process, spawn
from multiprocessing import util as _util
from typing import Any

from shmtensor import native
from shmtensor.memory import control_message, join_domain

from .child_pipe import start_interpreter, sys_path, write

util: Any = _util  # untyped: private functions are used
__all__ = ["ForkServer", "server"]

_CHUNK = 1 << 20  # bytes of one read
_MAX_FDS = 200  # per request; the kernel's own limit is 253
REQUEST_TIMEOUT = 60.0  # seconds; a server that is stopped reads nothing

inherited: list[int] = []
"""In a child: the descriptors of `Popen.duplicate_for_child`, in the order of its calls."""

_START = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "import os, pickle, sys; f = os.fdopen({fd}, 'rb'); sys.path[:] = pickle.load(f); "
    "from shmtensor.multiprocessing.forkserver import serve; serve(f)"
)


class ForkServer:
    """This process's server, started by the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid: int | None = None
        self._owner = 0
        self._preload: list[str] = ["__main__"]

    def set_preload(self, modules: list[str]) -> None:
        """Modules that the server imports before it forks; takes effect when it starts."""
        if not all(isinstance(name, str) for name in modules):
            raise TypeError("set_forkserver_preload: module_names must be a list of strings")
        self._preload = list(modules)

    def start_child(self, data_r: int, status_w: int, fds: list[int]) -> None:
        """Requests a child.

        Args:
            data_r: the end of a pipe by which the child gets its data.
            status_w: the end of a pipe to which its pid and its exit code are written.
        """
        if len(fds) > _MAX_FDS:
            raise ValueError(
                f"Process.start: too many descriptors for a child: {len(fds)}, {_MAX_FDS} at most"
            )
        with self._lock:
            send_request(self._connect(), [data_r, status_w, *fds])

    def _connect(self) -> socket.socket:
        if self._pid is not None and os.waitpid(self._pid, os.WNOHANG)[0]:
            self._clear()  # it was killed
        if self._socket is None:
            self._start()
        assert self._socket is not None
        return self._socket

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._spawn(theirs)
        except BaseException:  # it ends when our end of its socket is closed
            ours.close()
            if self._pid is not None:
                os.waitpid(self._pid, 0)
                self._pid = None
            raise
        self._socket = ours
        util.Finalize(self, self.stop, exitpriority=-100)

    def _spawn(self, theirs: socket.socket) -> None:
        domain = join_domain.preparation()
        read_fd, write_fd = os.pipe()
        try:
            fds = [read_fd, theirs.fileno(), *domain["descriptors"]]
            self._pid = start_interpreter(_START.format(fd=read_fd), fds)
            self._owner = os.getpid()
            preparation = spawn.get_preparation_data("ForkServer")
            # An AuthenticationString refuses to be pickled here.
            preparation["authkey"] = bytes(preparation["authkey"])
            write(
                write_fd,
                pickle.dumps(sys_path())
                + pickle.dumps((domain, theirs.fileno(), preparation, self._preload)),
            )
        finally:
            theirs.close()
            os.close(read_fd)
            os.close(write_fd)

    def _clear(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self._pid = None

    def _after_fork(self) -> None:
        """In a forked child: the server belongs to the parent, and another thread may have held the
        lock."""
        self._lock = threading.Lock()
        self._clear()

    def stop(self) -> None:
        """Ends the server; its children continue. For tests, and at the interpreter's exit."""
        if self._owner != os.getpid():
            return
        with self._lock:
            pid = self._pid
            self._clear()
            if pid is not None:
                os.waitpid(pid, 0)


server = ForkServer()
os.register_at_fork(after_in_child=server._after_fork)


def send_request(connection: socket.socket, fds: list[int]) -> None:
    """Asks for a child with these descriptors. Waits while too many are under way."""
    control_message.send(connection, {"descriptors": len(fds)}, fds, REQUEST_TIMEOUT)


def receive_request(connection: socket.socket) -> list[int] | None:
    """The descriptors of a request, two at least; None when the parent has ended."""
    try:
        # Nobody else has the other end: the parent made both.
        message, fds = control_message.receive(connection, None, max_descriptors=_MAX_FDS + 2)
    except (OSError, control_message.InvalidMessage):
        return None
    if len(fds) < 2 or message.get("descriptors") != len(fds):
        control_message.close_all(fds)
        return None
    return fds


# ---- in the server


def serve(stream: Any) -> None:
    """Entry of the server process. Ends when the parent's socket is closed and all children are
    reaped."""
    from . import child_report  # noqa: F401  for the children, so that none imports it
    from .child_main import close_inherited_on_exec, join

    close_inherited_on_exec()
    with stream:
        domain, request_fd, preparation, preload = pickle.load(stream)
    join(domain)
    for fd in domain["descriptors"]:
        os.close(fd)
    native.set_role("fork server")
    _import(preparation, preload)
    requests = socket.socket(fileno=request_fd)
    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_r, False)
    os.set_blocking(wake_w, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    children: dict[int, int] = {}  # pid -> status pipe
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(wake_r, selectors.EVENT_READ)
        listening = True
        while listening or children:
            for key, _ in selector.select():
                if key.fd == wake_r:
                    os.read(wake_r, 4096)
                    _reap(children)
                elif (fds := receive_request(requests)) is None:
                    selector.unregister(requests)
                    listening = False
                else:
                    _fork(fds, children, [requests.fileno(), wake_r, wake_w, selector.fileno()])
    os._exit(0)


def _import(preparation: dict[str, Any], preload: list[str]) -> None:
    """Imports modules for the children. Ignores failures: they recur in the child, which reports
    them."""
    preparation = dict(preparation)
    main = {
        key: preparation.pop(key)
        for key in ("init_main_from_name", "init_main_from_path")
        if key in preparation
    }
    spawn.prepare(preparation)
    current: Any = process.current_process()
    current._inheriting = True  # so that a main module without a guard starts no process here
    for name in preload:
        try:
            if name == "__main__":
                if "init_main_from_path" in main:
                    spawn.import_main_path(main["init_main_from_path"])
            else:
                __import__(name)
        except Exception as error:
            util.debug(f"fork server: cannot preload {name}: {error!r}")
    del current._inheriting


def _reap(children: dict[int, int]) -> None:
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        native.record_exit_pid(pid, code)
        fd = children.pop(pid, None)
        if fd is not None:
            _send_number(fd, code)
            os.close(fd)


def _send_number(fd: int, number: int) -> None:
    try:
        os.write(fd, control_message.encode({"number": number}))
    except BrokenPipeError:
        return  # the parent has ended


def _fork(fds: list[int], children: dict[int, int], server_fds: list[int]) -> None:
    data_r, status_w, *child_fds = fds
    pid = os.fork()
    if pid:
        os.close(data_r)
        for fd in child_fds:
            os.close(fd)
        children[pid] = status_w
        _send_number(status_w, pid)
        return
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # see run_message
        for fd in (*server_fds, *children.values(), status_w):
            os.close(fd)
        inherited[:] = child_fds
        code = _run(data_r)
    except BaseException as error:
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            code = error.code
        else:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(code)


def _run(data_r: int) -> int:
    from .child_main import run_message

    length, head = 0, _read(data_r, 8)
    if len(head) == 8:
        length = struct.unpack("<Q", head)[0]
    data = _read(data_r, length)
    if (
        not data or len(data) < length
    ):  # the parent has died, or its `start` was interrupted: nothing to run
        return 1
    *message, report = pickle.loads(data)
    result: list[int] = []
    report = None if report is None else inherited[report]
    run_message((*message, report), data_r, exit=result.append)
    return result[0]


def _read(fd: int, n: int) -> bytes:
    """n bytes, or less at the end of the file."""
    data = bytearray()
    while len(data) < n and (chunk := os.read(fd, min(n - len(data), _CHUNK))):
        data += chunk
    return bytes(data)
