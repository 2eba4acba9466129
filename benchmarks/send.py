"""Sending to another process and having it acknowledged: there and back."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

from .case import OURS, PYTORCH, Case

__all__ = ["CASES"]


def acknowledge(inbox: Any, outbox: Any) -> None:
    """The other process: receives, looks, answers."""
    while (message := inbox.get()) is not None:
        first = message[0] if isinstance(message, list) else message
        outbox.put(len(first) if hasattr(first, "__len__") else 0)
        del message, first


def exchange(multiprocessing: Any, make: Any) -> Iterator[Any]:
    """Times only the way there and back; what is sent is new each time, as in a training loop."""
    context = multiprocessing.get_context("fork")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=acknowledge, args=(inbox, outbox), daemon=True)
    process.start()

    def run() -> float:
        message = make()
        began = time.perf_counter()
        inbox.put(message)
        outbox.get()
        return time.perf_counter() - began

    try:
        yield run
    finally:
        inbox.put(None)
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()
        for queue in (inbox, outbox):
            queue.close()


def tensors(n: int, count: int = 0) -> dict[str, Any]:
    """n float32 numbers, or a list of `count` such tensors."""

    def make(st: Any) -> Any:
        return (lambda: [st.ones(n) for _ in range(count)]) if count else lambda: st.ones(n)

    def ours(st: Any) -> Iterator[Any]:
        import shmtensor.multiprocessing

        return exchange(shmtensor.multiprocessing, make(st))

    def theirs(torch: Any) -> Iterator[Any]:
        import torch.multiprocessing

        return exchange(torch.multiprocessing, make(torch))

    def arrays(multiprocessing: Any) -> Iterator[Any]:
        import numpy as np

        one = lambda: np.ones(n, np.float32)  # noqa: E731
        return exchange(multiprocessing, (lambda: [one() for _ in range(count)]) if count else one)

    return {OURS: ours, PYTORCH: theirs, "multiprocessing": arrays}


def number() -> dict[str, Any]:
    """An int."""

    def build(library: Any) -> Iterator[Any]:
        name = library.__name__
        path = name if name == "multiprocessing" else f"{name}.multiprocessing"
        return exchange(importlib.import_module(path), lambda: 7)

    return dict.fromkeys((OURS, PYTORCH, "multiprocessing"), build)


CASES = [
    Case("send/an int", number()),
    Case("send/64 B", tensors(16), 0.2),
    Case("send/1 MB", tensors(1 << 18), 0.1),
    Case("send/16 MB", tensors(1 << 22), 0.01, slow=True),
    Case("send/list of 100", tensors(16, 100), 0.03, slow=True),
]
