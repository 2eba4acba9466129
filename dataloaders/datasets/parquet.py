"""ParquetDataset: columns of Parquet files, read a row group of a column at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from shmtensor.autograd import wrap
from shmtensor.errors import printable
from shmtensor.shared_containers import SharedList

from ..transforms.compose import empty
from .in_memory_images import PathLike
from .table import TableDataset, as_numbers, import_pyarrow, is_numeric, values_of


class ParquetDataset(TableDataset):
    """Columns of Parquet files, one after another; needs pyarrow.

    Samples are those of `TableDataset`. Only the requested columns are read, from the mapped files,
    one row group of one column at a time: besides the result this is all the memory needed.

    Parameters
    ----------
    paths : path or sequence of path
        A file, or several of the same columns (numbers of several types are promoted as NumPy
        does).
    columns : sequence of str, optional
        Which ones are read; all if None.

    Raises
    ------
    ModuleNotFoundError
        pyarrow is not installed.
    KeyError
        A column that the files do not have.
    ValueError
        A file is not Parquet, or damaged.

    See Also
    --------
    TableDataset

    Notes
    -----
    Copies: one (decoded row group to shared memory), one (to the batch's block).

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.parquet
    >>> from shmtensor.dataloaders.datasets import ParquetDataset
    >>> pa.parquet.write_table(pa.table({"x": [1.0, 2.0], "y": [0, 1]}), "data.parquet")
    >>> ParquetDataset("data.parquet", ["x"])[1]
    {'x': tensor(2., dtype=shmtensor.float64)}
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
        self.paths = paths
        self.files: list[Any] = []
        schemas = []
        for path in paths:
            with path_in_errors(path):
                file = parquet.ParquetFile(path, memory_map=True)
                self.files.append(file)
                schemas.append(file.schema_arrow)
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
        for path, file in zip(self.paths, self.files, strict=True):
            for group in range(file.num_row_groups):
                with path_in_errors(path):
                    values = values_of(file.read_row_group(group, columns=[name]), name)
                    if len(values) != (rows := file.metadata.row_group(group).num_rows):
                        raise ValueError(f"row group {group} has {len(values)} of {rows} rows")
                yield values

    def __getitem__(self, name: str) -> Any:
        if not self.numeric[name]:
            return SharedList(value for part in self.parts(name) for value in part)
        out, end = empty((self.length,), np.bool_), 0
        for part in self.parts(name):
            values = as_numbers(part)
            if values is None or end + len(values) > self.length:
                raise ValueError(f"ParquetDataset: column {name!r} is not what the schema says")
            dtype = values.dtype if not end else np.promote_types(out.dtype, values.dtype)
            if dtype != out.dtype:  # the first row group, or integers with missing values
                wider = empty(out.shape, dtype)
                wider[:end] = out[:end]
                out = wider
            out[end : end + len(values)] = values
            end += len(values)
        if end != self.length:
            raise ValueError(
                f"ParquetDataset: column {name!r} has {end} values of {self.length} rows"
            )
        return wrap(out)

    def close(self) -> None:
        for file in self.files:
            file.close()


@contextmanager
def path_in_errors(path: str) -> Iterator[None]:
    """Makes a ValueError with the path of whatever Arrow raises for a damaged file."""
    try:
        yield
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except Exception as error:  # Arrow has a class for each, and OSError for damaged metadata
        raise ValueError(
            f"ParquetDataset: {path}: {type(error).__name__}: {printable(error)}"
        ) from error


def value_type(kind: Any) -> str:
    """The name of an Arrow type; for a dictionary type, that of its values."""
    return str(getattr(kind, "value_type", kind)) if "dictionary" in str(kind) else str(kind)
