"""Collectives of Python objects: pickled, with tensors inside as handles, so that they arrive as
the same memory.

```
sizes of the pickles  ->  the pickles  ->  a barrier, after which the sender lets go of its pins
```

The pickles lie in the domain's memory, which only the family of processes has; nothing goes through
a socket or a file.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ... import native
from ...errors import CollectiveMismatch
from ...memory.layout import empty_shared
from ..group.process_group import ProcessGroup
from ..group.world import group_of
from .collectives import root_of
from .exchange_parts import everybody, take_parts

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
]


def encode(thing: object, by_value: bool = False) -> tuple[bytes, list[bytes]]:
    """A message that any number of ranks can read, and the handles whose pins the sender gives up
    afterwards. By value: what it carries is a copy, which other machines can read, too.
    """
    from ...multiprocessing import reduction

    if by_value:
        return pickle.dumps((dumps_by_value(thing), [])), []
    payload, carriers = reduction.dumps(thing)
    handles = [native.export(carrier) for carrier in carriers]
    return pickle.dumps((payload, handles)), handles


def dumps_by_value(thing: object) -> bytes:
    """A plain pickle; of functions that nobody can import by cloudpickle."""
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        return bytes(cloudpickle.dumps(thing))


def decode(message: bytes) -> Any:
    from ...multiprocessing import reduction

    payload, handles = pickle.loads(message)
    return reduction.loads(payload, [native.receive(handle, False) for handle in handles])


def exchange(
    where: str,
    group: ProcessGroup,
    mine: list[bytes],
    readers: Sequence[int],
    extra: int = 0,
    root: int = -1,
) -> tuple[list[bytes], list[int]]:
    """What each rank has for this one, and everybody's `extra`.

    Args:
        mine: a message for each rank, or one for all `readers`, or none.
        readers: whom the one message is for.

    Raises:
        CollectiveMismatch: ranks called something else, or with another root; on all ranks.
    """
    n, rank = group.size(), group.rank()
    if len(mine) == 1:
        sizes = [len(mine[0]) if r in readers else 0 for r in range(n)]
    else:
        sizes = [len(each) for each in mine] or [0] * n
    row = [extra, len(mine) == 1, sum(map(len, mine)), *sizes]
    table = everybody(where, group, row, root)
    data = empty_shared((sum(map(len, mine)),), np.dtype(np.uint8))
    data[:] = np.frombuffer(b"".join(mine), np.uint8)
    outputs = [np.empty(int(row[3 + rank]), np.uint8) for row in table]
    offsets = [0 if row[1] else int(row[3 : 3 + rank].sum()) for row in table]
    take_parts(group, outputs, data, offsets, int(table[:, 2].max()))
    return [out.tobytes() for out in outputs], table[:, 0].tolist()


@contextmanager
def carrying(group: ProcessGroup, handles: list[bytes]) -> Iterator[None]:
    """Lets go of the pins when everybody holds what it has received, or the call has failed."""
    try:
        yield
        group.native.barrier(group.timeout)
    finally:
        for handle in handles:
            native.acknowledge(handle)


def agree(where: str, lengths: list[int], wanted: int, of: Sequence[int]) -> None:
    """All of these ranks' lists have the length."""
    for rank in of:
        if lengths[rank] != wanted:
            raise CollectiveMismatch(
                f"{where}: the list of rank {rank} has {lengths[rank]} places, not {wanted}"
            )


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Puts rank r's `obj` into everybody's `object_list[r]`. Copies: the pickle; of tensors
    none.

    Raises:
        CollectiveMismatch: a rank's list has no place for each rank; on all ranks.
    """
    where = "all_gather_object"
    found = group_of(where, group)
    message, handles = encode(obj, found.spans_nodes)
    n = found.size()

    def call() -> None:
        with carrying(found, handles):
            messages, lengths = exchange(where, found, [message], range(n), len(object_list))
            agree(where, lengths, n, range(n))
            object_list[:] = [decode(each) for each in messages]

    found.issue(call, False, None)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: None = None,
    group_src: int | None = None,
) -> None:
    """Puts the objects of rank `src` into everybody's list. Copies: the pickle; of tensors none.

    Raises:
        CollectiveMismatch: the lists differ in length; on all ranks.
    """
    where = "broadcast_object_list"
    found = group_of(where, group)
    root = root_of(where, found, src, group_src)
    is_root = found.rank() == root
    message, handles = encode(list(object_list), found.spans_nodes) if is_root else (b"", [])
    n = found.size()

    def call() -> None:
        with carrying(found, handles):
            others = [r for r in range(n) if r != root]
            mine = [message] if is_root else []
            messages, lengths = exchange(where, found, mine, others, len(object_list), root)
            agree(where, lengths, lengths[root], range(n))
            if not is_root:
                object_list[:] = decode(messages[root])

    found.issue(call, False, None)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Puts rank r's `obj` into `object_gather_list[r]` of rank `dst`.

    Raises:
        CollectiveMismatch: the list of `dst` has no place for each rank; on all ranks.
    """
    where = "gather_object"
    found = group_of(where, group)
    root = root_of(where, found, dst, group_dst)
    message, handles = encode(obj, found.spans_nodes)
    places = object_gather_list if object_gather_list is not None else []

    def call() -> None:
        with carrying(found, handles):
            messages, lengths = exchange(where, found, [message], [root], len(places), root)
            agree(where, lengths, found.size(), [root])
            if found.rank() == root:
                places[:] = [decode(each) for each in messages]

    found.issue(call, False, None)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Puts the r-th object of rank `src`'s list into rank r's `scatter_object_output_list[0]`.

    Raises:
        CollectiveMismatch: the list of `src` has no object for each rank; on all ranks.
    """
    where = "scatter_object_list"
    found = group_of(where, group)
    root = root_of(where, found, src, group_src)
    given = list(scatter_object_input_list or []) if found.rank() == root else []
    encoded = [encode(each, found.spans_nodes) for each in given]

    def call() -> None:
        with carrying(found, [handle for _, handles in encoded for handle in handles]):
            n = found.size()
            mine = [message for message, _ in encoded] if len(encoded) == n else []
            messages, lengths = exchange(where, found, mine, range(n), len(given), root)
            agree(where, lengths, n, [root])
            scatter_object_output_list[0] = decode(messages[root])

    found.issue(call, False, None)
