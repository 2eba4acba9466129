"""Two ranks per library (or another number): they run rounds on demand and time them.

They are spawned at first use and end with the program: starting PyTorch's takes seconds.
"""

from __future__ import annotations

import atexit
import importlib
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

N_RANKS = 2
ROUNDS = 3
PATIENCE = 60.0
BACKENDS = {"shmtensor": "shm", "torch": "gloo"}


def rank_main(library: str, address: str, rank: int, n: int, pipe: Any) -> None:
    """A rank: the order ("module:function", arguments) makes a round, a number runs that many
    rounds. A round that returns a float has measured itself.
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
            seconds = [run() for _ in range(order)]
            elapsed = time.perf_counter() - began
            pipe.send((sum(seconds) if isinstance(seconds[0], float) else elapsed) / order)
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
            parent_end, child_end = context.Pipe()
            args = (library, address, rank, n, child_end)
            process = context.Process(target=rank_main, args=args, daemon=True)
            process.start()
            child_end.close()
            self.pipes.append(parent_end)
            self.processes.append(process)

    def order(self, what: Any) -> float:
        """Sends an order to all ranks, and returns the slowest one's answer."""
        for pipe in self.pipes:
            pipe.send(what)
        answers = []
        for rank, pipe in enumerate(self.pipes):
            if not wait([pipe], PATIENCE):
                raise TimeoutError(f"ranks: rank {rank} did not answer for {PATIENCE} s: {what!r}")
            answers.append(pipe.recv())
        return float(max(answers))

    def close(self) -> None:
        """Ends the ranks; kills those that do not end."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            try:
                pipe.send(None)
            except OSError:  # the rank has died, and the case has failed
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
    """The call of a case: rounds of `where`, timed by the ranks."""
    key = library.__name__, ranks
    if key not in running:
        running[key] = Ranks(*key)
    ranks_of_library = running[key]
    try:
        ranks_of_library.order((where, arguments))
        ranks_of_library.order(ROUNDS)
        yield lambda: ranks_of_library.order(ROUNDS)
    except BaseException:
        running.pop(key).close()
        raise
