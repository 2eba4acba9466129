"""The gradients of all ranks, in shared memory, and which parameters have one.

```
part i:   row of rank 0 |..............|..............|     a row for each rank, which writes it,
          row of rank 1 |..............|..............|     and which all ranks read
```

A part is one of a flat optimizer's blocks of parameters; of any other optimizer, one parameter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import native
from ..autograd.engine.grad_buffer import in_grad_buffer
from ..memory.layout import aligned, zeros_shared

Array = np.ndarray[Any, np.dtype[Any]]
BLOCK = 1 << 15  # elements: they stay in the cache


class Part(NamedTuple):
    """Parameters whose gradients are in one row; starts, stops: their elements in it."""

    tensors: list[Any]
    starts: list[int]
    stops: list[int]
    flat: Any  # of the optimizer, or None

    @property
    def size(self) -> int:
        return self.stops[-1] if self.flat is None else int(self.flat.parameter.size)


def parameters_of(*optimizers: Any) -> list[Any]:
    """The parameters of all groups, in order."""
    return [p for each in optimizers for group in each.param_groups for p in group["params"]]


def parts_of(optimizer: Any) -> list[Part]:
    """The parts of an optimizer's parameters; those that are frozen may be unfrozen later.

    Raises:
        ValueError: a parameter is not contiguous.
    """
    flats = getattr(optimizer, "flats", None)
    if flats is None:
        parts = [Part([p], [0], [p.numel()], None) for p in parameters_of(optimizer)]
    else:
        parts = [Part(flat.tensors, flat.starts, flat.stops, flat) for flat in flats]
    for part in parts:
        x = part.tensors[0].array if part.flat is None else part.flat.parameter
        if not x.flags.c_contiguous or (part.flat is not None and x.ndim != 1):
            raise ValueError(
                f"Trainer: a parameter is not contiguous: shape {x.shape}, strides {x.strides}, "
                "call p.data = p.data.contiguous()"
            )
    return parts


class Gradients:
    """One rank's view of all ranks' gradients.

    Attributes:
        rows: for each part (ranks, size), in shared memory.
        has_gradient: (ranks, parameters) bool in shared memory; a rank writes its row when the
            board's `missing` is not 0.
    """

    def __init__(
        self, parts: list[Part], rows: list[Array], has_gradient: Array, rank: int
    ) -> None:
        self.parts = parts
        self.rows = rows
        self.has_gradient = has_gradient
        self.rank = rank
        self._shards: dict[tuple[int, int, int], list[Array]] = {}
        # Each parameter, and its gradient's place. One that never required grad has no node yet.
        self.slots: list[tuple[Any, Array]] = []
        for part, row in zip(parts, rows, strict=True):
            if part.flat is not None:
                part.flat.take_gradients(row[rank, : part.size])
            for p, start, stop in zip(part.tensors, part.starts, part.stops, strict=True):
                place = row[rank, start:stop].reshape(p.array.shape)
                p.grad = None
                if part.flat is None and p.accumulate_grad is not None:
                    p.accumulate_grad.grad_buffer = native.GradientBuffer(place)
                self.slots.append((p, place))

    @staticmethod
    def create(parts: list[Part], ranks: int, n_has_gradient: int) -> tuple[list[Array], Array]:
        """Zeroed rows, one for each rank, and `has_gradient`; gaps between parameters stay zero."""
        rows = []
        for part in parts:
            dtype = part.tensors[0].array.dtype
            rows.append(zeros_shared((ranks, aligned(part.size, dtype.itemsize)), dtype))
        n = sum(len(part.tensors) for part in parts)
        return rows, zeros_shared((n_has_gradient, n), np.dtype(np.bool_))

    def clear(self) -> None:
        for p, _ in self.slots:
            if p.accumulate_grad is not None:
                p.accumulate_grad.grad = None

    def complete(self, is_zero: bool = False) -> int:
        """Makes this rank's row complete after its backward: gradients from elsewhere are copied
        into it, missing ones become zeros. Returns the number of these.

        Args:
            is_zero: all gradients count as zeros: the loss has counted nothing of this part.
        """
        missing = 0
        for p, place in self.slots:
            node = p.accumulate_grad
            g = None if node is None else node.grad
            if g is None:
                missing += 1
                place[...] = 0
            elif g.is_sparse:
                raise TypeError(
                    f"Trainer: ranks share dense gradients: that of a parameter of shape "
                    f"{place.shape} is sparse, use nprocs=1"
                )
            elif is_zero:
                place[...] = 0
            elif not in_grad_buffer(node, g.array):
                place[...] = g.array
        if missing:
            nodes = [p.accumulate_grad for p, _ in self.slots]
            self.has_gradient[self.rank] = [
                node is not None and node.grad is not None for node in nodes
            ]
        return missing

    def indices(self, missing: Array) -> list[list[int] | None]:
        """Of each part, the parameters that have a gradient on some rank; None: all.

        Args:
            missing: of each rank, from the board.
        """
        if 0 in missing.tolist():  # a rank has all
            return [None] * len(self.parts)
        used: Array = np.logical_or.reduce(self.has_gradient, axis=0)
        indices: list[list[int] | None] = []
        first = 0
        for part in self.parts:
            of_part = used[first : first + len(part.tensors)]
            first += len(part.tensors)
            indices.append(None if of_part.all() else np.flatnonzero(of_part).tolist())
        return indices

    def reduce(
        self, i: int, begin: int, end: int, factor: float, limit: float | None = None
    ) -> None:
        """Sums the ranks' rows of part i from begin to end, in rank order, into this rank's.
        Copies: none.

        Args:
            factor: by which the sums are multiplied.
            limit: to which they are clipped then, or None.
        """
        if begin < end:
            key = i, begin, end
            if key not in self._shards:  # views are kept: making them takes as long as a small sum
                self._shards[key] = [row[begin:end] for row in self.rows[i]]
            shards = self._shards[key]
            native.reduce_into(shards[self.rank], shards, "sum")
            multiply_and_clip(shards[self.rank], factor, limit)

    def sum_of_squares(self, i: int, begin: int, end: int) -> float:
        """Of the sums of the ranks' rows of part i from begin to end, which are not written.
        Copies: one, by blocks; two of float16 and bfloat16, whose squares need more bits."""
        rows, total = self.rows[i], 0.0
        block = np.empty(min(BLOCK, max(end - begin, 0)), rows.dtype)
        for first in range(begin, end, BLOCK):
            sums = block[: min(BLOCK, end - first)]
            native.reduce_into(sums, [row[first : first + len(sums)] for row in rows], "sum")
            total += sum_of_squares(sums)
        return total


def multiply_and_clip(x: Array, factor: float, limit: float | None) -> None:
    """Multiplies x by a factor, then clips its elements to a limit if there is one, in place."""
    if factor != 1.0:
        x *= x.dtype.type(factor)
    if limit is not None:
        np.clip(x, -limit, limit, out=x)


def sum_of_squares(x: Array) -> float:
    """Copies: one of float16 and bfloat16, whose squares need more bits."""
    if x.itemsize < 4:
        x = x.astype(np.float32)
    with np.errstate(over="ignore"):  # an infinite norm
        return float(np.vdot(x, x).real)
