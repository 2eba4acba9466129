"""Where a loader's processes spent their time, and who waits for whom."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass, fields

from shmtensor import memory
from shmtensor.html_table import html_table


def shared_bytes() -> int:
    """Bytes of shared memory of all processes of the domain: the size of their shared files."""
    _, *volumes = memory.preparation()["descriptors"]
    return sum(os.fstat(volume).st_blocks * 512 for volume in volumes)


@dataclass(frozen=True)
class WorkerStatistics:
    """One worker in the latest epoch; without workers, the loading process itself.

    Parameters
    ----------
    id : int
        0 .. num_workers - 1.
    pid : int
        Its process.
    batches : int
        Made by it.
    samples : int
        In them.
    fetch_seconds : float
        In the data set.
    collate_seconds : float
        In `collate_fn`.
    send_seconds : float
        Handing batches over.
    idle_seconds : float
        Without a task, because the consumer had enough.
    peak_bytes : int
        Its largest resident size so far; 0 without workers.

    Examples
    --------
    >>> from shmtensor.dataloaders import DataLoader
    >>> loader = DataLoader(range(6), batch_size=2)
    >>> batches = list(loader)
    >>> loader.statistics().workers[0].samples
    6
    """

    id: int
    pid: int
    batches: int
    samples: int
    fetch_seconds: float
    collate_seconds: float
    send_seconds: float
    idle_seconds: float
    peak_bytes: int

    @property
    def busy_seconds(self) -> float:
        return self.fetch_seconds + self.collate_seconds + self.send_seconds


@dataclass(frozen=True)
class LoaderStatistics:
    """A loader in its latest epoch, as `DataLoader.statistics` returns it; `print` it for a table
    and a sentence.

    Parameters
    ----------
    workers : tuple of WorkerStatistics
        One record each.
    batches : int
        Handed over.
    wait_seconds : float
        The consumer waited for batches.
    use_seconds : float
        The consumer did something else, such as training.
    mean_fill : float
        Finished batches that waited when the consumer asked, on average.
    capacity : int
        The most batches that may be in flight or ready.
    restarts : int
        Workers that were replaced.
    shared_bytes : int
        Shared memory in use by all processes of the domain.

    Examples
    --------
    >>> from shmtensor.dataloaders import DataLoader
    >>> loader = DataLoader(range(6), batch_size=2)
    >>> batches = list(loader)
    >>> loader.statistics().batches
    3
    """

    workers: tuple[WorkerStatistics, ...]
    batches: int
    wait_seconds: float
    use_seconds: float
    mean_fill: float
    capacity: int
    restarts: int
    shared_bytes: int

    @property
    def bottleneck(self) -> str:
        """Who waits for whom, and what would help, in a sentence."""
        total = self.wait_seconds + self.use_seconds
        if not self.batches or not total:
            return "Nothing was loaded yet."
        wait_share = self.wait_seconds / total
        if wait_share < 0.05:
            return f"Training is the bottleneck: it waited for data {wait_share:.0%} of the time."
        fetch = sum(worker.fetch_seconds for worker in self.workers)
        collate = sum(worker.collate_seconds for worker in self.workers)
        what = "collate_fn" if collate > fetch else "the data set's samples"
        busy = sum(worker.busy_seconds for worker in self.workers) / len(self.workers)
        if not self.capacity:
            help_ = "workers would load while training runs"
        elif busy > 0.5 * total:
            help_ = f"more workers, or faster ones: most of their time goes to {what}"
        else:
            help_ = "a larger prefetch_factor or larger batches: the workers were idle, too"
        return (
            f"Loading is the bottleneck: training waited for data {wait_share:.0%} of the time; "
            f"what helps: {help_}."
        )

    def _repr_html_(self) -> str:
        names = [f.name for f in fields(WorkerStatistics)]
        rows = [
            [f"{v:.3f}" if isinstance(v, float) else v for v in astuple(w)] for w in self.workers
        ]
        return html_table(names, rows, self.bottleneck)

    def __str__(self) -> str:
        lines = ["worker     pid  batches  samples    fetch  collate     send     idle"]
        for w in self.workers:
            lines.append(
                f"{w.id:6} {w.pid:7} {w.batches:8} {w.samples:8} {w.fetch_seconds:7.3f}s "
                f"{w.collate_seconds:7.3f}s {w.send_seconds:7.3f}s {w.idle_seconds:7.3f}s"
            )
        lines.append(
            f"{self.batches} batches, waited {self.wait_seconds:.3f} s, used {self.use_seconds:.3f}"
            f" s, {self.mean_fill:.1f} of {self.capacity} batches ready when asked, "
            f"{self.restarts} restarts, {self.shared_bytes >> 20} MiB of shared memory"
        )
        return "\n".join([*lines, self.bottleneck])
