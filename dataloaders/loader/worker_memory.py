"""Memory that a worker keeps between batches, and when it returns it to the system.

Note [Memory of a worker]: glibc maps arrays of more than 128 KiB one by one, and returns the top of
its heap when more than 128 KiB of it are free (both limits rise with the arrays freed before). So a
worker would fault in the memory of each batch again: temporary arrays of transforms, samples that
are not copied early (Note [Warm samples]), PyTorch's tensors. In a worker both thresholds are
higher. What malloc and the shared heap keep is returned in three cases: the worker is idle (its
epoch has ended, or the consumer is slower); every 10 seconds of work, so that it does not keep the
memory of one large batch; every second while the machine or the memory cgroup is short of memory.

The thresholds hold for a whole process, for good: only workers, which are the loader's own
processes, have them. They are left alone if the user has set them by environment variables, or
limits the address space (RLIMIT_AS), where memory that malloc keeps could not be mapped for
something else.
"""

from __future__ import annotations

import os
import resource
from time import monotonic

from shmtensor import native

KEPT = 256 << 20  # bytes of free memory at the top of the heap; returned above this at once
MAPPED = 32 << 20  # bytes of an array that is mapped on its own; older glibc accepts no more
IDLE, BUSY, SHORT = 1.0, 10.0, 1.0  # seconds until kept memory is returned
VARIABLES = (
    "GLIBC_TUNABLES",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
)


class WorkerMemory:
    """Raises the thresholds of this process, which is a worker, and returns memory in time.

    Attributes:
        is_raised: whether it raised them: with glibc only.
        is_used: whether there was a batch since memory was returned.
    """

    def __init__(self) -> None:
        self.is_raised = (
            not any(name in os.environ for name in VARIABLES)
            and resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
            and native.set_malloc_thresholds(KEPT, MAPPED)
        )
        self.is_used = False
        self.trimmed_at = self.checked_at = monotonic()

    def after_batch(self) -> None:
        """Returns memory if that is due while batches are made."""
        self.is_used = True
        now = monotonic()
        if now - self.checked_at < SHORT:
            return
        self.checked_at = now
        if now - self.trimmed_at >= BUSY or is_memory_short():
            self.trim()

    def when_idle(self, seconds: float) -> None:
        """Returns memory if the worker has waited so long for a task."""
        if self.is_used and seconds >= IDLE:
            self.trim()

    def trim(self) -> None:
        self.is_used = False
        self.trimmed_at = monotonic()
        native.trim()
        if self.is_raised:
            native.malloc_trim()


def is_memory_short() -> bool:
    """Whether the machine or the memory cgroup has less than an eighth of its memory left."""
    available, limit, _ = native.headroom()
    return available < limit // 8
