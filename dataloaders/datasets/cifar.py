"""CIFAR-10 and CIFAR-100, from the files they are published as: Python pickles, or binary.

Binary, a record per image:

    CIFAR-10    | label | 1024 red | 1024 green | 1024 blue |
    CIFAR-100   | coarse label | fine label | 1024 red | 1024 green | 1024 blue |
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.errors import printable
from shmtensor.serialization.unpickler import RestrictedUnpickler

from .in_memory_images import Array, PathLike, PictureDataset, find_files, no_download

PIXELS = 3 * 32 * 32


class CIFAR10(PictureDataset):
    """CIFAR-10: 32 x 32 pixels of colour, ten classes.

    Samples are (uint8 image `(3, 32, 32)`, class number). The pickles are read by the restricted
    unpickler of `shmtensor.load`, so that a file cannot run code.

    Parameters
    ----------
    root : path
        The folder of the published files, of the Python version (data_batch_1, ..., test_batch) or
        the binary one (data_batch_1.bin, ...), or the folder above it.
    train : bool, optional
        The 50,000 images to train on; the 10,000 held-out ones if False.
    transform : callable, optional
        Of whole batches of images `(N, 3, 32, 32)`: one of `dataloaders.transforms` or any
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
        A file is damaged, or holds something else.

    See Also
    --------
    CIFAR100

    Notes
    -----
    Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009. Copies:
    one (file to shared memory), and one while pickles are read.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import CIFAR10
    >>> np.zeros((2, 1 + 3 * 32 * 32), np.uint8).tofile("test_batch.bin")
    >>> dataset = CIFAR10(".", train=False)
    >>> len(dataset), dataset[0][0].shape, int(dataset[0][1])
    (2, Size([3, 32, 32]), 0)
    """

    parts: tuple[tuple[str, ...], tuple[str, ...]] = (
        tuple(f"data_batch_{n}" for n in range(1, 6)),
        ("test_batch",),
    )
    folders: tuple[str, str] = ("cifar-10-batches-py", "cifar-10-batches-bin")
    meta: tuple[str, str, str] = ("batches.meta", "label_names", "batches.meta.txt")
    key = "labels"
    label_bytes = 1  # before the pixels of a binary record; the last one is the label
    names: tuple[str, ...] = (
        "airplane", "automobile", "bird", "cat", "deer",
        "dog", "frog", "horse", "ship", "truck",
    )  # fmt: skip

    def __init__(
        self,
        root: PathLike,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        no_download(type(self).__name__, download)
        where, (pickled, binary) = type(self).__name__, self.folders
        names = self.parts[0 if train else 1]
        files = find_files(where, root, (pickled, "", binary), names, ".bin")
        pixels, labels = zip(*map(self.read, files), strict=True)
        classes = self.class_names(files[0].parent)
        targets = np.concatenate(labels).astype(np.int64)
        if targets.size and not 0 <= targets.min() <= targets.max() < len(classes):
            raise ValueError(
                f"{where}: a label is not one of {len(classes)} classes: "
                f"{targets.min()} to {targets.max()} in {files[0].parent}"
            )
        data = np.concatenate(pixels).reshape(-1, 3, 32, 32)
        super().__init__(data, targets, classes, transform, target_transform)
        self.root = files[0].parent
        self.train = train

    def read(self, path: Path) -> tuple[Array, Array]:
        """The pixels and labels of a file."""
        return (self.read_binary if path.suffix == ".bin" else self.read_pickle)(path)

    def read_pickle(self, path: Path) -> tuple[Array, Array]:
        contents = unpickle(path)
        parts: list[Any] = [contents.get("data"), contents.get(self.key)]
        data, labels = parts
        if type(data) is not np.ndarray or type(labels) not in (list, np.ndarray):
            raise ValueError(
                f"{path}: no 'data' and {self.key!r} in it: {type(data).__name__} and "
                f"{type(labels).__name__} instead of arrays"
            )
        if type(labels) is list and all(type(n) is int and 0 <= n < 1 << 62 for n in labels):
            labels = np.array(labels, np.int64)
        is_row = type(labels) is np.ndarray and labels.ndim == 1 and labels.dtype.kind in "iu"
        if data.dtype != np.uint8 or data.shape != (len(labels), PIXELS) or not is_row:
            raise ValueError(
                f"{path}: images and labels do not belong together: {data.dtype} {data.shape} and "
                f"{len(labels)} labels"
            )
        return data, labels

    def read_binary(self, path: Path) -> tuple[Array, Array]:
        raw = np.fromfile(path, np.uint8)
        record = self.label_bytes + PIXELS
        if raw.size == 0 or raw.size % record:
            raise ValueError(f"{path}: not a whole number of records of {record}: {raw.size} bytes")
        rows = raw.reshape(-1, record)
        return rows[:, self.label_bytes :], rows[:, self.label_bytes - 1]

    def class_names(self, folder: Path) -> list[str]:
        """From the files' own list where it is there."""
        file, key, text = self.meta
        if (folder / file).is_file():
            names = unpickle(folder / file).get(key)
            if type(names) is not list or not all(type(name) in (str, bytes) for name in names):
                raise ValueError(f"{folder / file}: no list of names {key!r} in it")
            return [name if isinstance(name, str) else name.decode("latin1") for name in names]
        if (folder / text).is_file():
            return (folder / text).read_text().split()
        return list(self.names)


class CIFAR100(CIFAR10):
    """CIFAR-100: 32 x 32 pixels of colour, 100 classes (the fine labels).

    Parameters
    ----------
    root : path
        The folder of the published files, train, test (or train.bin, test.bin), or the folder above
        it.
    train : bool, optional
        The 50,000 images to train on; the 10,000 held-out ones if False.
    transform : callable, optional
        Of whole batches of images `(N, 3, 32, 32)`.
    target_transform : callable, optional
        Of whole batches of class numbers.
    download : bool, optional
        Accepted for scripts that say False; nothing is downloaded.

    Raises
    ------
    FileNotFoundError, ValueError
        As `CIFAR10`.

    See Also
    --------
    CIFAR10

    Notes
    -----
    Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import CIFAR100
    >>> np.zeros((2, 2 + 3 * 32 * 32), np.uint8).tofile("test.bin")
    >>> len(CIFAR100(".", train=False))
    2
    """

    parts = (("train",), ("test",))
    folders = ("cifar-100-python", "cifar-100-binary")
    meta = ("meta", "fine_label_names", "fine_label_names.txt")
    key = "fine_labels"
    label_bytes = 2
    names = tuple(f"class {n}" for n in range(100))


def unpickle(path: Path) -> dict[str, Any]:
    """A published pickle (Python 2's), with keys as str.

    Raises:
        ValueError: damaged, not a dict, or it names something beyond arrays.
    """
    data = path.read_bytes()
    try:
        contents = RestrictedUnpickler(data, encoding="latin1").load()
    except (pickle.UnpicklingError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{path}: cannot be read as a CIFAR pickle: {printable(error)}") from error
    if type(contents) is not dict:
        raise ValueError(f"{path}: not a dict: {type(contents).__name__}")
    return {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in contents.items()}
