"""Functions that the processes of these tests run: a spawned interpreter can import them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def answer(inbox: Any, outbox: Any) -> None:
    """Reports the contents of a list and a dictionary, and whether they are the sender's memory."""
    words, table = inbox.get()
    outbox.put(
        (
            list(words[:3]),
            words[-1],
            len(words),
            table["b"],
            table[("t", 1)],
            [np.asarray(block).ctypes.data != 0 for block in words._blocks],
            table["x"][0].item(),
        )
    )
    table["x"][0] = 7.0
    outbox.put("written")


def read_all(words: Any, out: Any, go: Any) -> None:
    """Reads every element, then reports this process's share of the memory."""
    total = sum(len(word) for word in words)
    go.wait()
    out.put((total, proportional()))
    go.wait()


def proportional() -> int:
    """The proportional set size of this process, in bytes."""
    with open(f"/proc/{os.getpid()}/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024


def try_to_write(inbox: Any, outbox: Any, report: Any) -> None:
    """Tries every way to write a tensor, reports the exceptions, and sends the tensor on."""
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
    private = x.clone()
    private += 1
    outbox.put((raised, x.tolist(), private.tolist()))
    report.put(x)


def send_on(inbox: Any, outbox: Any) -> None:
    """Passes one message on."""
    outbox.put(inbox.get())
