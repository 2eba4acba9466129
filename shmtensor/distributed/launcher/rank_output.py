"""What becomes of a rank's output: shown, written to a file, or both.

```
DIR/RUN/attempt_0/RANK/stdout.log         -r: instead of the terminal    -t: and there, with [rank]
                       error.json         what @record writes (elastic/multiprocessing/errors.py)
                  filtered_stdout.log     of what -t shows, the lines that hold one of the filters
```
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

__all__ = ["Output"]


def wanted(text: str, rank: int) -> int:
    """Of 3, or 0:1,1:2: 1 for stdout, 2 for stderr, of this rank."""
    if ":" not in text:
        return int(text)
    pairs = dict(part.split(":") for part in text.split(","))
    return int(pairs.get(str(rank), "0"))


class Filtered:
    """A file for the lines of all ranks that hold one of some texts; each is added at once."""

    def __init__(self, folder: Path, stream: str, needles: list[str]) -> None:
        self.path = folder / f"filtered_{stream}.log"
        self._needles = needles

    def add(self, line: str) -> None:
        if any(needle in line for needle in self._needles):
            with self.path.open("a") as file:
                file.write(line)


class Output:
    """The two streams of a rank, as Popen takes them.

    Attributes:
        stdout, stderr: None (the launcher's own), or a descriptor.
        folder: of the rank's files, if it has any; with --log-dir it has.
    """

    def __init__(self) -> None:
        self.stdout: int | None = None
        self.stderr: int | None = None
        self.folder: Path | None = None
        self._open: list[int] = []
        self._threads: list[threading.Thread] = []

    @classmethod
    def of(cls, rank: int, options: argparse.Namespace, attempt: int) -> Output:
        """What the launcher's options say about a rank."""
        made = cls()
        kept, teed = wanted(options.redirects, rank), wanted(options.tee, rank)
        shown = options.local_ranks_filter
        is_shown = not shown or str(rank) in shown.split(",")
        if kept | teed or options.log_dir:
            base = options.log_dir or tempfile.mkdtemp(prefix="shmtensor-")
            options.log_dir = base  # one for all ranks
            run = options.rdzv_id or f"run-{os.getpid()}"
            made.folder = Path(base, run, f"attempt_{attempt}", str(rank))
            made.folder.mkdir(parents=True, exist_ok=True)
        for bit, name in ((1, "stdout"), (2, "stderr")):
            needles = getattr(options, f"duplicate_{name}_filters")
            made._make(name, bit & kept, bit & teed, is_shown, rank, needles)
        return made

    def _make(
        self, name: str, kept: int, teed: int, is_shown: bool, rank: int, needles: list[str]
    ) -> None:
        filtered = Filtered(self.folder.parent, name, needles) if self.folder and needles else None
        if filtered and rank == 0:  # the first, before any line is written
            filtered.path.write_bytes(b"")
        setattr(self, name, self._stream(name, kept, teed, is_shown, rank, filtered))

    def _stream(
        self,
        name: str,
        kept: int,
        teed: int,
        is_shown: bool,
        rank: int,
        filtered: Filtered | None,
    ) -> int | None:
        if not kept and not teed:
            return None if is_shown else subprocess.DEVNULL
        assert self.folder is not None
        path = self.folder / f"{name}.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        if not teed or not is_shown:
            self._open.append(os.open(path, flags, 0o644))
            return self._open[-1]
        read, write = os.pipe2(os.O_CLOEXEC)
        self._open.append(write)
        thread = threading.Thread(
            target=copy,
            args=(read, path, getattr(sys, name), f"[{rank}]: ", filtered),
            daemon=True,
        )
        thread.start()
        self._threads.append(thread)
        return write

    def started(self) -> None:
        """The rank has the descriptors: ours are closed."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open = []

    def close(self) -> None:
        """What the rank has written is in the files."""
        self.started()
        for thread in self._threads:
            thread.join(5)
        self._threads = []


def copy(
    descriptor: int, path: Path, shown: IO[str], prefix: str, filtered: Filtered | None
) -> None:
    with os.fdopen(descriptor, "rb") as source, path.open("wb") as file:
        for line in source:
            file.write(line)
            file.flush()
            text = prefix + line.decode(errors="replace")
            shown.write(text)
            shown.flush()
            if filtered:
                filtered.add(text)
