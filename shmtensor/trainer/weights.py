"""How the optimizer updates the weights: in one process, or one copy that all ranks share.

| | who updates |
|---|---|
| `OneProcess` | the only rank, by `optimizer.step()` |
| `Sharded` | each rank its shard of the optimizer's flat arrays, by one kernel call |
| `ByRankZero` | rank 0, by `optimizer.step()`: for hooks, and optimizers without flat arrays |

`Sharded` is the default of several ranks, because the update is limited by memory bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..autograd import wrap
from ..memory.layout import aligned
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from ..optim import optimizer as optimizers
from ..optim.flat.flat_optimizer import FlatOptimizer
from .gradients import Gradients, parameters_of
from .progress_board import ProgressBoard

Array = np.ndarray[Any, np.dtype[Any]]


def is_flat(optimizer: Any) -> bool:
    """Whether parts of its arrays can be updated apart: nothing is called before or after, and the
    state is in its flats, no tensors of the program."""
    hooks = (
        optimizers._global_pre_hooks,
        optimizers._global_post_hooks,
        optimizer._table("_optimizer_step_pre_hooks"),
        optimizer._table("_optimizer_step_post_hooks"),
    )
    return (
        isinstance(optimizer, FlatOptimizer)
        and type(optimizer).step is FlatOptimizer.step
        and not any(hooks)
        and not optimizer._outside
        and not any(group["differentiable"] for group in optimizer.param_groups)
    )


def shard_start(count: int, itemsize: int, rank: int, ranks: int) -> int:
    """The index at which the shard of `rank` begins."""
    line = aligned(1, itemsize)
    lines = aligned(count, itemsize) // line
    return min(count, lines * rank // ranks * line)


class Clip(NamedTuple):
    """Limits of the gradients, or None: of their common norm, and of each element."""

    norm: float | None = None
    value: float | None = None


def limited(factor: float, squares: Array, limit: float) -> float:
    """The factor, made smaller where the norm of the gradients times it is larger than `limit`.

    Args:
        squares: sums of squares, which add up to that of all gradients.

    Source: the coefficient is that of `clip_grad_norm_`.
    """
    norm = math.sqrt(squares.sum()) * factor
    return factor * min(limit / (norm + 1e-6), 1.0)  # NaN stays NaN


class OneProcess:
    """The whole optimizer, in the only rank."""

    def __init__(self, optimizer: Any, scaler: Any = None, clip: Clip = Clip()) -> None:  # noqa: B008
        self.optimizer = optimizer
        self.scaler = scaler
        self.clip = clip

    def scale(self, loss: Any) -> Any:
        """The loss, multiplied by the scaler's factor if there is one."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def clear(self) -> None:
        self.optimizer.zero_grad()

    def complete(self, is_zero: bool = False) -> int:
        """Called after backward; returns the number of missing gradients.

        Args:
            is_zero: all gradients count as zeros.
        """
        return 0

    def prepare(
        self, board: ProgressBoard, factor: float, barrier: Callable[[], None] | None
    ) -> float:
        """What all ranks do together before `update`; returns the factor for it, which also limits
        the gradients' norm if the ranks find that together.

        Args:
            barrier: None: the other ranks' sums are on the board.
        """
        return factor

    def update(self, missing: Array, factor: float) -> None:
        """Updates the weights: called by all ranks when all gradients are complete.

        Args:
            missing: how many gradients each rank misses.
            factor: by which the gradients are multiplied.
        """
        norm, value = self.clip
        if self.scaler is not None and all(p.grad is None for p in parameters_of(self.optimizer)):
            return  # the scaler has scaled nothing
        if factor != 1.0 or norm is not None or value is not None:
            parameters = parameters_of(self.optimizer)
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            if factor != 1.0:
                for p in parameters:
                    if p.grad is not None:
                        p.grad.mul_(factor)
            if norm is not None:
                clip_grad_norm_(parameters, norm)
            if value is not None:
                clip_grad_value_(parameters, value)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()


class ByRankZero(OneProcess):
    """Rank 0 sums the gradients, and calls `optimizer.step()`."""

    def __init__(self, optimizer: Any, scaler: Any, gradients: Gradients, clip: Clip) -> None:
        super().__init__(optimizer, scaler, clip)
        self.gradients = gradients
        self.clear, self.complete = gradients.clear, gradients.complete  # type: ignore[method-assign]

    def reduce(self, factor: float) -> None:
        for i, part in enumerate(self.gradients.parts):
            self.gradients.reduce(i, 0, part.size, factor)

    def update(self, missing: Array, factor: float) -> None:
        gradients = self.gradients
        if gradients.rank:
            return
        self.reduce(factor)
        places = iter(gradients.slots)
        for i, indices in enumerate(gradients.indices(missing)):
            part = gradients.parts[i]
            used = range(len(part.tensors)) if indices is None else set(indices)
            for number, p in enumerate(part.tensors):
                _, place = next(places)
                if number in used:
                    p.grad = wrap(place)
        super().update(missing, 1.0)


class SharedFlat(NamedTuple):
    """What another process needs of a flat; it receives the arrays as views of the same memory."""

    parameter: Array
    state: dict[str, Array]
    steps: Array  # of each parameter so far
    scalars: dict[str, Array]
    starts: list[int]  # of the parameters; the receiver compares them with its own


class Sharded(OneProcess):
    """A rank's share of the update of one copy of weights and state.

    ```
    flat i:   parameter  |....rank 0....|....rank 1....|     one copy; so is each state array
    ```

    Shards begin at multiples of a cache line: no two ranks write the same line. Each rank counts
    the steps in its own optimizer.
    """

    def __init__(
        self,
        optimizer: Any,
        gradients: Gradients,
        ranks: int,
        shared: list[SharedFlat] | None,
        clip: Clip = Clip(),  # noqa: B008
    ) -> None:
        super().__init__(optimizer, None, clip)
        self.gradients = gradients
        self.clear, self.complete = gradients.clear, gradients.complete  # type: ignore[method-assign]
        self.flats = [part.flat for part in gradients.parts]
        if shared is not None:
            self.use_shared(shared)
        self.ranges: list[list[tuple[int, int]]] = []
        for flat in self.flats:
            size, itemsize = flat.parameter.size, flat.parameter.itemsize
            starts = [shard_start(size, itemsize, rank, ranks) for rank in range(ranks + 1)]
            self.ranges.append(list(pairwise(starts)))
        self.runs: list[Any] = []  # of the present step
        self.factor = 1.0

    @staticmethod
    def shared(optimizer: Any) -> list[SharedFlat]:
        """The flats for other processes, which call `use_shared`."""
        return [
            SharedFlat(
                flat.parameter, dict(flat.state), flat.steps.copy(), dict(flat.scalars),
                list(flat.starts),
            )
            for flat in optimizer.flats
        ]  # fmt: skip

    def use_shared(self, shared: list[SharedFlat]) -> None:
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
            for name, row in each.scalars.items():
                flat.scalars[name] = np.array(row)

    def prepare(
        self, board: ProgressBoard, factor: float, barrier: Callable[[], None] | None
    ) -> float:
        """Each rank sums the squares of its shard, and writes them on the board. The rows stay as
        they are, so that a rank that dies before its update leaves nothing torn.
        """
        if self.clip.norm is None:
            return factor
        if barrier is not None:
            rank = self.gradients.rank
            board.squares[rank] = sum(
                self.gradients.sum_of_squares(i, *self.ranges[i][rank])
                for i in range(len(self.flats))
            )
            barrier()
        return limited(factor, board.squares, self.clip.norm)

    def update(self, missing: Array, factor: float) -> None:
        indices = self.gradients.indices(missing)
        self.factor = factor
        self.runs = [
            [] if which == [] else self.optimizer.count_step(i, which)
            for i, which in enumerate(indices)
        ]
        self.optimizer._opt_called = True  # schedulers check it
        self.update_shard(self.gradients.rank)

    def update_shard(self, rank: int) -> None:
        """Updates a shard: this rank's, or that of one that has died before it began."""
        for i, runs in enumerate(self.runs):
            begin, end = self.ranges[i][rank]
            self.gradients.reduce(i, begin, end, self.factor, self.clip.value)
            self.optimizer.step_part(i, runs, begin, end)

    def state(self) -> list[Array]:
        """The optimizer's state, which the ranks share."""
        return [x for flat in self.flats for x in flat.state.values()]

    def counts(self) -> list[Array]:
        """Each rank has its own: the steps of each parameter, and the rule's scalars."""
        return [x for flat in self.flats for x in (flat.steps, *flat.scalars.values())]
