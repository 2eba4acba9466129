"""Point to point: messages from one rank to another.

The receiver copies a message from the sender's memory; `send` returns when it has been received.
`isend` and `irecv` run on a lane for each peer and direction (work.py), in the order of the calls.
A message whose shape, dtype or tag is not what the receiver expects is a CollectiveMismatch on both
sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import native
from ...memory.layout import empty_shared
from ..group.operands import Array, array_of
from ..group.process_group import functions
from ..group.work import Work
from ..group.world import group_of
from .collectives import Group, contiguous_outputs, root_of, write_back
from .object_collectives import decode, encode

if TYPE_CHECKING:
    from .collectives import Operand

__all__ = [
    "P2POp",
    "batch_isend_irecv",
    "irecv",
    "isend",
    "recv",
    "recv_object_list",
    "send",
    "send_object_list",
]


def start_send(
    where: str,
    tensor: Operand,
    dst: int | None,
    group: Group,
    tag: int,
    group_dst: int | None,
    is_async: bool = False,
    is_own: bool = False,
) -> Work | None:
    """Sends a tensor, or with `is_own` the library's own data, which are on the host."""
    pg = group_of(where, group)
    array = array_of(where, tensor)
    peer = root_of(where, pg, dst, group_dst)

    def call() -> None:
        x = (pg.shared if is_own else pg.readable)(array, any_size=array.nbytes > 0)
        pg.native.send(x, peer, tag, pg.timeout)

    return pg.issue(call, is_async, [tensor], defers=False, lane=("to", peer))


def send(
    tensor: Operand,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Sends to rank `dst`; returns when it has been received there.

    Parameters
    ----------
    tensor : Tensor
        What is sent.
    dst : int, optional
        The receiver's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    tag : int, optional
        The same on both sides.
    group_dst : int, optional
        The same as its rank in `group`, instead of `dst`.

    Raises
    ------
    ValueError
        The receiver is this rank.
    CollectiveMismatch
        The receiver expects another shape, dtype or tag; on both sides.
    PeerLostError
        The receiver has died.

    See Also
    --------
    isend, recv

    Notes
    -----
    Copies: one if the tensor is not contiguous in shared memory.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> def exchange(x):  # in a group of two ranks
    ...     if dist.get_rank() == 0:
    ...         dist.send(x, dst=1)
    ...     else:
    ...         dist.recv(x, src=0)
    """
    start_send("send", tensor, dst, group, tag, group_dst)


def isend(
    tensor: Operand,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work:
    """Begins to send to rank `dst`; the tensor may be written again after `wait()`.

    Parameters
    ----------
    tensor : Tensor
        What is sent.
    dst : int, optional
        The receiver's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    tag : int, optional
        The same on both sides.
    group_dst : int, optional
        The same as its rank in `group`, instead of `dst`.

    Returns
    -------
    Work
        Its `wait` returns when the message has been received.

    See Also
    --------
    send, irecv, batch_isend_irecv

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> def shift(x, received):  # to the next rank in a ring
    ...     rank, n = dist.get_rank(), dist.get_world_size()
    ...     work = dist.isend(x, (rank + 1) % n)
    ...     dist.recv(received, (rank - 1) % n)
    ...     work.wait()
    """
    work = start_send("isend", tensor, dst, group, tag, group_dst, True)
    assert work is not None
    return work


def start_recv(
    where: str,
    tensor: Operand,
    src: int | None,
    group: Group,
    tag: int,
    group_src: int | None,
    is_async: bool = False,
    is_own: bool = False,
) -> tuple[Work | None, list[int]]:
    """Receives a tensor. The list gets the sender's rank in the default group."""
    pg = group_of(where, group)
    array = array_of(where, tensor)
    from_any = src is None and group_src is None
    peer = -1 if from_any else root_of(where, pg, src, group_src)
    senders: list[int] = []

    def call() -> int:
        staged = [array] if is_own else contiguous_outputs([array], pg)
        sender = pg.native.find_sender(pg.timeout) if from_any else peer
        pg.native.recv(staged[0], sender, tag, pg.timeout)
        write_back(pg, [tensor], [array], staged)
        senders.append(pg.ranks[sender])
        return senders[0]

    return pg.issue(call, is_async, [tensor], defers=False, lane=("from", peer)), senders


def recv(
    tensor: Operand,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receives from rank `src` into `tensor`, which has the message's shape and dtype.

    Parameters
    ----------
    tensor : Tensor
        What is written.
    src : int, optional
        The sender's rank in the default group; None is the first that sends.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    tag : int, optional
        The same on both sides.
    group_src : int, optional
        The same as its rank in `group`, instead of `src`.

    Returns
    -------
    int
        The sender's rank in the default group. Copies: one.

    Raises
    ------
    CollectiveMismatch
        The message has another shape, dtype or tag; on both sides.
    PeerLostError
        The sender has died.

    See Also
    --------
    send, irecv

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> def collect(x):  # on rank 0: from each of the others, as they come
    ...     senders = []
    ...     for _ in range(dist.get_world_size() - 1):
    ...         senders.append(dist.recv(x))
    ...     return senders
    """
    _, senders = start_recv("recv", tensor, src, group, tag, group_src)
    return senders[0]


def irecv(
    tensor: Operand,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work:
    """Begins to receive; the tensor is written when `wait()` returns.

    Parameters
    ----------
    tensor : Tensor
        What is written.
    src : int, optional
        The sender's rank in the default group; None is the first that sends.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    tag : int, optional
        The same on both sides.
    group_src : int, optional
        The same as its rank in `group`, instead of `src`.

    Returns
    -------
    Work

    See Also
    --------
    recv, isend

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> def exchange(x, received, peer):
    ...     works = [dist.isend(x, peer), dist.irecv(received, peer)]
    ...     for work in works:
    ...         work.wait()
    """
    work, _ = start_recv("irecv", tensor, src, group, tag, group_src, True)
    assert work is not None
    return work


class P2POp:
    """One message of `batch_isend_irecv`.

    Parameters
    ----------
    op : callable
        `isend` or `irecv`.
    tensor : Tensor
        What is sent, or written.
    peer : int, optional
        The other rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    tag : int, optional
        The same on both sides.
    group_peer : int, optional
        The other rank in `group`, instead of `peer`.

    Raises
    ------
    ValueError
        op is neither isend nor irecv.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> message = dist.P2POp(dist.isend, st.ones(2), peer=1)
    >>> message.peer
    1
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Operand,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(f"P2POp: the operation is neither isend nor irecv: {op!r}")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begins all messages of the list; their order does not matter.

    Parameters
    ----------
    p2p_op_list : list of P2POp
        The messages.

    Returns
    -------
    list of Work
        One for each message.

    Raises
    ------
    ValueError
        The list is empty, or an item is not a P2POp.

    See Also
    --------
    P2POp, isend, irecv

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> def exchange(x, received, peer):
    ...     messages = [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, received, peer)]
    ...     for work in dist.batch_isend_irecv(messages):
    ...         work.wait()
    """
    if not p2p_op_list or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError(f"batch_isend_irecv: takes a list of P2POp: {p2p_op_list!r}")
    works = []
    for each in p2p_op_list:
        group_peer = {"group_dst" if each.op is isend else "group_src": each.group_peer}
        works.append(each.op(each.tensor, each.peer, each.group, each.tag, **group_peer))
    return works


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Group = None,
    device: None = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends objects to rank `dst`, pickled.

    Parameters
    ----------
    object_list : list
        Anything that can be pickled.
    dst : int, optional
        The receiver's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    device : None
        Accepted; has no effect.
    group_dst : int, optional
        The same as its rank in `group`, instead of `dst`.
    use_batch : bool, optional
        Accepted; has no effect.

    See Also
    --------
    recv_object_list

    Notes
    -----
    Copies: the pickle; of tensors none.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> def hand_over(objects):  # in a group of two ranks
    ...     if dist.get_rank() == 0:
    ...         dist.send_object_list(objects, dst=1)
    ...     else:
    ...         dist.recv_object_list(objects, src=0)
    """
    message, handles = encode(list(object_list), group_of("send_object_list", group).spans_nodes)
    data = empty_shared((len(message),), np.dtype(np.uint8))
    data[:] = np.frombuffer(message, np.uint8)
    sizes = np.array([len(message), len(object_list)], np.int64)
    for part in (sizes, data, data[:0]):  # the last returns when the receiver holds the tensors
        start_send("send", part, dst, group, 0, group_dst, is_own=True)
    for handle in handles:
        native.acknowledge(handle)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: None = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receives objects from rank `src` into the list.

    Parameters
    ----------
    object_list : list
        With as many items as the sender's.
    src : int, optional
        The sender's rank in the default group; None is the first that sends.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    device : None
        Accepted; has no effect.
    group_src : int, optional
        The same as its rank in `group`, instead of `src`.
    use_batch : bool, optional
        Accepted; has no effect.

    Returns
    -------
    int
        The sender's rank in the default group.

    Raises
    ------
    ValueError
        The lists differ in length.

    See Also
    --------
    send_object_list

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> def wait_for_orders():
    ...     orders = [None]
    ...     dist.recv_object_list(orders, src=0)
    ...     return orders[0]
    """
    size = np.zeros(2, np.int64)

    def receive(x: Array, source: int | None, group_source: int | None = None) -> int:
        return start_recv("recv", x, source, group, 0, group_source, is_own=True)[1][0]

    sender = receive(size, src, group_src)
    data = np.empty(int(size[0]), np.uint8)
    receive(data, sender)
    objects = decode(data.tobytes())
    receive(data[:0], sender)
    if len(objects) != len(object_list):
        raise ValueError(
            f"recv_object_list: lists differ in length: {len(object_list)} here, {len(objects)} "
            f"from rank {sender}"
        )
    object_list[:] = objects
    return sender


functions.irecv, functions.isend = irecv, isend
