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


def stream_bits(text: str, rank: int) -> int:
    """The bits of this rank in 3, or 0:1,1:2: 1 for stdout, 2 for stderr."""
    if ":" not in text:
        return int(text)
    pairs = dict(part.split(":") for part in text.split(","))
    return int(pairs.get(str(rank), "0"))


class Output:
    """The two streams of a rank, as Popen takes them, from the launcher's options.

    Attributes:
        stdout, stderr: None (the launcher's), or a descriptor.
        folder: of the rank's files, or None; with --log-dir never None.
    """

    def __init__(self, rank: int, options: argparse.Namespace, attempt: int) -> None:
        self.folder: Path | None = None
        self._rank, self._options = rank, options
        self._descriptors: list[int] = []
        self._threads: list[threading.Thread] = []
        redirected, teed = stream_bits(options.redirects, rank), stream_bits(options.tee, rank)
        if redirected | teed or options.log_dir:
            base = options.log_dir or tempfile.mkdtemp(prefix="shmtensor-")
            options.log_dir = base  # one for all ranks
            run = options.rdzv_id or f"run-{os.getpid()}"
            self.folder = Path(base, run, f"attempt_{attempt}", str(rank))
            self.folder.mkdir(parents=True, exist_ok=True)
        self.stdout = self._open_stream("stdout", redirected & 1, teed & 1)
        self.stderr = self._open_stream("stderr", redirected & 2, teed & 2)

    def _open_stream(self, name: str, redirected: int, teed: int) -> int | None:
        rank, shown_ranks = self._rank, self._options.local_ranks_filter
        is_shown = not shown_ranks or str(rank) in shown_ranks.split(",")
        filters = getattr(self._options, f"duplicate_{name}_filters")
        filtered = self.folder.parent / f"filtered_{name}.log" if self.folder and filters else None
        if filtered and rank == 0:  # rank 0 empties it before any line is written
            filtered.write_bytes(b"")
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
            args=(read, path, getattr(sys, name), f"[{rank}]: ", filtered, filters),
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
    descriptor: int,
    path: Path,
    terminal: IO[str],
    prefix: str,
    filtered: Path | None,
    filters: list[str],
) -> None:
    """Copies a rank's lines to its file and the terminal; those with one of the filters' texts to
    the file of all ranks, too, each appended at once.
    """
    with os.fdopen(descriptor, "rb") as source, path.open("wb") as file:
        for line in source:
            file.write(line)
            file.flush()
            text = prefix + line.decode(errors="replace")
            terminal.write(text)
            terminal.flush()
            if filtered and any(each in text for each in filters):
                with filtered.open("a") as log:
                    log.write(text)
