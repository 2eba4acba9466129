"""ParquetDataset: columns of Parquet files, read a row group of a column at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from shmtensor.autograd import wrap
from shmtensor.shared_containers import SharedList

from ..transforms.compose import empty
from .in_memory_images import PathLike
from .table import TableDataset, as_numbers, import_pyarrow, is_numeric, values_of

__all__ = ["ParquetDataset"]


class ParquetDataset(TableDataset):
    """Columns of Parquet files, one after another; needs pyarrow.

    Samples are those of `TableDataset`. Only the requested columns are read, from the mapped files,
    one row group of one column at a time: besides the result this is all the memory needed.

    Args:
        paths: a file, or several of the same columns (numbers of several types are promoted as
            NumPy does).
        columns: which ones are read; all if None.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
        KeyError: a column that the files do not have.
        ValueError: a file is not Parquet.

    Copies: one (decoded row group to shared memory), one (to the batch's block).
    """

    def __init__(
        self, paths: PathLike | Sequence[PathLike], columns: Sequence[str] | None = None
    ) -> None:
        path_list = list(paths) if isinstance(paths, (list, tuple)) else [paths]
        files = Files([str(path) for path in path_list])
        try:
            super().__init__(files, columns)
        finally:
            files.close()


class Files:
    """The files as a table; `__getitem__` reads a column."""

    def __init__(self, paths: list[str]) -> None:
        parquet = import_pyarrow("ParquetDataset", "pyarrow.parquet")
        invalid = import_module("pyarrow").ArrowInvalid
        self.files: list[Any] = []
        for path in paths:
            try:
                self.files.append(parquet.ParquetFile(path, memory_map=True))
            except invalid as error:
                raise ValueError(f"ParquetDataset: {path}: {error}") from error
        schemas = [file.schema_arrow for file in self.files]
        self.column_names = [
            name for name in schemas[0].names if all(name in s.names for s in schemas)
        ]
        self.numeric = {
            name: all(is_numeric(value_type(s.field(name).type)) for s in schemas)
            for name in self.column_names
        }
        self.length = sum(file.metadata.num_rows for file in self.files)

    def parts(self, name: str) -> Iterator[Any]:
        """The values of a column, by row groups."""
        for file in self.files:
            for group in range(file.num_row_groups):
                yield values_of(file.read_row_group(group, columns=[name]), name)

    def __getitem__(self, name: str) -> Any:
        if not self.numeric[name]:
            return SharedList(value for part in self.parts(name) for value in part)
        out, end = empty((self.length,), np.bool_), 0
        for part in self.parts(name):
            values = as_numbers(part)
            assert values is not None
            dtype = values.dtype if not end else np.promote_types(out.dtype, values.dtype)
            if dtype != out.dtype:  # the first row group, or integers with missing values
                wider = empty(out.shape, dtype)
                wider[:end] = out[:end]
                out = wider
            out[end : end + len(values)] = values
            end += len(values)
        return wrap(out)

    def close(self) -> None:
        for file in self.files:
            file.close()


def value_type(kind: Any) -> str:
    """The name of an Arrow type; for a dictionary type, that of its values."""
    return str(getattr(kind, "value_type", kind)) if "dictionary" in str(kind) else str(kind)
