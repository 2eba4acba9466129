"""Two ranks per library (or as many as a case wants): they do rounds on demand and time them.

They are spawned at the first need and end with the program: starting PyTorch's takes seconds.
"""

from __future__ import annotations

import atexit
import importlib
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

__all__ = ["N_RANKS", "rounds"]

N_RANKS = 2
ROUNDS = 3
PATIENCE = 60.0
BACKENDS = {"shmtensor": "shm", "torch": "gloo"}


def rank_main(library: str, address: str, rank: int, n: int, pipe: Any) -> None:
    """A rank: ("module:function", arguments) makes a round, a number does so many of them. A round
    that returns a float has measured itself.
    """
    st = importlib.import_module(library)
    distributed = importlib.import_module(library + ".distributed")
    st.set_num_threads(1)  # as many threads as cores, over all ranks
    distributed.init_process_group(BACKENDS[library], init_method=address, rank=rank, world_size=n)
    run: Callable[[], Any] = distributed.barrier
    while (order := pipe.recv()) is not None:
        if isinstance(order, int):
            distributed.barrier()
            began = time.perf_counter()
            own = [run() for _ in range(order)]
            elapsed = time.perf_counter() - began
            pipe.send((sum(own) if isinstance(own[0], float) else elapsed) / order)
        else:
            where, arguments = order
            module, _, function = where.partition(":")
            run = getattr(importlib.import_module(module), function)(st, distributed, *arguments)
            pipe.send(0.0)
    distributed.destroy_process_group()


class Ranks:
    """The running ranks of one library."""

    def __init__(self, library: str, n: int) -> None:
        multiprocessing = importlib.import_module(library + ".multiprocessing")
        context = multiprocessing.get_context("spawn")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{s.getsockname()[1]}"
        self.pipes, self.processes = [], []
        for rank in range(n):
            own, other = context.Pipe()
            args = (library, address, rank, n, other)
            process = context.Process(target=rank_main, args=args, daemon=True)
            process.start()
            other.close()
            self.pipes.append(own)
            self.processes.append(process)

    def order(self, what: Any) -> float:
        """Tells all ranks, and returns the slowest one's answer."""
        for pipe in self.pipes:
            pipe.send(what)
        answers = []
        for rank, pipe in enumerate(self.pipes):
            if not wait([pipe], PATIENCE):
                raise TimeoutError(f"ranks: rank {rank} did not answer for {PATIENCE} s: {what!r}")
            answers.append(pipe.recv())
        return float(max(answers))

    def close(self) -> None:
        """Ends them, by force if need be."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            try:
                pipe.send(None)
            except OSError:  # it has died; the case said so
                continue
            finally:
                process.join(5)
                if process.is_alive():
                    process.kill()
                    process.join()
                pipe.close()


running: dict[tuple[str, int], Ranks] = {}


def stop() -> None:
    """Ends all ranks."""
    while running:
        running.popitem()[1].close()


atexit.register(stop)


def rounds(library: Any, where: str, *arguments: Any, ranks: int = N_RANKS) -> Iterator[Any]:
    """The call of a case: some rounds of `where`, timed by the ranks themselves."""
    crew = library.__name__, ranks
    if crew not in running:
        running[crew] = Ranks(*crew)
    found = running[crew]
    try:
        found.order((where, arguments))
        found.order(ROUNDS)
        yield lambda: found.order(ROUNDS)
    except BaseException:
        running.pop(crew).close()
        raise
