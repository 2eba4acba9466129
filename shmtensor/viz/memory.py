"""Records how much shared memory each process of the domain has, and draws it over time.

A thread takes the samples. Of its own process it knows which memory is in use and which is free; of
the others what they have committed, and how many blocks of other processes they hold.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .. import native
from ..memory.statistics import Statistics, size, statistics

ENDINGS = (".png", ".svg", ".pdf")
# Of the recording process, from below: the parts of its memory, their fields, and their colors.
PARTS: dict[str, tuple[tuple[str, ...], str]] = {
    "private": (("private_bytes",), "#1d4ed8"),
    "shared": (("shared_bytes", "frozen_bytes"), "#60a5fa"),
    "freed, held elsewhere": (("limbo_bytes",), "#bfdbfe"),
    "free, kept": (("cached_bytes",), "#e4e4e7"),
}
OTHERS = ("#ea580c", "#16a34a", "#9333ea", "#ca8a04", "#0d9488", "#db2777", "#78716c")


@dataclass(frozen=True)
class ProcessMemory:
    """A process of the domain at a moment.

    Parameters
    ----------
    row, incarnation : int
        Its entry in the process table; no other process has both.
    pid : int
        Its process id.
    role : str
        What it is, such as "loader worker 0"; "" if it has not said so.
    committed_bytes : int
        The memory of its own, in use or free.
    held_blocks : int
        Blocks of other processes that it keeps alive.

    Examples
    --------
    >>> with st.viz.memory() as record:
    ...     x = st.ones(1000)
    >>> process = record.samples[-1].processes[0]
    >>> process.committed_bytes >= 4000, process.held_blocks
    (True, 0)
    """

    row: int
    incarnation: int
    pid: int
    role: str
    committed_bytes: int
    held_blocks: int


@dataclass(frozen=True)
class MemorySample:
    """The memory of a domain at a moment.

    Parameters
    ----------
    seconds : float
        Since the record began.
    own : Statistics
        `memory.statistics()` of the recording process.
    processes : tuple of ProcessMemory
        All processes of the domain, the recording one among them.

    Examples
    --------
    >>> with st.viz.memory() as record:
    ...     x = st.ones(1000)
    >>> first, last = record.samples[0], record.samples[-1]
    >>> last.own.private_bytes - first.own.private_bytes >= 4000
    True
    """

    seconds: float
    own: Statistics
    processes: tuple[ProcessMemory, ...]

    @property
    def committed_bytes(self) -> int:
        """The memory of all processes."""
        return sum(process.committed_bytes for process in self.processes)


class MemoryRecord:
    """The samples that `viz.memory` takes in a `with` block, and their picture.

    Parameters
    ----------
    path : path, optional
        The picture, written at the end of the block; None: none.
    interval : float, optional
        Seconds between samples.

    Attributes
    ----------
    samples : list of MemorySample
        In their order; at least one from the beginning of the block, and one from its end.

    See Also
    --------
    memory

    Examples
    --------
    >>> with st.viz.MemoryRecord(None, interval=0.02) as record:
    ...     x = st.ones(1000)
    >>> len(record.samples) >= 2
    True
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, interval: float = 0.1) -> None:
        if not interval > 0:
            raise ValueError(f"viz.memory: expected a positive interval in seconds: {interval}")
        self.path = path
        self.interval = interval
        self.samples: list[MemorySample] = []
        self.stop = threading.Event()

    def __enter__(self) -> MemoryRecord:
        if self.samples:
            raise RuntimeError(
                f"viz.memory: a record is used once: it has {len(self.samples)} samples"
            )
        if self.path is not None:
            check_path(self.path)
        self.pid, self.began = os.getpid(), time.perf_counter()
        self.samples.append(self.sample())
        self.thread = threading.Thread(target=self.run, name="viz.memory", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if os.getpid() != self.pid:  # a forked child: the record and the file are its parent's
            return
        self.stop.set()
        self.thread.join()
        self.samples.append(self.sample())
        if self.path is not None:
            self.save(self.path)

    def __repr__(self) -> str:
        if not self.samples:
            return "MemoryRecord(no samples)"
        return (
            f"MemoryRecord({len(self.samples)} samples in {self.samples[-1].seconds:.1f} s, "
            f"peak {size(self.peak_bytes)})"
        )

    @property
    def peak_bytes(self) -> int:
        """The largest memory of all processes together."""
        return max((sample.committed_bytes for sample in self.samples), default=0)

    def run(self) -> None:
        """Takes samples until the block ends."""
        while not self.stop.wait(self.interval):
            self.samples.append(self.sample())

    def sample(self) -> MemorySample:
        """The present sample."""
        seconds = time.perf_counter() - self.began
        own = statistics()
        rows = native.survey(native.domain_fds()[0])["rows"]
        fields = ProcessMemory.__dataclass_fields__
        processes = tuple(ProcessMemory(**{name: row[name] for name in fields}) for row in rows)
        return MemorySample(seconds, own, processes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Draws the samples.

        Parameters
        ----------
        path : path
            The file; its name ends in .png, .svg or .pdf.

        Raises
        ------
        ImportError
            matplotlib is missing.
        FileNotFoundError
            Its folder does not exist.
        ValueError
            The name ends in something else, or there are no samples.
        """
        check_path(path)
        if not self.samples:
            raise ValueError("viz.memory: there are no samples: the `with` block has not begun")
        draw(self.samples).savefig(path, dpi=120)


def memory(path: str | os.PathLike[str] | None = None, *, interval: float = 0.1) -> MemoryRecord:
    """Draws which process has how much shared memory while a block runs.

    Parameters
    ----------
    path : path, optional
        The picture, a name in .png, .svg or .pdf, written at the end of the block; None: none, the
        record only has its samples.
    interval : float, optional
        Seconds between samples.

    Returns
    -------
    MemoryRecord
        For a `with` statement. It has `.samples`, `.peak_bytes` and `.save(path)`.

    Raises
    ------
    ImportError
        At the beginning of the block: a picture is wanted, and matplotlib is missing.
    FileNotFoundError
        At the beginning of the block: the folder of `path` does not exist.
    ValueError
        `interval` is not positive; at the beginning of the block: `path` has another ending.

    Notes
    -----
    The areas are the memory that processes have committed, one upon the other: of the recording
    process what is private, shared, freed but held elsewhere, and free but kept for the next
    tensors; of each other process all together. Below, if there are any, the blocks of other
    processes that each process holds. The six largest other processes have areas of their own.

    A sample takes less than a millisecond of a thread of this process. Python 3.12 and newer warn
    when a process with threads forks.

    Copies: none.

    Examples
    --------
    >>> with st.viz.memory() as record:  # st.viz.memory("memory.png") draws it
    ...     x = st.ones(1000, 1000)
    >>> record.peak_bytes >= x.nbytes
    True
    """
    return MemoryRecord(path, interval)


def check_path(path: str | os.PathLike[str]) -> None:
    """Raises what `save` would raise, before a program has run for hours."""
    name = os.fspath(path)
    if os.path.splitext(name)[1].lower() not in ENDINGS:
        raise ValueError(f"viz.memory: expected a name in .png, .svg or .pdf: {name}")
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"viz.memory: the folder does not exist: {folder}")
    try:
        import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError(
            f"viz.memory: matplotlib cannot be imported: {error}; "
            'pip install "shmtensor[examples]", which installs it'
        ) from error


# ---------------------------------------------------------------- the picture
Key = tuple[int, int]  # row and incarnation
Area = tuple[str, str, list[int]]  # label, color, bytes of each sample


def label(process: ProcessMemory) -> str:
    who = process.role or ("this process" if process.pid == os.getpid() else "process")
    return f"{who} ({process.pid})"


def last_of(samples: Sequence[MemorySample]) -> dict[Key, ProcessMemory]:
    """Every process that was seen, as it was in its last sample: with its final role."""
    return {(p.row, p.incarnation): p for sample in samples for p in sample.processes}


def values(samples: Sequence[MemorySample], key: Key, field: str) -> list[int]:
    """A figure of a process in each sample; 0 where it is not there."""
    found = [{(p.row, p.incarnation): getattr(p, field) for p in s.processes} for s in samples]
    return [sample.get(key, 0) for sample in found]


def areas(samples: Sequence[MemorySample]) -> list[Area]:
    """The areas, the lowest first; their sum is the memory that all processes committed."""
    own_key = (samples[0].own.row, samples[0].own.incarnation)
    processes = last_of(samples)
    own_label = label(processes[own_key])
    result: list[Area] = []
    for part, (fields, color) in PARTS.items():
        sums = [sum(getattr(sample.own, field) for field in fields) for sample in samples]
        result.append((f"{own_label}: {part}", color, sums))
    others = {key: values(samples, key, "committed_bytes") for key in processes if key != own_key}
    others = {key: sums for key, sums in others.items() if any(sums)}
    largest = sorted(others, key=lambda key: -max(others[key]))
    named = len(OTHERS) - 1
    for key, color in zip(largest, OTHERS[:named]):
        result.append((label(processes[key]), color, others[key]))
    if remaining := [others[key] for key in largest[named:]]:
        name = f"{len(remaining)} other process" + ("es" if len(remaining) > 1 else "")
        result.append((name, OTHERS[-1], [sum(column) for column in zip(*remaining)]))
    return [area for area in result if any(area[2])]


def draw(samples: Sequence[MemorySample]) -> Any:
    """The figure: areas of bytes, and lines of held blocks if there are any."""
    seconds = [sample.seconds for sample in samples]
    processes = last_of(samples)
    held = {key: values(samples, key, "held_blocks") for key in processes}
    held = {key: blocks for key, blocks in held.items() if any(blocks)}
    figure = import_module("matplotlib.figure").Figure(
        figsize=(9, 5.5 if held else 4), layout="constrained"
    )
    ratios = [2.2, 1] if held else [1]
    axes = figure.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
    stacked = areas(samples)
    if stacked:
        axes[0].stackplot(
            seconds,
            *(nbytes for _, _, nbytes in stacked),
            labels=[text for text, _, _ in stacked],
            colors=[color for _, color, _ in stacked],
        )
        add_legend(axes[0])
    axes[0].set(title="shared memory", xlim=(seconds[0], seconds[-1]), ylim=(0, None))
    axes[0].yaxis.set_major_formatter(lambda nbytes, _: size(nbytes))
    colors = {text: color for text, color, _ in stacked}
    for key, blocks in held.items():
        text = label(processes[key])
        axes[1].plot(seconds, blocks, label=text, color=colors.get(text), drawstyle="steps-post")
    if held:
        axes[1].set(title="blocks of other processes that each holds", ylim=(0, None))
        add_legend(axes[1])
    axes[-1].set_xlabel("seconds")
    return figure


def add_legend(axes: Any) -> None:
    """Beside the axes, the last on top, as the areas are."""
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False,
        fontsize="small",
    )  # fmt: skip
