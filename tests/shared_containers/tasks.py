"""The functions that the processes of these tests run; a spawned interpreter can import them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LONG = 60.0


@contextmanager
def running(context: Any, *calls: Any) -> Iterator[None]:
    """A process for each (function, *arguments); at the end they have ended well."""
    processes = [context.Process(target=f, args=arguments) for f, *arguments in calls]
    for process in processes:
        process.start()
    yield
    for process in processes:
        process.join(LONG)
        assert process.exitcode == 0
        process.close()


def answer(inbox: Any, outbox: Any) -> None:
    """Says what is in a list and a dictionary, and writes to an array of the latter."""
    words, table = inbox.get()
    x = table["x"]
    outbox.put((list(words[:2]), words[-1], len(words), table["b"], table[("t", 1)], x[0].item()))
    x[0] = 7.0
    outbox.put("written")


def read_all(words: Any, out: Any, go: Any) -> None:
    """Reads every element, then says how much memory is this process's own share."""
    total = sum(len(word) for word in words)
    go.wait()
    out.put((total, proportional()))
    go.wait()


def proportional() -> int:
    """The proportional set size of this process, in bytes."""
    with open(f"/proc/{os.getpid()}/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024


def try_to_write(inbox: Any, outbox: Any, back: Any) -> None:
    """Tries every way to write a tensor, says what the attempts raised, and sends the tensor on."""
    x = inbox.get()
    attempts: dict[str, Any] = {
        "add_": lambda: x.add_(1),
        "setitem": lambda: x.__setitem__(0, 1),
        "view": lambda: x[1:].zero_(),
        "numpy": lambda: x.numpy().fill(1),
        "flag": lambda: setattr(x.numpy().flags, "writeable", True),
    }
    raised = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            raised[name] = "nothing"
        except Exception as error:
            raised[name] = f"{type(error).__name__}: {error}"
    outbox.put((raised, x.tolist(), (x.clone() + 1).tolist()))
    back.put(x)


def send_on(inbox: Any, outbox: Any) -> None:
    """Passes one message on, which arrives by a queue or a pipe."""
    outbox.put(inbox.get() if hasattr(inbox, "get") else inbox.recv())
