"""A program with its own domain, which tests observe; it ends when its input ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONG = 120.0


def hold(queue: Any, ready: Any) -> None:
    """The child: takes two messages and keeps them, then sleeps."""
    import time

    from shmtensor import native

    native.set_role("worker 0")
    tensors = [queue.get(), queue.get()]
    ready.put(len(tensors))
    time.sleep(LONG)


def main() -> None:
    import shmtensor as st
    from shmtensor import memory, native
    from shmtensor import multiprocessing as mp

    native.set_role("main")
    context = mp.get_context("fork")
    queue, ready = context.Queue(maxsize=10), context.SimpleQueue()
    for i in range(9):
        queue.put(st.full((1000,), float(i)))
    process = context.Process(target=hold, args=(queue, ready))
    process.start()
    ready.get(LONG)
    native.export(st.ones(500).numpy())  # a handle that nobody receives
    memory.publish(f"cli-test-{os.getpid()}", st.ones(5, 2))
    description = {"child": process.pid, "id": native.domain_id().hex()}
    print(json.dumps(description), flush=True)
    for line in sys.stdin:  # questions
        if line == "put\n":
            queue.put(st.ones(3))
            queue.get()
        print(json.dumps([memory.statistics().processes, len(native.members())]), flush=True)
    process.kill()
    process.join()


class Program:
    """The other end: the running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.pid = process, process.pid
        description = json.loads(self.line())
        self.child, self.id = description["child"], description["id"]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, question: str = "") -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return json.loads(self.line())


@contextmanager
def running(environment: dict[str, str]) -> Iterator[Program]:
    """The started program; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "SHMTENSOR_DOMAIN": "new"},
    )
    try:
        yield Program(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(LONG)
        finally:
            process.stdout.close()


if __name__ == "__main__":
    main()
