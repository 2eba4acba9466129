"""Objects of other libraries as data sets: frames and tables have no rows by index, and PyTorch's
`TensorDataset` no batches.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from shmtensor.autograd import wrap
from shmtensor.other_names import foreign_module
from shmtensor.tensor import Tensor
from shmtensor.tensor.foreign_arrays import as_library, as_numpy

from .dataset import Dataset, Subset, fetch_samples
from .loader.batch_block import gather_rows
from .tensor_dataset import Rows, first_part

__all__ = ["BatchesOfTensors", "ColumnDataset", "SubsetOfFrame", "as_dataset", "in_batches"]

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
        return Rows([wrap(part)], len(indices), first_part)


class SubsetOfFrame(Subset[Any]):
    """A `Subset` of a frame, table or column, whose rows are copied into shared memory.

    Its indices are those that the subset has when a batch is made; a worker gets those of the
    epoch's start, without the frame.

    Args:
        subset: of this package or of PyTorch.
        rows: the data set of the rows.
    """

    def __init__(self, subset: Any, rows: Any) -> None:
        self.subset = subset
        self.dataset = rows

    @property
    def indices(self) -> Sequence[int]:  # type: ignore[override]
        """Those of the subset."""
        indices: Sequence[int] = self.subset.indices
        return indices

    def __reduce__(self) -> Any:
        return Subset, (self.dataset, self.indices)


class BatchesOfTensors(Dataset[Any]):
    """A `TensorDataset` of PyTorch, or a `Subset` of one, with a batch gathered in one call.

    Tensors, indices and the subset's data set are read for each batch. Samples come one by one if
    a tensor has no view as an array, requires grad, or is of a subclass.

    Args:
        dataset: the data set.

    Copies: one (column to the batch's block).
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The samples of `indices`, gathered into one block; see `Rows`."""
        dataset, rows = self.dataset, indices
        while is_subset(dataset):
            rows = [dataset.indices[row] for row in rows]
            dataset = dataset.dataset
        arrays = views_of(dataset.tensors) if is_tensor_dataset(dataset) else None
        if arrays is None:
            return fetch_samples(self.dataset, indices)
        try:
            columns = gather_rows(arrays, rows)
        except (TypeError, ValueError):  # the indices are slices or lists, which PyTorch takes
            return fetch_samples(self.dataset, indices)
        return Rows([as_library(column, "torch") for column in columns], len(rows))


def as_dataset(dataset: Any) -> Any:
    """The data set itself, or one whose samples are its rows: of a DataFrame of pandas or polars,
    an Arrow table (rows are dicts), a column of these, or a `Subset` of any of them.
    """
    for base in type(dataset).__mro__:
        name = (base.__module__.partition(".")[0], base.__name__)
        if name in FRAMES:
            from .datasets.table import TableDataset

            return TableDataset(dataset)
        if name in COLUMNS:
            return ColumnDataset(dataset)
    if is_subset(dataset):
        rows = as_dataset(dataset.dataset)
        if rows is not dataset.dataset:
            return SubsetOfFrame(dataset, rows)
    return dataset


def in_batches(dataset: Any) -> Any:
    """The data set for `default_collate`: itself, or one that gathers the batches of PyTorch's
    `TensorDataset` or a `Subset` of it."""
    inner = dataset
    while is_subset(inner):
        inner = inner.dataset
    return BatchesOfTensors(dataset) if is_tensor_dataset(inner) else dataset


def is_subset(dataset: Any) -> bool:
    """Whether it is a `Subset` of this package or of PyTorch, and of no subclass."""
    return type(dataset) in (Subset, getattr(foreign_module("torch.utils.data"), "Subset", None))


def is_tensor_dataset(dataset: Any) -> bool:
    """Whether it is a `TensorDataset` of PyTorch, and of no subclass."""
    of_torch: Any = foreign_module("torch.utils.data")
    return type(dataset) is getattr(of_torch, "TensorDataset", None)


def views_of(tensors: Sequence[Any]) -> list[Any] | None:
    """Arrays over the memory of these tensors of PyTorch; None if one has no view, requires grad,
    or is of a subclass."""
    plain: Any = sys.modules["torch"].Tensor
    if any(type(t) is not plain or t.requires_grad or t.is_conj() or t.is_neg() for t in tensors):
        return None
    try:
        return [as_numpy(tensor) for tensor in tensors]
    except TypeError:
        return None
