"""Collectives of Python objects. Objects are pickled; tensors in them are passed as handles, so
that the receiver's tensors have the same memory.

```
sizes of the pickles  ->  the pickles  ->  a barrier, after which the sender releases its pins
```

The pickles are in the domain's memory, which only the domain's processes can read; nothing goes
through a socket or a file.
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
from .exchange_parts import all_gather_rows, exchange_parts

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def encode(obj: object, by_value: bool = False) -> tuple[bytes, list[bytes]]:
    """A message that any number of ranks can read, and the handles whose pins the sender releases
    afterwards. By value: tensors are copied into the message, so that other machines can read it.
    """
    from ...multiprocessing import reduction

    if by_value:
        return pickle.dumps((dumps_by_value(obj), [])), []
    with reduction.sending_values():
        payload, blocks = reduction.dumps(obj)
    handles = [native.export(block) for block in blocks]
    return pickle.dumps((payload, handles)), handles


def dumps_by_value(obj: object) -> bytes:
    """A plain pickle; by cloudpickle if there are functions that cannot be imported."""
    try:
        return pickle.dumps(obj)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        return bytes(cloudpickle.dumps(obj))


def decode(message: bytes) -> Any:
    from ...multiprocessing import reduction

    payload, handles = pickle.loads(message)
    return reduction.loads(payload, [native.receive(handle, False) for handle in handles])


def exchange(
    where: str,
    group: ProcessGroup,
    messages_out: list[bytes],
    readers: Sequence[int],
    extra: int = 0,
    root: int = -1,
) -> tuple[list[bytes], list[int]]:
    """The message of each rank for this rank, and everybody's `extra`.

    Args:
        messages_out: a message for each rank, or one for all `readers`, or none.
        readers: the receivers of the one message.

    Raises:
        CollectiveMismatch: ranks called another collective, or with another root; on all ranks.
    """
    n, rank = group.size(), group.rank()
    if len(messages_out) == 1:
        sizes = [len(messages_out[0]) if r in readers else 0 for r in range(n)]
    else:
        sizes = [len(each) for each in messages_out] or [0] * n
    row = [extra, len(messages_out) == 1, sum(map(len, messages_out)), *sizes]
    table = all_gather_rows(where, group, row, root)
    data = empty_shared((sum(map(len, messages_out)),), np.dtype(np.uint8))
    data[:] = np.frombuffer(b"".join(messages_out), np.uint8)
    outputs = [np.empty(int(row[3 + rank]), np.uint8) for row in table]
    offsets = [0 if row[1] else int(row[3 : 3 + rank].sum()) for row in table]
    exchange_parts(group, outputs, data, offsets, int(table[:, 2].max()))
    return [out.tobytes() for out in outputs], table[:, 0].tolist()


@contextmanager
def release_handles(group: ProcessGroup, handles: list[bytes]) -> Iterator[None]:
    """Releases the pins when everybody holds what it has received, or the call has failed."""
    try:
        yield
        group.native.barrier(group.timeout)
    finally:
        for handle in handles:
            native.acknowledge(handle)


def check_lengths(where: str, lengths: list[int], expected: int, ranks: Sequence[int]) -> None:
    """Checks that the lists of these ranks have the expected length."""
    for rank in ranks:
        if lengths[rank] != expected:
            raise CollectiveMismatch(
                f"{where}: the list of rank {rank} has length {lengths[rank]}, not {expected}"
            )


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Puts rank r's `obj` into everybody's `object_list[r]`.

    Parameters
    ----------
    object_list : list
        With one item for each rank.
    obj : object
        Anything that can be pickled.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.

    Raises
    ------
    CollectiveMismatch
        A rank's list does not have one item for each rank; on all ranks.

    See Also
    --------
    gather_object, all_gather

    Notes
    -----
    Copies: the pickle; of tensors none.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> objects = [None] * dist.get_world_size()
    >>> dist.all_gather_object(objects, {"loss": 0.5})
    >>> objects
    [{'loss': 0.5}]
    >>> dist.destroy_process_group()
    """
    where = "all_gather_object"
    pg = group_of(where, group)
    message, handles = encode(obj, pg.spans_nodes)
    n = pg.size()

    def call() -> None:
        with release_handles(pg, handles):
            messages, lengths = exchange(where, pg, [message], range(n), len(object_list))
            check_lengths(where, lengths, n, range(n))
            object_list[:] = [decode(each) for each in messages]

    pg.issue(call, False, None)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: None = None,
    group_src: int | None = None,
) -> None:
    """Puts the objects of rank `src` into everybody's list.

    Parameters
    ----------
    object_list : list
        Of one length on all ranks.
    src : int, optional
        The sender's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    device : None
        Accepted; has no effect.
    group_src : int, optional
        The same as its rank in `group`, instead of `src`.

    Raises
    ------
    CollectiveMismatch
        The lists differ in length; on all ranks.

    See Also
    --------
    broadcast

    Notes
    -----
    Copies: the pickle; of tensors none.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> objects = ["seed", 5] if dist.get_rank() == 0 else [None, None]
    >>> dist.broadcast_object_list(objects, src=0)
    >>> objects
    ['seed', 5]
    >>> dist.destroy_process_group()
    """
    where = "broadcast_object_list"
    pg = group_of(where, group)
    root = root_of(where, pg, src, group_src)
    is_root = pg.rank() == root
    message, handles = encode(list(object_list), pg.spans_nodes) if is_root else (b"", [])
    n = pg.size()

    def call() -> None:
        with release_handles(pg, handles):
            receivers = [r for r in range(n) if r != root]
            messages_out = [message] if is_root else []
            messages, lengths = exchange(where, pg, messages_out, receivers, len(object_list), root)
            check_lengths(where, lengths, lengths[root], range(n))
            if not is_root:
                object_list[:] = decode(messages[root])

    pg.issue(call, False, None)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Puts rank r's `obj` into `object_gather_list[r]` of rank `dst`.

    Parameters
    ----------
    obj : object
        Anything that can be pickled.
    object_gather_list : list, optional
        On rank `dst`: with one item for each rank.
    dst : int, optional
        The receiver's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    group_dst : int, optional
        The same as its rank in `group`, instead of `dst`.

    Raises
    ------
    CollectiveMismatch
        The list of `dst` does not have one item for each rank; on all ranks.

    See Also
    --------
    all_gather_object

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> objects = [None]
    >>> dist.gather_object("hello", objects, dst=0)
    >>> objects
    ['hello']
    >>> dist.destroy_process_group()
    """
    where = "gather_object"
    pg = group_of(where, group)
    root = root_of(where, pg, dst, group_dst)
    message, handles = encode(obj, pg.spans_nodes)
    outputs = object_gather_list if object_gather_list is not None else []

    def call() -> None:
        with release_handles(pg, handles):
            messages, lengths = exchange(where, pg, [message], [root], len(outputs), root)
            check_lengths(where, lengths, pg.size(), [root])
            if pg.rank() == root:
                outputs[:] = [decode(each) for each in messages]

    pg.issue(call, False, None)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Puts the r-th object of rank `src`'s list into rank r's `scatter_object_output_list[0]`.

    Parameters
    ----------
    scatter_object_output_list : list
        With one item at least.
    scatter_object_input_list : list, optional
        On rank `src`: one object for each rank.
    src : int, optional
        The sender's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    group_src : int, optional
        The same as its rank in `group`, instead of `src`.

    Raises
    ------
    CollectiveMismatch
        The list of `src` does not have one object for each rank; on all ranks.

    See Also
    --------
    scatter

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> mine = [None]
    >>> dist.scatter_object_list(mine, ["for rank 0"], src=0)
    >>> mine
    ['for rank 0']
    >>> dist.destroy_process_group()
    """
    where = "scatter_object_list"
    pg = group_of(where, group)
    root = root_of(where, pg, src, group_src)
    objects = list(scatter_object_input_list or []) if pg.rank() == root else []
    encoded = [encode(each, pg.spans_nodes) for each in objects]

    def call() -> None:
        with release_handles(pg, [handle for _, handles in encoded for handle in handles]):
            n = pg.size()
            messages_out = [message for message, _ in encoded] if len(encoded) == n else []
            messages, lengths = exchange(where, pg, messages_out, range(n), len(objects), root)
            check_lengths(where, lengths, n, [root])
            scatter_object_output_list[0] = decode(messages[root])

    pg.issue(call, False, None)
