"""NpyDataset: rows of memory-mapped `.npy` files."""

from __future__ import annotations

import ast
import io
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from shmtensor.autograd import wrap
from shmtensor.errors import printable

from ..dataset import Dataset
from ..loader.batch_block import gather_rows
from ..tensor_dataset import Rows, first_part
from .in_memory_images import Array, PathLike

NUMBERS = r"[?]|[biufc]\d{1,2}"
TEXT_AND_DATES = r"[SU][1-9]\d{0,8}|[mM]8\[[a-zA-Z]{1,2}\]"
MAX_HEADER = 10_000  # bytes, as in NumPy
MAX_DIMS = 64  # as in NumPy
MAX_ELEMENTS = 2**58  # of an array with each size 0 replaced by 1: the bytes are an int64


class Header(NamedTuple):
    """What an `.npy` file says of its array, and where the values begin."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    offset: int


def read_header(file: Any, nbytes: int, dtypes: str = NUMBERS) -> Header:
    """The checked header of an `.npy` file of `nbytes`; the position is then at the values.

        | \\x93NUMPY major minor | length | {'descr': ..., 'fortran_order': ..., 'shape': ...} |
          8 bytes                2 or 4, little-endian

    Args:
        dtypes: a regular expression of the dtypes that are accepted, as NumPy writes them.

    Raises:
        ValueError: not the format, another dtype, or an array that is larger than the file.
    """
    start = file.read(8)
    if start[:6] != b"\x93NUMPY" or len(start) < 8 or start[6] not in (1, 2, 3):
        raise ValueError(f"the file begins with {start!r}")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    text = file.read(min(length, MAX_HEADER + 1))
    if len(text) != length:
        raise ValueError(f"a header of {length} bytes, at most {MAX_HEADER} and the file's")
    try:  # Python 2 wrote 3 as 3L
        fields = ast.literal_eval(re.sub(r"(?<=\d)L\b", "", text.decode("latin1")).strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(
            f"the header is damaged: {type(error).__name__}: {printable(error)}"
        ) from error
    if type(fields) is not dict or fields.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("the header does not have descr, fortran_order and shape alone")
    descr, shape = fields["descr"], fields["shape"]
    if type(descr) is not str or not re.fullmatch(f"[<>=|]?({dtypes})", descr):
        raise ValueError(f"it holds no numbers: dtype {printable(descr)[:80]}")
    try:
        dtype = np.dtype(descr)
    except TypeError as error:
        raise ValueError(f"it holds no numbers: dtype {descr}") from error
    if dtype.char in "gG":  # longer than any tensor's
        raise ValueError(f"it holds no numbers: dtype {descr}")
    if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"not a shape: {printable(shape)[:80]}")
    offset = 8 + width + length
    needed = math.prod(shape) * dtype.itemsize
    if offset + needed > nbytes or math.prod(n or 1 for n in shape) > MAX_ELEMENTS:
        raise ValueError(
            f"the file is too short: {nbytes} bytes, {offset} of header and {needed} of shape "
            f"{str(shape)[:80]} of {dtype}"
        )
    if len(shape) > MAX_DIMS:
        raise ValueError(f"more than {MAX_DIMS} dimensions: {len(shape)}")
    return Header(dtype, shape, "F" if fields["fortran_order"] is True else "C", offset)


def map_npy(path: PathLike) -> Array:
    """The array in an `.npy` file, mapped read-only.

    Raises:
        ValueError: not an `.npy` file, cut short, or not of numbers.

    Copies: none.
    """
    with open(path, "rb") as file:
        nbytes = os.fstat(file.fileno()).st_size
        try:
            dtype, shape, order, offset = read_header(file, nbytes)
        except ValueError as error:
            raise ValueError(f"{path}: cannot be mapped as .npy: {error}") from error
        if 0 in shape:  # nothing to map
            return np.empty(shape, dtype)
        array = np.memmap(file, dtype, "r", offset, shape, order)
    # np.memmap's own indexing costs a microsecond more than an array's over the same memory.
    return array.view(np.ndarray)


def load_npy(data: bytes) -> Array:
    """The array of numbers, text or dates in the bytes of an `.npy` file.

    Raises:
        ValueError: see `map_npy`.

    Copies: one.
    """
    dtypes = f"{NUMBERS}|{TEXT_AND_DATES}"
    dtype, shape, order, offset = read_header(io.BytesIO(data), len(data), dtypes)
    values = np.frombuffer(data, dtype, math.prod(shape), offset)
    return values.reshape(shape, order=order).copy(order)


class NpyDataset(Dataset[Any]):
    """Sample i is row i of each file: a tensor for one file, a tuple for several.

    The files are mapped, not read: all workers share the page cache's copy, and a data set larger
    than memory works. It is sent to workers as paths.

    Parameters
    ----------
    *paths : path
        `.npy` files of the same first dimension.

    Raises
    ------
    ValueError
        A file is not `.npy`, is cut short, holds Python objects or no rows; or lengths differ.

    Notes
    -----
    Copies: one (page cache to the batch's block); two of files in Fortran order or another byte
    order.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import NpyDataset
    >>> np.save("x.npy", np.arange(6).reshape(3, 2))
    >>> NpyDataset("x.npy")[1]
    tensor([2, 3])
    """

    def __init__(self, *paths: PathLike) -> None:
        if not paths:
            raise ValueError("NpyDataset: at least one file is needed: got none")
        self.paths = [Path(path).absolute() for path in paths]
        self.arrays = [map_npy(path) for path in self.paths]
        for path, array in zip(self.paths, self.arrays, strict=True):
            if not array.ndim:
                raise ValueError(
                    f"NpyDataset: no rows of numbers in {path}: {array.dtype} {array.shape}"
                )
            if len(array) != len(self.arrays[0]):
                raise ValueError(
                    f"NpyDataset: lengths differ: {len(self.arrays[0])} in {self.paths[0]}, "
                    f"{len(array)} in {path}"
                )

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The rows `indices`, gathered into one block."""
        columns: list[Any] = [wrap(part) for part in gather_rows(self.arrays, indices)]
        return Rows(columns, len(indices), first_part if len(columns) == 1 else None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "arrays": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, arrays=[map_npy(path) for path in state["paths"]])
