"""MNIST and its relatives, from the files they are published as.

| 0 0 type n | size 0 | ... | size n-1 | values, big-endian, row after row |
  4 bytes      4 bytes each, big-endian
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .in_memory_images import Array, PathLike, PictureDataset, find_files, no_download
from .npy import MAX_DIMS, MAX_ELEMENTS
from .tar import DAMAGED_GZIP, MAX_EXPANSION, open_maybe_gzip, read_up_to

TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: PathLike, max_expansion: int = MAX_EXPANSION) -> Array:
    """The array in an idx file, the format of MNIST, or in one compressed by gzip (detected by its
    first bytes).

    Parameters
    ----------
    path : path
        The file.
    max_expansion : int, optional
        Bytes that a compressed file may become, if that is more than 100 times its size; 256 MiB by
        default.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        The file is not of this format, or shorter or longer than its header says, or expands to
        more than is allowed.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import read_idx
    >>> with open("labels", "wb") as file:
    ...     _ = file.write(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    >>> read_idx("labels")
    array([7, 2, 1], dtype=uint8)
    """
    file, limit = open_maybe_gzip(Path(path), max_expansion)
    try:
        with file:
            return read_array(file, path, limit)
    except DAMAGED_GZIP as error:
        raise ValueError(f"read_idx: the gzip file is damaged: {path}: {error}") from error


def read_array(file: Any, path: PathLike, limit: int | None) -> Array:
    """The array in an open idx file; reads no more than the header says."""
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in TYPES or not start[3]:
        raise ValueError(f"read_idx: not an idx file: {path} begins with {start!r}")
    sizes = file.read(4 * start[3])
    shape = tuple(np.frombuffer(sizes, ">u4").tolist()) if len(sizes) == 4 * start[3] else ()
    dtype: np.dtype[Any] = np.dtype(TYPES[start[2]])
    nbytes = dtype.itemsize * math.prod(shape)
    if limit is not None and nbytes > limit:
        raise ValueError(
            f"read_idx: the file expands to {nbytes} bytes, more than {limit}: {path}, hint: "
            "max_expansion"
        )
    data = read_up_to(file, nbytes + 1) if shape else b""
    if not shape or len(data) != nbytes or math.prod(n or 1 for n in shape) > MAX_ELEMENTS:
        raise ValueError(
            f"read_idx: the file's size does not fit its header: {path} has "
            f"{'more' if len(data) > nbytes else len(data)} bytes of data, the header says "
            f"{nbytes} for shape {shape}"
        )
    if len(shape) > MAX_DIMS:
        raise ValueError(f"read_idx: more than {MAX_DIMS} dimensions: {len(shape)} in {path}")
    array = np.frombuffer(data, dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


class MNIST(PictureDataset):
    """The MNIST digits: 28 x 28 pixels, ten classes.

    Samples are (uint8 image `(1, 28, 28)`, class number); the files are read once, into shared
    memory that workers get as a handle.

    Parameters
    ----------
    root : path
        The folder of the original files (train-images-idx3-ubyte, ... as they are or with .gz), or
        one above it as torchvision lays it out (root/MNIST/raw).
    train : bool, optional
        The 60,000 images to train on; the 10,000 held-out ones if False.
    transform : callable, optional
        Of whole batches of images `(N, 1, 28, 28)`: one of `dataloaders.transforms` or any
        function.
    target_transform : callable, optional
        Of whole batches of class numbers.
    download : bool, optional
        Accepted for scripts that say False; nothing is downloaded.

    Raises
    ------
    FileNotFoundError
        The files are not there; says which are looked for, and where.
    ValueError
        A file is damaged, or images and labels do not belong together.

    See Also
    --------
    FashionMNIST, KMNIST, digits

    Notes
    -----
    Source: Y. LeCun, C. Cortes, C. Burges, The MNIST database of handwritten digits. Copies: one
    (file to shared memory).

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import MNIST
    >>> def write(name, array):  # two images in the place of 10,000
    ...     header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    ...     with open(name, "wb") as file:
    ...         _ = file.write(header + array.tobytes())
    >>> write("t10k-images-idx3-ubyte", np.zeros((2, 28, 28), np.uint8))
    >>> write("t10k-labels-idx1-ubyte", np.array([7, 2], np.uint8))
    >>> dataset = MNIST(".", train=False)
    >>> dataset[0][0].shape, int(dataset[0][1])
    (Size([1, 28, 28]), 7)
    """

    names: tuple[str, ...] = (
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four",
        "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine",
    )  # fmt: skip

    def __init__(
        self,
        root: PathLike,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        where, part = type(self).__name__, "train" if train else "t10k"
        no_download(where, download)
        names = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
        files = find_files(where, root, ("", f"{where}/raw", "raw", where), names, ".gz")
        folder = files[0].parent
        images, labels = map(read_idx, files)
        if images.ndim != 3 or labels.shape != images.shape[:1] or images.dtype != np.uint8:
            raise ValueError(
                f"{where}: images and labels do not belong together: {images.shape} and "
                f"{labels.shape} in {folder}"
            )
        if labels.dtype.kind not in "iu":
            raise ValueError(f"{where}: labels are not whole numbers: {labels.dtype} in {folder}")
        if labels.size and not 0 <= labels.min() <= labels.max() < len(self.names):
            raise ValueError(
                f"{where}: a label is not a class: {labels.min()} to {labels.max()} in {folder}"
            )
        super().__init__(
            images[:, None], labels.astype(np.int64), self.names, transform, target_transform
        )
        self.root = folder
        self.train = train


class FashionMNIST(MNIST):
    """Fashion-MNIST: 28 x 28 pixels of clothes, ten classes.

    Parameters
    ----------
    root : path
        The folder of the files, as of `MNIST`.
    train : bool, optional
        The 60,000 images to train on; the 10,000 held-out ones if False.
    transform : callable, optional
        Of whole batches of images `(N, 1, 28, 28)`.
    target_transform : callable, optional
        Of whole batches of class numbers.
    download : bool, optional
        Accepted for scripts that say False; nothing is downloaded.

    Raises
    ------
    FileNotFoundError, ValueError
        As `MNIST`.

    See Also
    --------
    MNIST

    Notes
    -----
    Source: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST", arXiv:1708.07747.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import FashionMNIST
    >>> FashionMNIST("nowhere")
    Traceback (most recent call last):
        ...
    FileNotFoundError: FashionMNIST: the files are not there: ...
    """

    names = (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    )  # fmt: skip


class KMNIST(MNIST):
    """Kuzushiji-MNIST: 28 x 28 pixels of cursive Japanese, ten classes.

    Parameters
    ----------
    root : path
        The folder of the files, as of `MNIST`.
    train : bool, optional
        The 60,000 images to train on; the 10,000 held-out ones if False.
    transform : callable, optional
        Of whole batches of images `(N, 1, 28, 28)`.
    target_transform : callable, optional
        Of whole batches of class numbers.
    download : bool, optional
        Accepted for scripts that say False; nothing is downloaded.

    Raises
    ------
    FileNotFoundError, ValueError
        As `MNIST`.

    See Also
    --------
    MNIST

    Notes
    -----
    Source: T. Clanuwat et al., "Deep learning for classical Japanese literature", arXiv:1812.01718.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import KMNIST
    >>> KMNIST("nowhere")
    Traceback (most recent call last):
        ...
    FileNotFoundError: KMNIST: the files are not there: ...
    """

    names = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
