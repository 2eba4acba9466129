"""A process that receives and sends GPU arrays, for the part `sends`: commands come by pickle.

    python -m tests.cuda.gpu.worker [--standin]

A command is a tuple: ("receive", message) answers with the first and the last element,
("export", number) with a message of an array of that number, ("end",) ends the process.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

from shmtensor import memory


class Worker:
    """Such a process."""

    def __init__(self, options: list[str]) -> None:
        import os

        environment = {**os.environ, "SHMTENSOR_DOMAIN": memory.domain_environment()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cuda.gpu.worker", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def tell(self, *command: Any) -> None:
        assert self.process.stdin is not None
        pickle.dump(command, self.process.stdin)
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Its answer.

        Raises:
            EOFError: it has died.
        """
        assert self.process.stdout is not None
        return pickle.load(self.process.stdout)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> int:
        """Ends it; its exit code."""
        self.tell("end")
        self.process.communicate(timeout=60)
        return self.process.returncode


def main(options: list[str]) -> None:
    """Serves commands until the end."""
    if "--standin" in options:
        from tests.cuda.standin.install import install

        install()
    import shmtensor as st
    from shmtensor.memory import cuda as allocator

    st.cuda.init()
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr
    pickle.dump("ready", answers)
    answers.flush()
    kept: list[Any] = []
    while True:
        command, *rest = pickle.load(sys.stdin.buffer)
        if command == "end":
            break
        if command == "receive":
            array = allocator.receive(rest[0])
            answer: Any = (int(array[0]), int(array[-1]))
            del array
        else:
            x = st.full((1 << 18,), rest[0], device="cuda", dtype=st.int64)
            kept = [x]
            answer = allocator.export(x.array)
            del x
        pickle.dump(answer, answers)
        answers.flush()
    kept.clear()
    allocator.uninstall()


if __name__ == "__main__":
    main(sys.argv[1:])
