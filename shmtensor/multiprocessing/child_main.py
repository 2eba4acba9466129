"""What a started process does first: join the domain, then import main, then run."""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import signal
import sys
from multiprocessing import process, spawn
from typing import IO, Any

from shmtensor import memory, native
from shmtensor.memory.join_domain import Preparation

from .reduction import loads

_F_SETSIG = 10  # of <fcntl.h>, which the fcntl module of Python does not have


def main(stream: IO[bytes]) -> None:
    """Entry of a spawned interpreter (popen.SpawnPopen); `stream` is behind sys.path. Exits."""
    sentinel = os.dup(stream.fileno())
    with stream:
        prepared = pickle.load(stream)
        domain = prepared[0]
        join(domain)
        for fd in domain["descriptors"]:
            os.close(fd)
        run_message(prepared, sentinel, exit=sys.exit)


def join(domain: Preparation) -> None:
    """Joins, unless something allocated at import and joined the parent's domain by itself."""
    if not (native.domain_ready() and native.domain_id() == domain["id"]):
        memory.adopt(domain)


def run_message(prepared: tuple[Any, ...], sentinel: int, exit: Any) -> None:
    """Prepares this process as the parent said, makes the process object and runs it.

    Up to there Ctrl-C ends it without a word: the parent has got it, too, and a traceback through
    imports would tell nobody anything.
    """
    _, preparation, handles, data = prepared
    current: Any = process.current_process()
    current._inheriting = True
    try:
        spawn.prepare(preparation)  # imports the main module; it is a member of the domain by now
        blocks = [native.receive(handle, True) for handle in handles]
        process_obj = loads(data, blocks)
        del blocks
    finally:
        del current._inheriting
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    exit(process_obj._bootstrap(sentinel))


def end_with_parent(number: int | None = None) -> None:
    """From now on this process gets a signal, SIGINT, when the one that started it is gone.

    By the pipe that `parent_process().sentinel` reads, which the kernel closes then: so it holds
    for each start method, and whichever thread of the parent started this process (the signal of
    prctl(PR_SET_PDEATHSIG) comes when that thread ends). Where SIGINT is ignored it is SIGTERM.
    """
    parent = process.parent_process()
    if parent is None:
        return
    if number is None:
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        number = signal.SIGTERM if ignored else signal.SIGINT
    fd = parent.sentinel
    fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(fd, _F_SETSIG, number)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    if poller.poll(0):  # it was gone before
        signal.raise_signal(number)
