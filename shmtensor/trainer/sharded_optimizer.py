"""Shards: the flat arrays of an optimizer, all ranks' gradients, and who updates which part.

```
flat i:   parameter  |....rank 0....|....rank 1....|     one copy, shared; so is each state array
          gradient 0 |..............|..............|     a row for each rank, written by it,
          gradient 1 |..............|..............|     read by all
```

Shard borders lie at multiples of a cache line: no two ranks write one line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import native
from ..autograd.engine.grad_buffer import in_grad_buffer
from ..memory.layout import aligned, zeros_shared

__all__ = ["Shards", "Snapshot", "Whole", "border"]

Array = np.ndarray[Any, np.dtype[Any]]


class Shared(NamedTuple):
    """One flat as it travels to other processes: the arrays are the same memory there."""

    parameter: Array
    state: dict[str, Array]
    steps: int  # that the optimizer has done
    starts: list[int]  # of the parameters, to compare


def border(count: int, itemsize: int, rank: int, ranks: int) -> int:
    """Where the shard of `rank` begins."""
    line = aligned(1, itemsize)
    lines = aligned(count, itemsize) // line
    return min(count, lines * rank // ranks * line)


class Shards:
    """One optimizer's flat arrays as the ranks share them.

    Attributes:
        gradients: for each flat (ranks, size): everybody's gradients, in shared memory.
    """

    def __init__(
        self, optimizer: Any, gradients: list[Array], shared: list[Shared] | None = None
    ) -> None:
        self.optimizer = optimizer
        self.flats = optimizer.flats
        self.gradients = gradients
        if shared is not None:
            self.adopt(shared)
        self.begun = [int(flat.steps.max(initial=0)) for flat in self.flats]
        self.done = 0  # steps since then

    def shared(self) -> list[Shared]:
        """What other processes `adopt`."""
        return [
            Shared(flat.parameter, dict(flat.state), before + self.done, list(flat.starts))
            for flat, before in zip(self.flats, self.begun, strict=True)
        ]

    def adopt(self, shared: list[Shared]) -> None:
        """Steps on the memory of another process's optimizer, of which this one is a copy."""
        ours, theirs = [flat.starts for flat in self.flats], [each.starts for each in shared]
        if ours != theirs:
            raise RuntimeError(
                f"Trainer: the optimizer's flats differ between processes: {ours} here, {theirs}"
            )
        for flat, each in zip(self.flats, shared, strict=True):
            flat.parameter = each.parameter
            flat.state = dict(each.state)
            flat.steps[...] = each.steps

    @staticmethod
    def create_gradients(optimizer: Any, ranks: int) -> list[Array]:
        """Zeroed gradients for each flat; gaps between parameters stay zero."""
        out = []
        for flat in optimizer.flats:
            size, dtype = flat.parameter.size, flat.parameter.dtype
            if flat.parameter.ndim != 1 or not flat.parameter.flags.c_contiguous:
                raise ValueError(
                    f"Trainer: a parameter is not contiguous: shape {flat.parameter.shape}, "
                    "strides "
                    f"{flat.parameter.strides}, make it so with p.data = p.data.contiguous()"
                )
            out.append(zeros_shared((ranks, aligned(size, dtype.itemsize)), dtype))
        return out

    def use_grad_buffers(self, rank: int) -> None:
        """From now on backward writes this process's gradients into its own row."""
        for flat, rows in zip(self.flats, self.gradients, strict=True):
            for p in flat.tensors:
                p.grad = None
            flat.take_gradients(rows[rank, : flat.parameter.size])

    def set_steps(self, n: int) -> None:
        """Counts n steps of the ranks in this process's optimizer."""
        self.done = n
        self.optimizer._opt_called = self.optimizer._opt_called or n > 0  # what schedulers ask
        for i, before in enumerate(self.begun):
            if before + n:
                self.optimizer.step_range(i, 0, 0, before + n)

    def clear_gradients(self) -> None:
        for flat in self.flats:
            for p in flat.tensors:
                p.accumulate_grad.grad = None

    def complete_gradients(self) -> None:
        """Brings in what is not at home: a gradient that somebody holds or assigned, or none."""
        for flat in self.flats:
            for i, p in enumerate(flat.tensors):
                g = p.accumulate_grad.grad
                if g is None:
                    flat.part(flat.gradient, i)[...] = 0  # it took no part
                elif not in_grad_buffer(p.accumulate_grad, g.array):
                    flat.part(flat.gradient, i).reshape(p.array.shape)[...] = g.array

    def range(self, i: int, rank: int) -> tuple[int, int]:
        flat, ranks = self.flats[i].parameter, len(self.gradients[i])
        begin, end = (border(flat.size, flat.itemsize, r, ranks) for r in (rank, rank + 1))
        return begin, end

    def reduce(self, rank: int) -> None:
        """Sums the rank's shard of all gradients into its own row. Copies: none."""
        for i, rows in enumerate(self.gradients):
            begin, end = self.range(i, rank)
            if len(rows) > 1 and begin < end:
                native.reduce_into(rows[rank][begin:end], [row[begin:end] for row in rows], "sum")

    def update(self, rank: int) -> None:
        self.done += 1
        for i, before in enumerate(self.begun):
            self.optimizer.step_range(i, *self.range(i, rank), before + self.done)

    def arrays(self) -> list[Array]:
        """The weights and the optimizer's state: what is shared, and what a snapshot keeps."""
        out = []
        for flat in self.flats:
            out += [flat.parameter, *(x for x in flat.state.values() if isinstance(x, np.ndarray))]
        return out


class Whole:
    """What a single process has instead of shards: all of the optimizer."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def clear_gradients(self) -> None:
        self.optimizer.zero_grad()

    def complete_gradients(self) -> None:
        pass

    def reduce(self, rank: int) -> None:
        pass

    def update(self, rank: int) -> None:
        self.optimizer.step()


class Snapshot:
    """A private copy of the weights and the optimizer's state at one step. Copies: one, when
    taken.
    """

    def __init__(self, step: int, shards: Shards, buffers: list[Array]) -> None:
        self.step = step
        self.sources = [*shards.arrays(), *buffers]
        self.copies = [x.copy() for x in self.sources]

    def take(self, step: int) -> None:
        self.step = step
        for source, copy in zip(self.sources, self.copies, strict=True):
            np.copyto(copy, source)

    def restore(self) -> int:
        for source, copy in zip(self.sources, self.copies, strict=True):
            np.copyto(source, copy)
        return self.step
