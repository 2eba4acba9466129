"""Messages per second through a bounded queue: this process puts, another gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .harness.case import OURS, Case
from .harness.partner_process import partner

STDLIB = "multiprocessing"
BOUND = 1024
SMALL = {"step": 7, "loss": 0.5, "name": "layer", "sizes": (3, 4)}


def consume(inbox: Any, outbox: Any) -> None:
    """The other process: a number is the count of messages to follow; it answers after the last."""
    while n := inbox.get():
        for _ in range(n):
            inbox.get()
        outbox.put(n)


def consume_many(inbox: Any, outbox: Any) -> None:
    """The same, with up to 100 messages at once."""
    while n := inbox.get():
        while n:
            n -= len(inbox.get_many(min(n, 100)))
        outbox.put(n)


def stream(
    context: Any, make_queue: Callable[[], Any], message: Any, n: int, many: bool = False
) -> Iterator[Any]:
    """A call sends the message n times and waits until the other process has received all."""
    inbox, outbox = make_queue(), make_queue()

    def run() -> None:
        inbox.put(n)
        for _ in range(n):
            inbox.put(message)
        outbox.get()

    def run_many() -> None:
        inbox.put(n)
        for _ in range(0, n, 100):
            inbox.put_many([message] * 100)
        outbox.get()

    target = consume_many if many else consume
    with partner(context, target, inbox, outbox, end=lambda: inbox.put(0)):
        yield run_many if many else run
    for queue in (inbox, outbox):
        queue.close()


def ours(make: Callable[[Any], Any], n: int, many: bool = False) -> Callable[[Any], Iterator[Any]]:
    """st.Queue."""

    def build(st: Any) -> Iterator[Any]:
        from shmtensor.multiprocessing import get_context

        return stream(get_context("fork"), lambda: st.Queue(BOUND), make(st), n, many)

    return build


def theirs(make: Callable[[Any], Any], n: int) -> Callable[[Any], Iterator[Any]]:
    """The standard library's queue, with NumPy arrays instead of tensors."""

    def build(multiprocessing: Any) -> Iterator[Any]:
        import numpy as np

        context = multiprocessing.get_context("fork")
        return stream(context, lambda: context.Queue(BOUND), make(np), n)

    return build


def both(make: Callable[[Any], Any], n: int, many: bool = False) -> dict[str, Any]:
    """Parties with messages of our library, and of NumPy for the standard library."""
    return {OURS: ours(make, n, many), STDLIB: theirs(make, n)}


CASES = [
    Case("queue/an int", both(lambda _: 7, 2000), 0.2, STDLIB, per=2000, slow=True),
    Case("queue/a small dict", both(lambda _: SMALL, 2000), 0.2, STDLIB, per=2000, slow=True),
    Case(
        "queue/ints, 100 at once", both(lambda _: 7, 2000, True), 0.2, STDLIB, per=2000, slow=True
    ),
    Case("queue/1 MB", both(lambda xp: xp.zeros(1 << 17), 50), 0.05, STDLIB, per=50, slow=True),
]
