"""A rank's output: shown, written to a file, or both.

```
DIR/RUN/attempt_0/RANK/stdout.log         -r: only there    -t: also on the terminal, with [rank]
                       error.json         written by @record (elastic/multiprocessing/errors.py)
                  filtered_stdout.log     the lines of -t that contain one of the filters
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


def stream_bits(text: str, rank: int) -> int:
    """The bits of this rank in 3, or 0:1,1:2: 1 for stdout, 2 for stderr."""
    if ":" not in text:
        return int(text)
    pairs = dict(part.split(":") for part in text.split(","))
    return int(pairs.get(str(rank), "0"))


class FilteredLog:
    """A file for the lines of all ranks that contain one of some texts, each appended at once."""

    def __init__(self, folder: Path, stream: str, filters: list[str]) -> None:
        self.path = folder / f"filtered_{stream}.log"
        self._filters = filters

    def add(self, line: str) -> None:
        if any(text in line for text in self._filters):
            with self.path.open("a") as file:
                file.write(line)


class Output:
    """The two streams of a rank, as Popen takes them.

    Attributes:
        stdout, stderr: None (the launcher's), or a descriptor.
        folder: of the rank's files, or None; with --log-dir never None.
    """

    def __init__(self) -> None:
        self.stdout: int | None = None
        self.stderr: int | None = None
        self.folder: Path | None = None
        self._descriptors: list[int] = []
        self._threads: list[threading.Thread] = []

    @classmethod
    def of(cls, rank: int, options: argparse.Namespace, attempt: int) -> Output:
        """The output of a rank, from the launcher's options."""
        output = cls()
        redirected, teed = stream_bits(options.redirects, rank), stream_bits(options.tee, rank)
        rank_filter = options.local_ranks_filter
        is_shown = not rank_filter or str(rank) in rank_filter.split(",")
        if redirected | teed or options.log_dir:
            base = options.log_dir or tempfile.mkdtemp(prefix="shmtensor-")
            options.log_dir = base  # one for all ranks
            run = options.rdzv_id or f"run-{os.getpid()}"
            output.folder = Path(base, run, f"attempt_{attempt}", str(rank))
            output.folder.mkdir(parents=True, exist_ok=True)
        for bit, name in ((1, "stdout"), (2, "stderr")):
            filters = getattr(options, f"duplicate_{name}_filters")
            output._add_stream(name, bit & redirected, bit & teed, is_shown, rank, filters)
        return output

    def _add_stream(
        self, name: str, redirected: int, teed: int, is_shown: bool, rank: int, filters: list[str]
    ) -> None:
        filtered = (
            FilteredLog(self.folder.parent, name, filters) if self.folder and filters else None
        )
        if filtered and rank == 0:  # rank 0 empties it before any line is written
            filtered.path.write_bytes(b"")
        setattr(self, name, self._open_stream(name, redirected, teed, is_shown, rank, filtered))

    def _open_stream(
        self,
        name: str,
        redirected: int,
        teed: int,
        is_shown: bool,
        rank: int,
        filtered: FilteredLog | None,
    ) -> int | None:
        if not redirected and not teed:
            return None if is_shown else subprocess.DEVNULL
        assert self.folder is not None
        path = self.folder / f"{name}.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        if not teed or not is_shown:
            self._descriptors.append(os.open(path, flags, 0o644))
            return self._descriptors[-1]
        read, write = os.pipe2(os.O_CLOEXEC)
        self._descriptors.append(write)
        thread = threading.Thread(
            target=copy_lines,
            args=(read, path, getattr(sys, name), f"[{rank}]: ", filtered),
            daemon=True,
        )
        thread.start()
        self._threads.append(thread)
        return write

    def close_descriptors(self) -> None:
        """Closes the launcher's descriptors, after the rank has inherited them."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def close(self) -> None:
        """Waits until the rank's output is in the files."""
        self.close_descriptors()
        for thread in self._threads:
            thread.join(5)
        self._threads = []


def copy_lines(
    descriptor: int, path: Path, terminal: IO[str], prefix: str, filtered: FilteredLog | None
) -> None:
    with os.fdopen(descriptor, "rb") as source, path.open("wb") as file:
        for line in source:
            file.write(line)
            file.flush()
            text = prefix + line.decode(errors="replace")
            terminal.write(text)
            terminal.flush()
            if filtered:
                filtered.add(text)
