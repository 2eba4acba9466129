"""SparseBucket: an embedding table whose gradients are sparse tensors. Each rank gathers the rows
of all ranks, and adds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd import wrap
from ...nn import Embedding, EmbeddingBag, Module
from ..collectives.reference import ReduceOp
from ..collectives.sparse_all_reduce import sparse_total
from ..group.process_group import ProcessGroup

if TYPE_CHECKING:
    from ...sparse import SparseTensor

__all__ = ["SparseBucket", "sparse_parameters"]


def sparse_parameters(module: Module) -> Iterator[int]:
    """Ids of the parameters whose gradients will be sparse tensors: of modules with sparse=True."""
    for each in module.modules():
        if isinstance(each, (Embedding, EmbeddingBag)) and each.sparse:
            yield id(each.weight)


class SparseBucket:
    """One parameter, with the methods of Bucket that DistributedDataParallel calls."""

    is_sparse = True
    n_copied = 0

    def __init__(self, parameter: Any) -> None:
        self.parameters = [parameter]
        self.trigger = {id(parameter)}
        self.missing: set[int] = set()

    def reset(self) -> None:
        self.missing = set(self.trigger)

    def allocate_grad_buffers(self) -> None:
        """Does nothing: sparse gradients have no grad buffers."""

    def size(self) -> int:
        return int(self.parameters[0].array.size)

    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.parameters[0].array.dtype
        return dtype

    def gradient(self) -> SparseTensor:
        """This rank's gradient; an empty one if it has none.

        Raises:
            RuntimeError: it is dense.
        """
        from ...sparse import SparseTensor

        p = self.parameters[0]
        if p.grad is None:
            places, numbers = np.empty((1, 0), np.int64), np.empty((0, p.shape[1]), self.dtype())
            empty = SparseTensor(wrap(places), wrap(numbers), tuple(p.shape), True)
            return empty.to(p.device)
        if not p.grad.is_sparse:
            raise RuntimeError(
                "DistributedDataParallel: Expected a sparse gradient: the parameter of shape "
                f"{tuple(p.shape)} belongs to a module with sparse=True, but its gradient is "
                "dense: something else uses it too, leave sparse=False there"
            )
        grad: SparseTensor = p.grad
        return grad

    def average(
        self, group: ProcessGroup, x: SparseTensor, divisor: int | None, dtype: Any
    ) -> SparseTensor:
        """The average of everybody's x: the same bits on all ranks.

        Args:
            divisor: divides the sum; None: the number of ranks.
            dtype: the dtype of the sum; None: that of x.
        """
        cast = x.detach() if dtype is None else x.detach().to(dtype)
        total = sparse_total(cast, ReduceOp.AVG if divisor is None else ReduceOp.SUM, group)
        if divisor is not None:
            total = total / divisor
        return total if dtype is None else total.to(self.dtype())

    def set_gradient(self, total: SparseTensor, used: set[int] | None = None) -> None:
        """Replaces this rank's gradient by the average.

        Args:
            used: ids of the parameters that some rank used; None: all.
        """
        p = self.parameters[0]
        if used is None or id(p) in used:
            p.grad = total

    def reduce(self, group: ProcessGroup, divisor: int | None, dtype: Any) -> None:
        self.set_gradient(self.average(group, self.gradient(), divisor, dtype))

    def reduce_without_gradient(self, group: ProcessGroup, divisor: int | None, dtype: Any) -> None:
        """Takes part without a gradient of its own, as a joined rank does."""
        self.parameters[0].grad = None
        self.reduce(group, divisor, dtype)
