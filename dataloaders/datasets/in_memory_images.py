"""PictureDataset: images in memory with their labels, the base of MNIST and CIFAR."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.autograd import wrap

from ..tensor_dataset import Rows, TensorDataset
from ..transforms.compose import empty

__all__ = ["PictureDataset", "find_folder", "no_download", "shared"]

Array = np.ndarray[Any, Any]
PathLike = str | os.PathLike[str]


class PictureDataset(TensorDataset):
    """Samples (image `(C, H, W)`, class number) from arrays.

    Args:
        data: uint8 `(N, C, H, W)`.
        targets: int64 `(N,)`.
        classes: the classes' names.
        transform: of whole batches of images `(N, C, H, W)`; one of `dataloaders.transforms` or
            any function.
        target_transform: of whole batches of labels `(N,)`.

    Copies: one (into shared memory).
    """

    classes: list[str]

    def __init__(
        self,
        data: Array,
        targets: Array,
        classes: Sequence[str] = (),
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(shared(data), shared(targets))
        self.classes = list(classes)
        self.transform = transform
        self.target_transform = target_transform

    @property
    def data(self) -> Any:
        """The images, uint8 `(N, C, H, W)`."""
        return self.tensors[0]

    @property
    def targets(self) -> Any:
        """The class numbers, int64 `(N,)`."""
        return self.tensors[1]

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class name."""
        return {name: i for i, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> Any:
        if self.transform is None and self.target_transform is None:
            return super().__getitem__(index)
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The samples of `indices`, gathered into one block and transformed in one call."""
        rows = super().__getitems__(indices)
        if self.transform is None and self.target_transform is None:
            return rows
        assert isinstance(rows, Rows)
        images, labels = rows.columns
        if self.transform is not None:
            images = self.transform(images)
        if self.target_transform is not None:
            labels = self.target_transform(labels)
        return Rows([images, labels], len(indices))

    def __repr__(self) -> str:
        shape = tuple(self.data.shape)
        return f"{type(self).__name__}({shape[0]} images {shape[1:]}, {len(self.classes)} classes)"


def shared(array: Array, dtype: Any = None) -> Any:
    """A tensor in shared memory with the array's values, converted to `dtype` if not None."""
    out = empty(array.shape, array.dtype if dtype is None else dtype)
    out[...] = array
    return wrap(out)


def find_folder(where: str, root: PathLike, below: Sequence[str], files: Sequence[str]) -> Path:
    """The folder among `root` and those below it that has all of `files` (or each with .gz).

    Raises:
        FileNotFoundError: none has; names the folders and files.
    """
    base = Path(root)
    folders = [base, *(base / name for name in below)]
    for folder in folders:
        if all((folder / f).is_file() or (folder / f"{f}.gz").is_file() for f in files):
            return folder
    raise FileNotFoundError(
        f"{where}: the files are not there: {', '.join(files)} (each may end in .gz) are looked "
        f"for in {', '.join(map(str, folders))}; nothing is downloaded"
    )


def no_download(where: str, download: bool) -> None:
    if download:
        raise ValueError(
            f"{where}: nothing is downloaded: download=True, put the original files into root"
        )
