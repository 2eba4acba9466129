"""Processes, queues, pools, shared containers."""

from __future__ import annotations

from typing import Any

from typing_extensions import reveal_type

import shmtensor as st
from shmtensor import SharedDict, SharedList
from shmtensor import multiprocessing as mp


def scale(queue: mp.Queue, done: Any) -> None:
    while (x := queue.get(timeout=5.0)) is not None:
        x *= 2
    done.set()


def worker(rank: int, world: int) -> None:
    print(rank, world)


def square(x: st.Tensor) -> st.Tensor:
    return x * x


if __name__ == "__main__":
    mp.set_start_method("spawn", force=True)
    context = mp.get_context("fork")
    queue, done = mp.Queue(), mp.Event()
    process = mp.Process(target=scale, args=(queue, done), daemon=True)
    process.start()
    queue.put(st.ones(3))
    queue.put(None)
    process.join()
    reveal_type(process.exitcode)  # -> int | None
    reveal_type(queue.empty())  # -> bool
    mp.spawn(worker, args=(2,), nprocs=2, join=True)
    with mp.Pool(2) as pool:
        results = pool.map(square, [st.ones(2), st.zeros(2)])
        print(len(results))
    with mp.Lock():
        pass
    receiver, sender = mp.Pipe(duplex=False)
    sender.send(st.ones(1))
    receiver.recv()
    bounded = st.Queue(maxsize=4)
    bounded.put(st.ones(3), timeout=1.0)
    reveal_type(bounded.statistics().fill)  # -> float
    items = SharedList([1, 2, 3])
    reveal_type(len(items))  # -> int
    mapping = SharedDict({"a": 1})
    reveal_type("a" in mapping)  # -> bool
    weights = st.ones(3).share_memory_()
    reveal_type(weights)  # -> Tensor
    reveal_type(weights.is_shared())  # -> bool
    print(st.memory.summary(), mp.cpu_count(), mp.current_process().name)
