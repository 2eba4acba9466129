"""Figures of GPU memory, as numbers and as texts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import cupy

from ... import native
from ...errors import OutOfMemoryError
from . import lending, streams
from .allocator import Device, allocator, require_own_process
from .blocks import BINNED, FREE, LEAVING, LENT, MIB, SMALL, USED, Slab


def device_at(index: int | None) -> Device:
    require_own_process()
    return allocator.devices[cupy.cuda.runtime.getDevice() if index is None else index]


def memory_allocated(index: int | None = None) -> int:
    """Bytes of blocks of arrays on a device (None: the current one), in whole granules."""
    return device_at(index).allocated


def memory_reserved(index: int | None = None) -> int:
    """Bytes that this process has from the driver."""
    return device_at(index).reserved


def max_memory_allocated(index: int | None = None) -> int:
    """The largest `memory_allocated` since the start or `reset_peaks`."""
    return device_at(index).peak_allocated


def max_memory_reserved(index: int | None = None) -> int:
    """The largest `memory_reserved` since the start or `reset_peaks`."""
    return device_at(index).peak_reserved


def reset_peaks(index: int | None = None) -> None:
    """The maxima begin anew at what is in use now."""
    device = device_at(index)
    device.peak_allocated, device.peak_reserved = device.allocated, device.reserved


def figures(device: Device) -> dict[str, int]:
    """What waits on a device. The lock is held."""
    lent = [chunk.size for chunk in allocator.lent.values() if chunk.slab.device == device.index]
    leaving = [
        target.size
        for target, index, _ in allocator.leaving
        if index == device.index and getattr(target, "state", None) == LEAVING
    ]
    imports = [slab for slab in lending.imports.values() if slab.device == device.index]
    exported = sum(chunk.size for slab in device.slabs.values() for chunk in slab.exported.values())
    return {
        "exported_bytes": exported,
        "limbo_bytes": sum(leaving),
        "limbo_blocks": len(leaving),
        "lent_bytes": sum(lent),
        "lent_blocks": len(lent),
        "open_slabs": len(imports),
        "held_blocks": sum(slab.holds for slab in imports),
    }


def memory_stats(index: int | None = None) -> dict[str, int]:
    """Counts of a device's memory by name: PyTorch's names where they mean the same, and
    `limbo_*` (freed, other streams still use it), `lent_*` (freed, other processes may hold it),
    `exported_bytes`, `open_slabs` and `held_blocks` (of other processes).
    """
    device = device_at(index)
    try:
        with allocator.lock:
            rest = {**figures(device), **pool_figures(device)}
            sums = accumulated(device)
    finally:
        allocator.retry()
    forgotten = device.forgotten
    return {
        "allocated_bytes.all.current": device.allocated,
        "allocated_bytes.all.peak": device.peak_allocated,
        "reserved_bytes.all.current": device.reserved,
        "reserved_bytes.all.peak": device.peak_reserved,
        "allocation.all.current": device.allocations - device.frees,
        "segment.all.current": len(device.slabs),
        "max_split_size": -1,
        **{name: number - forgotten.get(name, 0) for name, number in sums.items()},
        **rest,
    }


def accumulated(device: Device) -> dict[str, int]:
    """The figures that only grow, since the process uses CUDA."""
    return {
        "allocated_bytes.all.allocated": device.total_allocated,
        "allocated_bytes.all.freed": device.total_allocated - device.allocated,
        "reserved_bytes.all.allocated": device.total_reserved,
        "reserved_bytes.all.freed": device.total_reserved - device.reserved,
        "allocation.all.allocated": device.allocations,
        "allocation.all.freed": device.frees,
        "segment.all.allocated": device.slabs_made,
        "segment.all.freed": device.slabs_freed,
        "num_alloc_retries": device.retries,
        "num_ooms": device.out_of_memory_errors,
        "num_device_alloc": device.slabs_made,
        "num_device_free": device.slabs_freed,
    }


def reset_accumulated(index: int | None = None) -> None:
    """The figures that only grow begin anew at 0."""
    device = device_at(index)
    try:
        with allocator.lock:
            device.forgotten = accumulated(device)
    finally:
        allocator.retry()


def pool_figures(device: Device) -> dict[str, int]:
    """What is in use now, of blocks up to 1 MiB ("small_pool") and of larger ones. The lock is
    held.
    """
    totals = {f"{name}.{pool}.current": 0 for name in FIGURES for pool in POOLS}
    for slab in device.slabs.values():
        pool = pool_of(slab)
        counts = Counter(reserved_bytes=slab.size, segment=1)
        for chunk in slab.chunks():
            if chunk.state == USED:
                counts.update(allocated_bytes=chunk.size, allocation=1)
            if chunk.state in (USED, LEAVING, LENT):
                counts.update(active_bytes=chunk.size, active=1)
            elif slab.used:
                counts.update(inactive_split_bytes=chunk.size, inactive_split=1)
        for name, number in counts.items():
            totals[f"{name}.{pool}.current"] += number
    for name in ("active_bytes", "active", "inactive_split_bytes", "inactive_split"):
        totals[f"{name}.all.current"] = sum(totals[f"{name}.{pool}.current"] for pool in POOLS)
    return totals


FIGURES = (
    "active",
    "active_bytes",
    "allocated_bytes",
    "allocation",
    "inactive_split",
    "inactive_split_bytes",
    "reserved_bytes",
    "segment",
)
POOLS = ("small_pool", "large_pool")
STATES = {
    FREE: "inactive",
    BINNED: "inactive",
    USED: "active_allocated",
    LEAVING: "active_pending_free",
    LENT: "active_pending_free",
}


def pool_of(slab: Slab) -> str:
    return POOLS[slab.pool != SMALL]


def memory_snapshot() -> list[dict[str, Any]]:
    """The slabs of all devices and the blocks in them, by PyTorch's names."""
    require_own_process()
    try:
        with allocator.lock:
            return [
                segment(device, slab)
                for device in allocator.devices.values()
                for slab in sorted(device.slabs.values(), key=lambda slab: slab.ptr)
            ]
    finally:
        allocator.retry()


def segment(device: Device, slab: Slab) -> dict[str, Any]:
    """A slab and its blocks. The lock is held."""
    chunks = slab.chunks()
    used = [chunk.size for chunk in chunks if chunk.state == USED]
    active = [chunk.size for chunk in chunks if chunk.state in (USED, LEAVING, LENT)]
    return {
        "device": device.index,
        "address": slab.ptr,
        "total_size": slab.size,
        "allocated_size": sum(used),
        "active_size": sum(active),
        "requested_size": sum(used),
        "stream": 0,
        "segment_type": "small" if slab.pool == SMALL else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {
                "address": chunk.ptr,
                "size": chunk.size,
                "requested_size": chunk.size,
                "state": STATES[chunk.state],
                "frames": [],
            }
            for chunk in chunks
        ],
    }


def size_text(n: int) -> str:
    """A number of bytes to read."""
    return f"{n / MIB:,.1f} MiB" if n >= MIB else f"{n:,} bytes"


def borrowers(device: Device) -> str:
    """Who uses this process's slabs: "rank 1 (pid 77): 3 holds, 2 messages in flight"."""
    users: Counter[tuple[int, int]] = Counter()
    messages = 0
    for slab in device.slabs.values():
        if slab.slot >= 0:
            rows, in_flight = native.slab_lent(slab.slot, slab.inc)
            messages += in_flight
            for row, inc, count in rows:
                users[row, inc] += count
    parts = []
    for (row, inc), count in users.most_common(8):
        text, *_ = native.describe(row, inc)
        parts.append(f"{text.removesuffix(' is alive')}: {count} holds or open slabs")
    if messages:
        parts.append(f"{messages} messages in flight")
    return "; ".join(parts) if parts else "nobody"


def lines(device: Device) -> list[str]:
    """What the memory of a device is used for. The lock is held."""
    rest = figures(device)
    with streams.on_device(device.index):
        free, total = cupy.cuda.runtime.memGetInfo()
    return [
        f"in use by arrays {size_text(device.allocated)}, reserved {size_text(device.reserved)} in "
        f"{len(device.slabs)} slabs, of {size_text(total)}, {size_text(free)} of them free",
        f"freed, waiting for other streams: {size_text(rest['limbo_bytes'])} in "
        f"{rest['limbo_blocks']} blocks",
        f"freed, held by other processes or in messages: {size_text(rest['lent_bytes'])} in "
        f"{rest['lent_blocks']} blocks",
        f"lent to: {borrowers(device)}",
        f"held of other processes: {rest['held_blocks']} blocks in {rest['open_slabs']} slabs",
    ]


def memory_summary(index: int | None = None) -> str:
    """What the memory of a device is used for, as a text."""
    device = device_at(index)
    with allocator.lock:
        text = lines(device)
    allocator.retry()
    peaks = f"peaks: {size_text(device.peak_allocated)} in use, {size_text(device.peak_reserved)}"
    return "\n".join(
        [f"GPU {device.index}", *(f"  {line}" for line in text), f"  {peaks} reserved"]
    )


def out_of_memory(device: Device, nbytes: int) -> OutOfMemoryError:
    """The error of an allocation. The lock is held."""
    limit = "" if device.limit is None else f"limited to {size_text(device.limit)}; "
    return OutOfMemoryError(
        f"cuda: no memory for a block of {size_text(nbytes)} on GPU {device.index}: {limit}"
        + "; ".join(lines(device))
    )


allocator.out_of_memory = out_of_memory
