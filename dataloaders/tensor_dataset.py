"""A dataset of columns: tensors whose first dimension counts the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from shmtensor.autograd import wrap
from shmtensor.tensor import Tensor
from shmtensor.tensor.from_data import as_tensor

from .dataset import Dataset
from .loader.batch_block import gather_rows

__all__ = ["Rows", "TensorDataset", "as_dict", "first_part"]


class Rows(Sequence[Any]):
    """Samples gathered at once: a sequence of samples over columns that are already batched.

    A dataset's `__getitems__` returns it to spare the loader a copy: `default_collate` takes the
    columns as they are, for instance arrays of one shared block (`allocate_parts`). Indexing gives
    single samples; another `collate_fn` gets a list of them.

    Parameters
    ----------
    columns : list
        Tensors, or lists of other values; each has a first dimension of `count`.
    count : int
        How many samples there are.
    pack : callable, optional
        Makes a sample, and the batch, from the list of their parts (`tuple` for a sample and `list`
        for the batch if None, as `default_collate` does for tuples).

    Examples
    --------
    >>> from shmtensor.dataloaders import Rows
    >>> rows = Rows([st.arange(3), ["a", "b", "c"]], 3)
    >>> rows[1], len(rows)
    ((tensor(1), 'b'), 3)
    """

    columns: list[Any]

    def __init__(
        self, columns: list[Any], count: int, pack: Callable[[list[Any]], Any] | None = None
    ) -> None:
        self.columns = columns
        self.pack = pack
        self._count = count

    def batch(self) -> Any:
        """The batch of all samples."""
        return list(self.columns) if self.pack is None else self.pack(list(self.columns))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(f"Rows: index is out of range: {index} of {self._count} samples")
        parts = (column[index] for column in self.columns)
        return tuple(parts) if self.pack is None else self.pack(list(parts))

    def __iter__(self) -> Iterator[Any]:
        if self.pack is None:
            return zip(*self.columns, strict=True)
        return (self.pack(list(parts)) for parts in zip(*self.columns, strict=True))


def first_part(parts: list[Any]) -> Any:
    """For `Rows.pack`: the single part of a sample that is neither tuple nor dict."""
    return parts[0]


def as_dict(names: list[str], parts: list[Any]) -> dict[str, Any]:
    """For `Rows.pack`, with the names of the parts."""
    return dict(zip(names, parts, strict=True))


def in_shared_memory(array: Any) -> Tensor:
    """An array as a tensor in shared memory. Copies: none if it is there, else one."""
    tensor = as_tensor(array)
    return tensor if tensor.is_shared() else tensor.clone()


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of row i of each tensor.

    Workers of any start method get columns in shared memory as handles, not copies, and a loader
    gathers a batch of all columns in one call, straight into the batch's block; one of CUDA tensors
    on their GPU.

    Parameters
    ----------
    *tensors : Tensor or ndarray
        Of the same first dimension.

    See Also
    --------
    StackDataset, DataLoader

    Notes
    -----
    Copies: none for tensors (those over foreign memory are copied when they are sent to a spawned
    worker); one for NumPy arrays, into shared memory.

    Examples
    --------
    >>> from shmtensor.dataloaders import TensorDataset
    >>> dataset = TensorDataset(st.arange(6.).reshape(3, 2), st.tensor([0, 1, 0]))
    >>> dataset[1], len(dataset)
    ((tensor([2., 3.]), tensor(1)), 3)
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor | np.ndarray[Any, Any]) -> None:
        if not tensors:
            raise ValueError("TensorDataset: at least one tensor is needed: got none")
        columns = tuple(t if isinstance(t, Tensor) else in_shared_memory(t) for t in tensors)
        for i, column in enumerate(columns):
            if not column.ndim or len(column) != len(columns[0]):
                raise ValueError(
                    "TensorDataset: first dimensions differ: "
                    f"{tuple(columns[0].shape)} and {tuple(column.shape)} (tensor {i})"
                )
        self.tensors = columns

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: Sequence[int]) -> Sequence[tuple[Tensor, ...]]:
        """The samples of `indices`, gathered into one block; see `Rows`."""
        if any(tensor.requires_grad for tensor in self.tensors):
            return [self[index] for index in indices]
        if not all(tensor.is_cpu for tensor in self.tensors):
            index = np.asarray(indices)
            return Rows([tensor[index] for tensor in self.tensors], len(indices))
        columns = gather_rows([tensor.array for tensor in self.tensors], indices)
        return Rows([wrap(column) for column in columns], len(indices))

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __repr__(self) -> str:
        columns = (f"{tuple(t.shape[1:])} {str(t.dtype).rpartition('.')[2]}" for t in self.tensors)
        return f"TensorDataset({len(self)} samples of {', '.join(columns)})"
