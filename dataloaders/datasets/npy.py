"""NpyDataset: rows of memory-mapped `.npy` files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.autograd import wrap

from ..dataset import Dataset
from ..loader.batch_block import allocate_parts, gather_rows
from ..tensor_dataset import Rows
from .in_memory_images import Array, PathLike
from .transformed import first_part

__all__ = ["NpyDataset", "map_npy"]


def map_npy(path: PathLike) -> Array:
    """The array in an `.npy` file, mapped read-only.

    Raises:
        ValueError: not an `.npy` file, cut short, or of Python objects.

    Copies: none.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: cannot be mapped as .npy: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path}: not one array: {type(array).__name__}, .npz is not supported")
    # np.memmap's own indexing costs a microsecond more than an array's over the same memory.
    return array.view(np.ndarray)


class NpyDataset(Dataset[Any]):
    """Sample i is row i of each file: a tensor for one file, a tuple for several.

    The files are mapped, not read: all workers share the page cache's copy, and a data set larger
    than memory works. It is sent to workers as paths.

    Args:
        *paths: `.npy` files of the same first dimension.

    Raises:
        ValueError: a file is not `.npy`, is cut short, holds Python objects or no rows; or
            lengths differ.

    Copies: one (page cache to the batch's block).

    Example:
        >>> import tempfile, pathlib
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "x.npy")
        >>> np.save(path, np.arange(6).reshape(3, 2))
        >>> NpyDataset(path)[1].tolist()
        [2, 3]
        >>> folder.cleanup()
    """

    def __init__(self, *paths: PathLike) -> None:
        if not paths:
            raise ValueError("NpyDataset: at least one file is needed: got none")
        self.paths = [Path(path).absolute() for path in paths]
        self.arrays = [map_npy(path) for path in self.paths]
        for path, array in zip(self.paths, self.arrays, strict=True):
            if not array.ndim or array.dtype.kind not in "biufc":
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
        plain = all(a.flags.c_contiguous and a.dtype.isnative for a in self.arrays)
        parts = gather_rows(self.arrays, indices) if plain else self.gather(indices)
        columns: list[Any] = [wrap(part) for part in parts]
        return Rows(columns, len(indices), first_part if len(columns) == 1 else None)

    def gather(self, indices: Sequence[int]) -> list[Array]:
        """Rows of files in foreign byte order, or in Fortran order, which `take` reads entirely."""
        out = allocate_parts(
            ((len(indices), *a.shape[1:]), a.dtype.newbyteorder("=")) for a in self.arrays
        )
        for array, part in zip(self.arrays, out, strict=True):
            for i, index in enumerate(indices):
                part[i] = array[index]
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "arrays": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, arrays=[map_npy(path) for path in state["paths"]])
