"""Columns by name: mappings of arrays, pandas frames, Arrow tables, CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.autograd import wrap
from shmtensor.errors import printable
from shmtensor.shared_containers import SharedList
from shmtensor.tensor import Tensor

from ..dataset import Dataset
from ..loader.batch_block import allocate_parts, checked_rows, gather_rows
from ..tensor_dataset import Rows, TensorDataset, as_dict
from .in_memory_images import Array, PathLike, shared

MISSING = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"}
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class TableDataset(Dataset[Any]):
    """Sample i is row i of a table: a dict of its columns' values.

    Columns of numbers are tensors in shared memory, others a `SharedList`: workers get handles. A
    batch is a dict of tensors `(N,)`, and of lists for other columns.

    Parameters
    ----------
    table : mapping, DataFrame or Arrow table
        A mapping is one of names to arrays or lists.
    columns : sequence of str, optional
        Which ones, in this order; all if None.

    Raises
    ------
    KeyError
        A column that the table does not have.
    ValueError
        Columns of different lengths, or none.

    Notes
    -----
    Missing values are nan in columns of numbers (integers then become float64), and None in others.
    Dates are int64 nanoseconds since 1970.

    Copies: one (table to shared memory, a column at a time), one (to the batch's block).

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import TableDataset
    >>> table = TableDataset({"age": [31, 44], "name": ["Ada", "Kurt"]})
    >>> table[1]
    {'age': tensor(44), 'name': 'Kurt'}
    >>> table.tensors(["age"])[0][0]
    tensor([31.])
    """

    def __init__(self, table: Any, columns: Sequence[str] | None = None) -> None:
        where = type(self).__name__
        names = names_of(table)
        for name in columns or ():
            if name not in names:
                raise KeyError(f"{where}: no such column: {name!r}, the table has {names}")
        names = names if columns is None else list(columns)
        data = {name: share_column(values_of(table, name)) for name in names}
        if not data:
            raise ValueError(f"{where}: at least one column is needed: got none")
        lengths = {name: len(column) for name, column in data.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"{where}: columns differ in length: {lengths}")
        self.columns: dict[str, Any] = data
        self.length = next(iter(lengths.values()))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -self.length <= index < self.length:
            raise IndexError(
                f"{type(self).__name__}: index is out of range: {index} of {self.length} rows"
            )
        return {name: column[index] for name, column in self.columns.items()}

    def __getitems__(self, indices: Sequence[int]) -> Sequence[dict[str, Any]]:
        """The rows `indices`: columns of numbers gathered into one block."""
        numbers = [c.array for c in self.columns.values() if isinstance(c, Tensor)]
        if not numbers:
            checked_rows(type(self).__name__, indices, self.length, "rows")
        gathered = iter(gather_rows(numbers, indices) if numbers else ())
        columns = [
            wrap(next(gathered)) if isinstance(c, Tensor) else [c[i] for i in indices]
            for c in self.columns.values()
        ]
        return Rows(columns, len(indices), partial(as_dict, list(self.columns)))

    def tensors(
        self, features: Sequence[str], target: str | None = None, dtype: Any = np.float32
    ) -> TensorDataset:
        """The same rows as samples `(features,)`, or (`(features,)`, target).

        Parameters
        ----------
        features : sequence of str
            Columns of numbers.
        target : str, optional
            A column of numbers, which keeps its dtype.
        dtype : dtype, optional
            Of the features.

        Returns
        -------
        TensorDataset
            Copies: one (into shared memory).

        Raises
        ------
        KeyError
            No such column.
        TypeError
            A column that does not hold numbers.

        Examples
        --------
        >>> from shmtensor.dataloaders.datasets import TableDataset
        >>> table = TableDataset({"x": [1, 2], "y": [3, 4], "label": [0, 1]})
        >>> table.tensors(["x", "y"], target="label")[1]
        (tensor([2., 4.]), tensor(1))
        """
        for name in (*features, *(() if target is None else (target,))):
            if name not in self.columns:
                raise KeyError(f"tensors: no such column: {name!r}, there are {list(self.columns)}")
            if not isinstance(self.columns[name], Tensor):
                raise TypeError(f"tensors: the column does not hold numbers: {name!r}")
        (x,) = allocate_parts([((len(self), len(features)), np.dtype(dtype))])
        for i, name in enumerate(features):
            x[:, i] = self.columns[name].array
        return TensorDataset(wrap(x), *(() if target is None else (self.columns[target],)))

    def __repr__(self) -> str:
        dtypes = ", ".join(
            f"{printable(name)}: {column.dtype.name if isinstance(column, Tensor) else 'object'}"
            for name, column in self.columns.items()
        )
        return f"{type(self).__name__}({self.length} rows; {dtypes})"


class CSVDataset(TableDataset):
    r"""A CSV file with a header line, by columns.

    A column of whole numbers is int64, one of numbers float64, one of true and false bool, others
    are strings. Samples are those of `TableDataset`.

    Parameters
    ----------
    path : path
        The file; compressed (.gz and others) with pyarrow only.
    columns : sequence of str, optional
        Which ones; all if None.
    delimiter : str, optional
        Between fields.
    engine : str, optional
        "python", the standard library; or "pyarrow", which is faster, recognises dates, and leaves
        threads running (Python 3.12 and newer then warn of a fork).
    encoding : str, optional
        Of the text.

    Raises
    ------
    ValueError
        A line has more or fewer fields than the header, or is not text; says which.
    ModuleNotFoundError
        `engine="pyarrow"` where it is not installed.

    See Also
    --------
    TableDataset, ParquetDataset

    Notes
    -----
    Copies: those of `TableDataset`; the "python" engine holds all fields as strings meanwhile.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import CSVDataset
    >>> with open("people.csv", "w") as file:
    ...     print("name,age", "Ada,36", "Kurt,71", sep="\n", file=file)
    >>> CSVDataset("people.csv")[1]
    {'name': 'Kurt', 'age': tensor(71)}
    """

    def __init__(
        self,
        path: PathLike,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        engine: str = "python",
        encoding: str = "utf-8",
    ) -> None:
        if engine not in ("pyarrow", "python"):
            raise ValueError(f"CSVDataset: engine is not 'pyarrow' or 'python': {engine!r}")
        if engine == "python":
            super().__init__(read_csv(Path(path), delimiter, encoding, columns), columns)
            return
        arrow = import_pyarrow("CSVDataset", "pyarrow.csv")
        try:
            table = arrow.read_csv(
                str(path),
                read_options=arrow.ReadOptions(encoding=encoding),
                parse_options=arrow.ParseOptions(delimiter=delimiter),
            )
        except ValueError as error:  # Arrow's errors are its own kind of ValueError
            raise ValueError(f"CSVDataset: {path}: {printable(error)}") from error
        super().__init__(table, columns)


# ------------------------------------------------------------------ columns
def names_of(table: Any) -> list[str]:
    if isinstance(table, Mapping):
        return list(table)
    names = getattr(table, "column_names", None)  # an Arrow table
    if names is None:
        names = getattr(table, "columns", None)  # a frame of pandas or a similar library
    if names is None:
        raise TypeError(
            f"TableDataset: neither a mapping, a frame nor a table: {type(table).__name__}"
        )
    return list(names)


def values_of(table: Any, name: str) -> Any:
    """A column, as an array or list."""
    column = table[name]
    if hasattr(column, "to_pylist"):  # Arrow, which has its own types
        if str(column.type).startswith("dictionary"):
            column = column.cast(column.type.value_type)
        kind = str(column.type)
        if kind == "null":
            return np.full(len(column), np.nan)
        if kind.startswith(("date", "timestamp")):
            column = column.cast("timestamp[ns]")
        if is_numeric(kind) and kind != "bool":
            return column.to_numpy()
        return column.to_pylist()
    if isinstance(column, Tensor) or not hasattr(column, "to_numpy"):
        return column
    dtype: Any = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) or not hasattr(column, "isna"):
        return column.to_numpy()
    # One of pandas's own dtypes, whose missing values are not nan.
    if dtype.kind in "iufb" and column.isna().any():
        return column.to_numpy(np.float64, na_value=np.nan)
    if dtype.kind in "iufb":
        return column.to_numpy(dtype.numpy_dtype)
    return (
        column.to_numpy("M8[ns]") if dtype.kind == "M" else column.to_numpy(object, na_value=None)
    )


def is_numeric(kind: str) -> bool:
    """Whether values of this Arrow type become a tensor."""
    names = ("bool", "int", "uint", "float", "double", "halffloat", "date", "timestamp", "null")
    return kind.startswith(names)


def share_column(values: Any) -> Any:
    """A column in shared memory: numbers as a tensor, other values as a SharedList."""
    if isinstance(values, Tensor):
        return values if values.is_shared() else shared(np.asarray(values.array))
    if isinstance(values, SharedList):
        return values
    values = values if isinstance(values, np.ndarray) else list(values)
    array = as_numbers(values)
    if array is not None:
        return shared(array)
    return SharedList(None if isinstance(v, float) and v != v else v for v in values)


def as_numbers(values: Array | list[Any]) -> Array | None:
    """Values as an array of numbers; None if they are not numbers."""
    if not isinstance(values, np.ndarray):
        return list_as_numbers(values)
    if values.ndim == 0:
        raise ValueError("TableDataset: a column is not a sequence: got a single value")
    if values.dtype.kind == "M":
        return values.astype("M8[ns]").astype(np.int64)
    if values.dtype.kind in "biufc":
        return np.asarray(values)
    return list_as_numbers(values.tolist()) if values.dtype.kind == "O" else None


def list_as_numbers(values: list[Any]) -> Array | None:
    """An array of values that are all numbers or missing (None, nan); else None."""
    kinds = {type(value) for value in values}
    has_gaps = type(None) in kinds
    kinds.discard(type(None))
    if not kinds or not all(issubclass(kind, (int, float, np.number, np.bool_)) for kind in kinds):
        return None
    if not has_gaps:
        return np.asarray(values)
    return np.asarray([np.nan if value is None else value for value in values], np.float64)


# ------------------------------------------------------------------ files
def read_csv(
    path: Path, delimiter: str, encoding: str, selected: Iterable[str] | None
) -> dict[str, Any]:
    """The columns of a CSV file by the standard library."""
    with path.open(newline="", encoding=encoding) as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        rows = []
        try:
            header = next(lines)
            for row in lines:
                if row and len(row) != len(header):
                    raise ValueError(
                        f"CSVDataset: {path}: line {lines.line_num} has {len(row)} fields, the "
                        f"header {len(header)}"
                    )
                if row:
                    rows.append(row)
        except StopIteration:
            raise ValueError(f"CSVDataset: {path}: the file is empty") from None
        except (csv.Error, UnicodeError) as error:
            raise ValueError(
                f"CSVDataset: {path}: line {lines.line_num}: {printable(error)}"
            ) from error
    names = set(header if selected is None else selected)
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return {n: parse_column(list(c)) for n, c in zip(header, columns, strict=True) if n in names}


def parse_column(fields: list[str]) -> Any:
    """Fields as int64, float64 or bool where all of them are, else as they are."""
    gaps = [field in MISSING for field in fields]
    if all(gaps):
        return np.full(len(fields), np.nan) if fields else np.empty(0)
    present = [field for field, gap in zip(fields, gaps) if not gap]
    if all(field in TRUTH for field in present) and not any(gaps):
        return np.array([TRUTH[field] for field in fields])
    try:
        if not any(gaps):
            return np.array([int(field) for field in fields], np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        return np.array([np.nan if gap else float(f) for f, gap in zip(fields, gaps)])
    except ValueError:
        return fields


def import_pyarrow(where: str, name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{where}: pyarrow is not installed: pip install pyarrow (or shmtensor's extra "
            "'tables')"
        ) from error
