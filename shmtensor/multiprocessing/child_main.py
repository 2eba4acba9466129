"""Entry of a child process: join the domain, import the main module, run."""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import signal
import sys
from contextlib import suppress
from multiprocessing import process, spawn
from typing import IO, Any, NoReturn

from shmtensor import memory, native
from shmtensor.memory.join_domain import Preparation

from .reduction import loads

_F_SETSIG = 10  # of <fcntl.h>; Python's fcntl module lacks it


def main(stream: IO[bytes]) -> None:
    """Entry of a spawned interpreter (popen.SpawnPopen). sys.path has been read from `stream`.
    Exits."""
    close_inherited_on_exec()
    sentinel = os.dup(stream.fileno())
    with stream:
        message = pickle.load(stream)
        domain = message[0]
        join(domain)
        for fd in domain["descriptors"]:
            os.close(fd)
        run_message(message, sentinel, exit=sys.exit)


def close_inherited_on_exec() -> None:
    """From now on no program that this process starts gets a descriptor that this process has
    inherited: pipes of its parent, connections in its arguments, the domain."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of this listing
            if int(name) > 2:
                os.set_inheritable(int(name), False)


def join(domain: Preparation) -> None:
    """Joins, unless an import has allocated and thereby joined the parent's domain already."""
    if not (native.domain_ready() and native.domain_id() == domain["id"]):
        memory.adopt(domain)


def run_message(message: tuple[Any, ...], sentinel: int, exit: Any) -> None:
    """Prepares this process by the parent's data, unpickles the process object and runs it.

    Until it runs, Ctrl-C ends the process silently: the parent gets the signal, too, and a
    traceback through imports is useless.
    """
    _, preparation, handles, data, report = message
    current: Any = process.current_process()
    current._inheriting = True
    try:
        spawn.prepare(preparation)  # imports the main module; this process is a member by now
        blocks = [native.receive(handle, True) for handle in handles]
        process_obj = loads(data, blocks)
        del blocks
        process_obj._report = report
    except BaseException as error:
        end_before_run(error, preparation, report)
    finally:
        del current._inheriting
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    exit(process_obj._bootstrap(sentinel))


def end_before_run(
    error: BaseException, preparation: dict[str, Any], report: int | None
) -> NoReturn:
    """Ends this child, which cannot even run: its supervisor shows why, or else this process."""
    from . import child_report

    main = preparation.get("init_main_from_path") or preparation.get("init_main_from_name", "")
    record = child_report.report_of_import(error, main)
    child_report.listen(report)
    if not child_report.fail(error, record):
        if not record.is_unguarded:
            raise error
        print(f"{process.current_process().name}: {record.message}", file=sys.stderr, flush=True)
    raise SystemExit(1) from None


def end_with_parent(number: int | None = None) -> None:
    """From now on this process gets the signal `number` when its parent ends; None: SIGINT, or
    SIGTERM if SIGINT is ignored.

    The kernel then closes the pipe of `parent_process().sentinel`, whose reader asks for a signal.
    This works for each start method and for any thread of the parent; prctl(PR_SET_PDEATHSIG)
    signals the end of the thread that started this process.
    """
    parent = process.parent_process()
    if parent is None:
        return
    if number is None:
        is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        number = signal.SIGTERM if is_ignored else signal.SIGINT
    fd = parent.sentinel
    fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(fd, _F_SETSIG, number)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    if poller.poll(0):  # it had ended before
        signal.raise_signal(number)
