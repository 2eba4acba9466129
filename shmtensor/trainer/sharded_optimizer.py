"""Shards: the flat arrays of an optimizer, all ranks' gradients, and which rank updates which part.

```
flat i:   parameter  |....rank 0....|....rank 1....|     one copy, shared; so is each state array
          gradient 0 |..............|..............|     a row for each rank, which writes it,
          gradient 1 |..............|..............|     and which all ranks read
```

Shards begin at multiples of a cache line: no two ranks write the same line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import native
from ..autograd.engine.grad_buffer import in_grad_buffer
from ..memory.layout import aligned, zeros_shared

Array = np.ndarray[Any, np.dtype[Any]]


class Shared(NamedTuple):
    """What another process needs of a flat; it receives the arrays as views of the same memory."""

    parameter: Array
    state: dict[str, Array]
    steps: int  # of the optimizer so far
    starts: list[int]  # of the parameters; the receiver compares them with its own


def shard_start(count: int, itemsize: int, rank: int, ranks: int) -> int:
    """The index at which the shard of `rank` begins."""
    line = aligned(1, itemsize)
    lines = aligned(count, itemsize) // line
    return min(count, lines * rank // ranks * line)


class Shards:
    """One optimizer's flat arrays, which the ranks share.

    Attributes:
        gradients: for each flat (ranks, size): all ranks' gradients, in shared memory.
        initial_steps: the optimizer's steps before this run, for each flat.
    """

    def __init__(
        self, optimizer: Any, gradients: list[Array], shared: list[Shared] | None = None
    ) -> None:
        self.optimizer = optimizer
        self.flats = optimizer.flats
        self.gradients = gradients
        if shared is not None:
            self.use_shared(shared)
        self.initial_steps = [int(flat.steps.max(initial=0)) for flat in self.flats]
        self.n_steps = 0  # of this run

    def shared(self) -> list[Shared]:
        """The flats for other processes, which call `use_shared`."""
        return [
            Shared(flat.parameter, dict(flat.state), before + self.n_steps, list(flat.starts))
            for flat, before in zip(self.flats, self.initial_steps, strict=True)
        ]

    def use_shared(self, shared: list[Shared]) -> None:
        """Makes this process's optimizer use the memory of the one of which it is a copy."""
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
                    f"strides {flat.parameter.strides}, call p.data = p.data.contiguous()"
                )
            out.append(zeros_shared((ranks, aligned(size, dtype.itemsize)), dtype))
        return out

    def use_grad_buffers(self, rank: int) -> None:
        """Makes backward write this process's gradients into its row."""
        for flat, rows in zip(self.flats, self.gradients, strict=True):
            for p in flat.tensors:
                p.grad = None
            flat.take_gradients(rows[rank, : flat.parameter.size])

    def set_steps(self, n: int) -> None:
        """Sets the step counts of this process's optimizer to n steps of this run."""
        self.n_steps = n
        self.optimizer._opt_called = self.optimizer._opt_called or n > 0  # schedulers check it
        for i, before in enumerate(self.initial_steps):
            if before + n:
                self.optimizer.step_range(i, 0, 0, before + n)

    def scale(self, loss: Any) -> Any:
        """The loss itself: there is no GradScaler for shared weights."""
        return loss

    def clear_gradients(self) -> None:
        for flat in self.flats:
            for p in flat.tensors:
                p.accumulate_grad.grad = None

    def complete_gradients(self) -> None:
        """Copies gradients that are not in their grad buffers (held or assigned elsewhere) into the
        row; a missing gradient becomes zero.
        """
        for flat in self.flats:
            for i, p in enumerate(flat.tensors):
                g = p.accumulate_grad.grad
                if g is None:
                    flat.part(flat.gradient, i)[...] = 0  # unused in this step
                elif not in_grad_buffer(p.accumulate_grad, g.array):
                    flat.part(flat.gradient, i).reshape(p.array.shape)[...] = g.array

    def range(self, i: int, rank: int) -> tuple[int, int]:
        flat, ranks = self.flats[i].parameter, len(self.gradients[i])
        begin, end = (shard_start(flat.size, flat.itemsize, r, ranks) for r in (rank, rank + 1))
        return begin, end

    def reduce(self, rank: int) -> None:
        """Sums the rank's shard of all gradients into its row. Copies: none."""
        for i, rows in enumerate(self.gradients):
            begin, end = self.range(i, rank)
            if len(rows) > 1 and begin < end:
                native.reduce_into(rows[rank][begin:end], [row[begin:end] for row in rows], "sum")

    def update(self, rank: int) -> None:
        self.n_steps += 1
        for i, before in enumerate(self.initial_steps):
            self.optimizer.step_range(i, *self.range(i, rank), before + self.n_steps)

    def arrays(self) -> list[Array]:
        """The weights and the optimizer's state: the arrays that are shared and in a snapshot."""
        out = []
        for flat in self.flats:
            out += [flat.parameter, *(x for x in flat.state.values() if isinstance(x, np.ndarray))]
        return out


class FullOptimizer:
    """Replaces Shards in a single process: the full optimizer."""

    def __init__(self, optimizer: Any, scaler: Any = None) -> None:
        self.optimizer = optimizer
        self.scaler = scaler

    def scale(self, loss: Any) -> Any:
        """The loss, multiplied by the scaler's factor if there is one."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def clear_gradients(self) -> None:
        self.optimizer.zero_grad()

    def complete_gradients(self) -> None:
        pass

    def reduce(self, rank: int) -> None:
        pass

    def update(self, rank: int) -> None:
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()


class Snapshot:
    """A private copy of the weights and the optimizer's state at one step. Copies: one."""

    def __init__(self, step: int, shards: Shards, buffers: list[Array]) -> None:
        self.step = step
        self.sources = [*shards.arrays(), *buffers]
        self.copies = [x.copy() for x in self.sources]

    def copy_from_shards(self, step: int) -> None:
        self.step = step
        for source, copy in zip(self.sources, self.copies, strict=True):
            np.copyto(copy, source)

    def restore(self) -> int:
        for source, copy in zip(self.sources, self.copies, strict=True):
            np.copyto(source, copy)
        return self.step
