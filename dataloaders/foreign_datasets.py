"""Objects of other libraries as data sets: frames and tables have no rows by index, and PyTorch's
`TensorDataset` no batches.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from shmtensor.autograd import wrap
from shmtensor.tensor import Tensor
from shmtensor.tensor.foreign_arrays import as_library, as_numpy

from .dataset import Dataset, Subset
from .loader.batch_block import gather_rows
from .tensor_dataset import Rows

__all__ = ["ColumnDataset", "RowsOfTensors", "as_dataset"]

FRAMES = {("pandas", "DataFrame"), ("pyarrow", "Table"), ("polars", "DataFrame")}
COLUMNS = {
    ("pandas", "Series"),
    ("pyarrow", "ChunkedArray"),
    ("pyarrow", "Array"),
    ("polars", "Series"),
}


class ColumnDataset(Dataset[Any]):
    """Sample i is value i of a column: a Series of pandas or polars, or an array of Arrow.

    Numbers are a tensor in shared memory, other values a `SharedList`. Missing values are as in
    `TableDataset`.

    Args:
        column: the values.

    Copies: one (into shared memory), one (to the batch's block).
    """

    def __init__(self, column: Any) -> None:
        from .datasets.table import share_column, values_of

        self.column = share_column(values_of({"": column}, ""))

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, index: int) -> Any:
        return self.column[index]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        if not isinstance(self.column, Tensor):
            return [self.column[index] for index in indices]
        (part,) = gather_rows([self.column.array], indices)
        return Rows([wrap(part)], len(indices), _first)


def _first(parts: list[Any]) -> Any:
    return parts[0]


class RowsOfTensors(Dataset[Any]):
    """A `TensorDataset` of PyTorch, with a batch gathered in one call as ours does.

    Args:
        dataset: its tensors lie on the CPU and are dense.

    Copies: one (column to the batch's block).
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    @property
    def tensors(self) -> tuple[Any, ...]:
        """Those of the data set."""
        tensors: tuple[Any, ...] = self.dataset.tensors
        return tensors

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The samples of `indices`, gathered into one block; see `Rows`."""
        tensors = self.tensors
        if any(tensor.requires_grad for tensor in tensors):
            return [self.dataset[index] for index in indices]
        columns = gather_rows([as_numpy(tensor) for tensor in tensors], indices)
        return Rows([as_library(column, "torch") for column in columns], len(indices))


def as_dataset(dataset: Any) -> Any:
    """The data set itself, or one whose samples are its rows: of a DataFrame of pandas or polars,
    an Arrow table (rows are dicts), a column of these, PyTorch's `TensorDataset`, or a `Subset` of
    any of them.
    """
    kind = type(dataset)
    for base in kind.__mro__:
        name = (base.__module__.partition(".")[0], base.__name__)
        if name in FRAMES:
            from .datasets.table import TableDataset

            return TableDataset(dataset)
        if name in COLUMNS:
            return ColumnDataset(dataset)
    of_torch: Any = sys.modules.get("torch.utils.data")
    if kind is getattr(of_torch, "TensorDataset", None):
        return RowsOfTensors(dataset) if has_views(dataset.tensors) else dataset
    if kind in (Subset, getattr(of_torch, "Subset", None)):
        inner = as_dataset(dataset.dataset)
        if inner is not dataset.dataset:
            return Subset(inner, dataset.indices)
    return dataset


def has_views(tensors: Sequence[Any]) -> bool:
    """Whether NumPy can view these tensors of PyTorch without a copy."""
    try:
        return all(as_numpy(t.detach()).ctypes.data == t.data_ptr() for t in tensors)
    except TypeError:
        return False
