"""Collectives of Python objects: pickled, with tensors inside as handles, so that they arrive as
the same memory.

```
sizes of the pickles  ->  the pickles  ->  a barrier, after which the sender lets go of its pins
```
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import native
from .group import ProcessGroup, empty_shared
from .membership import group_of

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
]


def encode(thing: object) -> tuple[bytes, list[bytes]]:
    """A message that any number of ranks can read, and the handles whose pins the sender gives up
    afterwards.
    """
    from ..multiprocessing import reduction

    payload, carriers = reduction.dumps(thing)
    handles = [native.export(carrier) for carrier in carriers]
    return pickle.dumps((payload, handles)), handles


def decode(message: bytes) -> Any:
    from ..multiprocessing import reduction

    payload, handles = pickle.loads(message)
    return reduction.loads(payload, [native.receive(handle, False) for handle in handles])


def exchange(group: ProcessGroup, message: bytes) -> list[bytes]:
    """Everybody's message."""
    timeout = group.timeout
    sizes = np.zeros((group.size(), 1), np.int64)
    group.native.all_gather(list(sizes), np.array([len(message)], np.int64), timeout)
    padded = empty_shared((int(sizes.max()),), np.dtype(np.uint8))
    padded[: len(message)] = np.frombuffer(message, np.uint8)
    everybody = np.empty((group.size(), padded.size), np.uint8)
    group.native.all_gather(list(everybody), padded, timeout)
    return [row[: int(n)].tobytes() for row, n in zip(everybody, sizes[:, 0], strict=True)]


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Puts rank r's `obj` into everybody's `object_list[r]`. Copies: the pickle; of tensors
    none.
    """
    found = group_of("all_gather_object", group)
    if len(object_list) != found.size():
        raise ValueError(
            f"all_gather_object: the list has no place for each rank: {len(object_list)}, not "
            f"{found.size()}"
        )
    message, handles = encode(obj)
    object_list[:] = [decode(each) for each in exchange(found, message)]
    release(found, handles)


def release(group: ProcessGroup, handles: list[bytes]) -> None:
    group.native.barrier(group.timeout)  # everybody holds what it has received
    for handle in handles:
        native.acknowledge(handle)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: None = None,
    group_src: int | None = None,
) -> None:
    """Puts the objects of rank `src` into everybody's list. Copies: the pickle; of tensors none."""
    found = group_of("broadcast_object_list", group)
    root = group_src if group_src is not None else found.rank_of("broadcast_object_list", src or 0)
    is_root = found.rank() == root
    message, handles = encode(list(object_list)) if is_root else (b"", [])
    size = np.array([len(message), len(object_list)], np.int64)
    mine = len(object_list)
    found.native.broadcast(size, root, found.timeout)
    data = empty_shared((int(size[0]),), np.dtype(np.uint8))
    if is_root:
        data[:] = np.frombuffer(message, np.uint8)
    found.native.broadcast(data, root, found.timeout)
    if not is_root:
        if mine != int(size[1]):
            found.native.break_off(f"its list has {mine} objects, rank {root} sends {int(size[1])}")
            raise ValueError(
                f"broadcast_object_list: lists differ in length: {mine} here, {int(size[1])} "
                f"on rank {root}"
            )
        object_list[:] = decode(data.tobytes())
    release(found, handles)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
) -> None:
    """Puts rank r's `obj` into `object_gather_list[r]` of rank `dst`."""
    found = group_of("gather_object", group)
    message, handles = encode(obj)
    everybody = exchange(found, message)
    if found.rank() == found.rank_of("gather_object", dst or 0):
        if object_gather_list is None or len(object_gather_list) != found.size():
            found.native.break_off("its list has no place for each rank")
            raise ValueError(f"gather_object: rank {dst or 0} needs a list of {found.size()}")
        object_gather_list[:] = [decode(each) for each in everybody]
    release(found, handles)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
) -> None:
    """Puts the r-th object of rank `src`'s list into rank r's `scatter_object_output_list[0]`."""
    found = group_of("scatter_object_list", group)
    box = [list(scatter_object_input_list or [])]
    broadcast_object_list(box, src, group)
    scatter_object_output_list[0] = box[0][found.rank()]
