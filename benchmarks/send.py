"""Round trips: sending to another process, and its acknowledgement."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from .harness.case import OURS, PYTORCH, Case
from .harness.partner_process import partner

STDLIB = "multiprocessing"
AN_INT = f"{OURS}, an int"
SMALL = f"{OURS}, 64 B"


def acknowledge(inbox: Any, outbox: Any) -> None:
    """The other process: receives and answers."""
    while (message := inbox.get()) is not None:
        outbox.put(0)
        del message


def exchange(library: str, make: Callable[[], Any]) -> Iterator[Any]:
    """Times only the round trip."""
    context = importlib.import_module(library).get_context("fork")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()

    def run() -> float:
        message = make()
        began = time.perf_counter()
        inbox.put(message)
        outbox.get()
        return time.perf_counter() - began

    with partner(context, acknowledge, inbox, outbox, end=lambda: inbox.put(None)):
        yield run
    for queue in (inbox, outbox):
        queue.close()


def tensors(n: int, count: int = 0) -> dict[str, Any]:
    """n float32 numbers, or a list of `count` such tensors; new for each call."""

    def make(ones: Callable[[], Any]) -> Callable[[], Any]:
        return (lambda: [ones() for _ in range(count)]) if count else ones

    def build(st: Any) -> Iterator[Any]:
        return exchange(f"{st.__name__}.multiprocessing", make(lambda: st.ones(n)))

    def arrays(multiprocessing: Any) -> Iterator[Any]:
        import numpy as np

        return exchange(STDLIB, make(lambda: np.ones(n, np.float32)))

    return {OURS: build, PYTORCH: build, STDLIB: arrays}


def number(library: Any) -> Iterator[Any]:
    """An int."""
    name = library.__name__
    return exchange(name if name == STDLIB else f"{name}.multiprocessing", lambda: 7)


def same(n: int) -> Callable[[Any], Iterator[Any]]:
    """One tensor of n float32 numbers, sent repeatedly."""

    def build(st: Any) -> Iterator[Any]:
        x = st.zeros(n)
        return exchange(f"{st.__name__}.multiprocessing", lambda: x)

    return build


CASES = [
    Case("send/an int", dict.fromkeys((OURS, PYTORCH, STDLIB), number)),
    Case("send/64 B", tensors(16), 0.2),
    Case("send/1 MB", tensors(1 << 18), 0.1),
    Case("send/16 MB", tensors(1 << 22), 0.01, slow=True),
    Case("send/list of 100", tensors(16, 100), 0.03, slow=True),
    Case("send/64 B, by an int's time", {OURS: tensors(16)[OURS], AN_INT: number}, 1.3, AN_INT),
    Case(
        "send/256 MB, by 64 B's time", {OURS: same(1 << 26), SMALL: same(16)}, 1.2, SMALL, long=True
    ),
]
