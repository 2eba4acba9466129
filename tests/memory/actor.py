"""Programs that share no ancestor with the test: each does what it is told, line by line."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .fresh import SOURCES, TESTS

ACTOR = f"""
import sys; sys.path[:0] = [{str(TESTS)!r}, {SOURCES!r}]
from memory.actor import act; act()
"""


def act() -> None:
    """The program: a line of Python on stdin, what came of it on stdout."""
    import numpy as np

    import shmtensor as st
    from shmtensor import memory, native
    from shmtensor.memory import name_protocol, named_tensor_server, published_file

    world = {
        "np": np,
        "st": st,
        "memory": memory,
        "native": native,
        "name_protocol": name_protocol,
        "named_tensor_server": named_tensor_server,
        "published_file": published_file,
        "os": os,
    }
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            exec(line.replace("\\n", "\n"), world)
            print("done", repr(world.pop("out", None)), flush=True)
        except Exception as error:
            traceback.print_exc()
            print(type(error).__name__, str(error).replace("\n", " "), flush=True)


class Actor:
    """Such a program, in a domain of its own."""

    def __init__(self, env: dict[str, str] | None = None, prefix: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-X", "faulthandler", "-c", ACTOR],
            env={**os.environ, "SHMTENSOR_DOMAIN": "new", **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.is_ready = False

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        if not self.is_ready:  # the programs of a test start at the same time
            assert self.heard() == "ready"
            self.is_ready = True
        assert self.process.stdin is not None
        self.process.stdin.write(line.replace("\n", "\\n") + "\n")
        self.process.stdin.flush()

    def do(self, line: str) -> str:
        """Tells it and waits: the repr of what it called `out`. Empty: it died."""
        self.tell(line)
        answer = self.heard()
        assert not answer or answer.startswith("done "), answer
        return answer.removeprefix("done ")

    def fails(self, line: str) -> str:
        """The error that this line ends in."""
        self.tell(line)
        answer = self.heard()
        assert answer
        assert not answer.startswith("done "), answer
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> int:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        return self.process.wait(30)


@contextmanager
def actors(n: int, env: dict[str, str] | None = None) -> Iterator[list[Actor]]:
    """So many programs; whatever is left of them at the end is killed."""
    actors: list[Actor] = []
    try:
        for _ in range(n):
            actors.append(Actor(env))
        yield actors
    finally:
        for actor in actors:
            actor.process.kill()
        for actor in actors:
            actor.end()
