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

Array = np.ndarray[Any, Any]
PathLike = str | os.PathLike[str]


class PictureDataset(TensorDataset):
    """Samples (image `(C, H, W)`, class number) from arrays.

    Parameters
    ----------
    data : ndarray
        uint8 `(N, C, H, W)`.
    targets : ndarray
        int64 `(N,)`.
    classes : sequence of str, optional
        The classes' names.
    transform : callable, optional
        Of whole batches of images `(N, C, H, W)`: one of `dataloaders.transforms` or any function.
    target_transform : callable, optional
        Of whole batches of labels `(N,)`.

    Notes
    -----
    Copies: one (into shared memory).

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import PictureDataset
    >>> dataset = PictureDataset(np.zeros((5, 3, 8, 8), np.uint8), np.arange(5))
    >>> dataset[2][0].shape, int(dataset[2][1])
    (Size([3, 8, 8]), 2)
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
        return Rows(list(transform_both(self, *rows.columns)), len(indices))

    def __repr__(self) -> str:
        shape = tuple(self.data.shape)
        return f"{type(self).__name__}({shape[0]} images {shape[1:]}, {len(self.classes)} classes)"


def transform_both(dataset: Any, image: Any, target: Any) -> tuple[Any, Any]:
    """An image and its class, or a batch of them, after the two transforms of a data set."""
    if dataset.transform is not None:
        image = dataset.transform(image)
    if dataset.target_transform is not None:
        target = dataset.target_transform(target)
    return image, target


def shared(array: Array, dtype: Any = None) -> Any:
    """A tensor in shared memory with the array's values, converted to `dtype` if not None."""
    out = empty(array.shape, array.dtype if dtype is None else dtype)
    out[...] = array
    return wrap(out)


def find_files(
    where: str, root: PathLike, folders: Sequence[str], names: Sequence[str], suffix: str
) -> list[Path]:
    """The files of these names, or of the names with a suffix, in the first of the folders below
    `root` that has all of them.

    Raises:
        FileNotFoundError: none has; says which are looked for, and where.
    """
    places = [Path(root, folder) for folder in folders]
    for place in places:
        files = [path if (path := place / n).is_file() else place / f"{n}{suffix}" for n in names]
        if all(path.is_file() for path in files):
            return files
    raise FileNotFoundError(
        f"{where}: the files are not there: {', '.join(names)} (each may end in {suffix}) are "
        f"looked for in {', '.join(map(str, places))}; nothing is downloaded"
    )


def no_download(where: str, download: bool) -> None:
    if download:
        raise ValueError(
            f"{where}: nothing is downloaded: download=True, put the original files into root"
        )
