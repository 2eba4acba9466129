"""A rank's call of a collective, encoded as a row of bytes that all ranks compare.

```
  0  number u64 | what u8 | op u8 | ndim i8 | - | root i32 | nbytes i64 | shape 8 i64 | dtype 12 B
128  the rank's data, if it is small
```

`number` counts the group's calls; for a message it is the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import HALVES
from ...errors import CollectiveMismatch
from ..collectives.reference import ReduceOp
from .operands import Array

ROW = 1024
HEAD = np.dtype(
    {
        "names": ["number", "what", "op", "ndim", "root", "nbytes", "shape", "dtype"],
        "formats": ["<u8", "u1", "u1", "i1", "<i4", "<i8", ("<i8", 8), "S12"],
        "offsets": [0, 8, 9, 10, 12, 16, 24, 88],
        "itemsize": 128,
    }
)
INLINE = ROW - HEAD.itemsize
NO_OP = 255
NAMES = (
    "barrier",
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "gather",
    "scatter",
    "all_to_all",
    "exchange",
    "send",
)


def write(
    row: Array, what: str, number: int, x: Array | None, op: int = NO_OP, root: int = -1
) -> None:
    """Fills the head of a row."""
    row[: HEAD.itemsize] = 0
    head = row[: HEAD.itemsize].view(HEAD)[0]
    head["number"], head["what"], head["root"] = number, NAMES.index(what), root
    head["op"], head["ndim"] = op, -1
    if x is None:
        return
    if x.ndim > 8:
        raise ValueError(f"{what}: takes arrays of at most 8 dimensions: this has {x.ndim}")
    head["ndim"], head["nbytes"], head["dtype"] = x.ndim, x.nbytes, str(x.dtype).encode()
    head["shape"][: x.ndim] = x.shape


def describe(row: Array) -> str:
    """A row in words: all_reduce(float32 (3, 4), SUM)."""
    head: Any = row[: HEAD.itemsize].view(HEAD)[0]
    parts = []
    if head["ndim"] >= 0:
        shape = tuple(int(n) for n in head["shape"][: head["ndim"]])
        parts.append(f"{head['dtype'].decode()} {shape}")
    if head["op"] != NO_OP:
        parts.append(ReduceOp(int(head["op"])).name)
    if head["root"] >= 0:
        parts.append(f"root {head['root']}")
    return f"{NAMES[head['what']]}({', '.join(parts)})"


def compare(table: Array, where: str) -> None:
    """Checks that all ranks made the same call.

    Raises:
        CollectiveMismatch: they did not; it names the call of each rank.
    """
    heads = table[:, : HEAD.itemsize]
    if (heads == heads[0]).all():
        return
    ranks_by_head: dict[bytes, list[int]] = {}
    for rank, head in enumerate(heads):
        ranks_by_head.setdefault(head.tobytes(), []).append(rank)
    text = "; ".join(
        f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, ranks))}: "
        f"{describe(heads[ranks[0]])}"
        for ranks in ranks_by_head.values()
    )
    number = heads[0].view(HEAD)[0]["number"]
    raise CollectiveMismatch(
        f"{where}: ranks called different collectives: call {number} of the group: {text}"
    )


def array_of_call(data: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The array that came with a rank's call; `data`: the bytes of its row after the head."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.ndarray(shape, dtype, data[: count * dtype.itemsize].tobytes())


def check_list(where: str, xs: Sequence[Array], x: Array, n: int) -> None:
    if len(xs) != n:
        raise ValueError(f"{where}: takes a tensor for each rank: got {len(xs)} of {n}")
    for rank, each in enumerate(xs):
        if each.nbytes != x.nbytes or each.dtype != x.dtype:
            raise ValueError(
                f"{where}: tensors of the list differ from this rank's in size or dtype: "
                f"{each.nbytes} bytes at {rank}, not {x.nbytes}"
            )


def check_pair(where: str, out: Array, x: Array, nbytes: int, n: int) -> None:
    if out.dtype != x.dtype or x.nbytes != nbytes or x.size % n:
        raise ValueError(
            f"{where}: sizes do not fit {n} ranks: output {out.nbytes} bytes, input {x.nbytes}"
        )


def check_message(where: str, mine: Array, theirs: Array, who: str) -> None:
    """Checks that a message is what its receiver expects.

    Raises:
        CollectiveMismatch: it is not; it names both sides.
    """
    if (mine != theirs).any():
        raise CollectiveMismatch(
            f"{where}: the message is not what is expected: {describe(mine)} with tag "
            f"{tag_of(mine)} here, {who} {describe(theirs)} with tag {tag_of(theirs)}"
        )


def tag_of(head: Array) -> int:
    return int(head.view(HEAD)[0]["number"])


def is_reducible(op: ReduceOp, dtype: np.dtype[Any]) -> bool:
    """Whether a reduction is defined for a dtype."""
    kind = "f" if dtype in HALVES else dtype.kind
    if kind not in "biufc":
        return False
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        return kind in "biu"
    if op in (ReduceOp.MIN, ReduceOp.MAX):
        return kind != "c"
    return op is not ReduceOp.AVG or kind in "fc"


def check_op(where: str, x: Array, number: int) -> ReduceOp:
    """The operation of this number.

    Raises:
        TypeError: it is not defined for x's dtype.
    """
    op = ReduceOp(number)
    if not is_reducible(op, x.dtype):
        raise TypeError(
            f"{where}: this reduction is not defined for this dtype: {op.name} of {x.dtype}"
        )
    return op


def plain_op(op: ReduceOp) -> ReduceOp:
    """SUM for a PREMUL_SUM, whose operands are multiplied already."""
    return ReduceOp.SUM if op is ReduceOp.PREMUL_SUM else op
