"""The functions that the processes of these tests run; a spawned interpreter can import them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def answer(inbox: Any, outbox: Any) -> None:
    """Says what it finds in a list and a dictionary, and whether it is the sender's memory."""
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
    copy = x.clone()
    copy += 1
    outbox.put((raised, x.tolist(), copy.tolist()))
    back.put(x)


def send_on(inbox: Any, outbox: Any) -> None:
    """Passes one message on."""
    outbox.put(inbox.get())
