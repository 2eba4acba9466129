"""Batches: the part of a rank, the number of samples, and moving them into shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..device import Device
from ..tensor import Tensor


def apply(function: Callable[[Tensor], Any], batch: Any) -> Any:
    """The same nested tuples, lists and dictionaries, with `function(x)` for each tensor x."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, dict):
        return {key: apply(function, value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(apply(function, value) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(apply(function, value) for value in batch)
    return batch


def samples_in(batch: Any) -> int:
    """The size of the first dimension of the first tensor that is not 0-d."""
    sizes: list[int] = []
    apply(lambda x: sizes.extend(x.shape[:1]), batch)
    if not sizes:
        raise TypeError(
            f"Trainer: the batch has no tensor with a dimension: {type(batch).__name__}"
        )
    return sizes[0]


def part_of(batch: Any, rank: int, ranks: int) -> tuple[Any, int, int]:
    """The rank's samples (views of the batch), their number, and the number of all ranks' samples.

    Copies: none.
    """
    total = samples_in(batch)
    if ranks == 1:
        return batch, total, total
    begin, end = total * rank // ranks, total * (rank + 1) // ranks
    return apply(lambda x: x[begin:end] if x.ndim else x, batch), end - begin, total


def on_device(batch: Any, device: Device) -> Any:
    """The batch with its tensors on a device. Copies: one of those that are elsewhere."""
    return apply(lambda x: x.to(device, non_blocking=True), batch)


def on_host(state: Any) -> Any:
    """A state with its tensors on the host. Copies: one of those on a GPU."""
    return apply(lambda x: x.detach().cpu(), state)


class Counter:
    """Counts tensor bytes that were copied for another process."""

    def __init__(self) -> None:
        self.nbytes = 0


def share(batch: Any, counter: Counter) -> Any:
    """The batch with arrays as tensors, all in shared memory. Copies: one of each tensor that is
    not there already.
    """

    def move(x: Tensor) -> Tensor:
        if x.is_cuda:
            counter.nbytes += x.array.nbytes
            return x.detach().cpu()
        if native.is_shared(x.array) or not x.array.nbytes:
            return x
        counter.nbytes += x.array.nbytes
        return x.detach().clone()

    return apply(move, as_tensors(batch))


def as_tensors(batch: Any) -> Any:
    if isinstance(batch, np.ndarray):
        from ..tensor.from_data import from_numpy

        return from_numpy(batch)
    if isinstance(batch, dict):
        return {key: as_tensors(value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(as_tensors(value) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(as_tensors(value) for value in batch)
    return batch
