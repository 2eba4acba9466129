"""ImageFolder: a folder for each class, images in it."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.errors import printable
from shmtensor.shared_containers import SharedList

from ..dataset import Dataset
from ..tensor_dataset import Rows
from ..transforms.compose import pair
from .image_decoding import decode_batch, open_image
from .in_memory_images import PathLike, shared, transform_both

IMG_EXTENSIONS = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
)  # fmt: skip


class ImageFolder(Dataset[Any]):
    """Images in folders that are named for their classes: root/cat/1.jpg, root/dog/x/2.png.

    Samples are (uint8 tensor `(C, H, W)`, class number), in the order of the sorted class names and
    paths on every machine. Paths are stored in shared memory. If all images of a batch have the
    same size, they are decoded into the rows of the batch's block, channels last in memory.

    Parameters
    ----------
    root : path
        The folder.
    transform : callable, optional
        Of a batch of images `(N, C, H, W)`, or of one image where sizes differ; one of
        `dataloaders.transforms` or any function.
    target_transform : callable, optional
        Of the class numbers `(N,)`.
    loader : callable, optional
        Path -> the image, of any type, instead of decoding it here; or an object with `shape` `(H,
        W, C)` and `decode_into(out)`, which is given a row of the block.
    is_valid_file : callable, optional
        Path -> whether it is a sample; by extension if None (`IMG_EXTENSIONS`).
    allow_empty : bool, optional
        Whether a class may have no images.
    size : int or (int, int), optional
        (H, W), or one number for both: images are scaled until they cover that, and cropped to
        their middle; JPEGs are decoded at a half, quarter or eighth where that is enough.
    mode : str, optional
        "RGB", "L" (grey) or "RGBA".
    corrupt : str, optional
        For a file that cannot be decoded: "raise" an error that names it, or "next": warn with its
        name, and use the next sample's image and class.

    Raises
    ------
    FileNotFoundError
        No class folders, or one without images.
    ModuleNotFoundError
        Pillow is not installed (on the first sample).
    OSError
        An image is corrupt; names the file.

    Notes
    -----
    Copies: one (Pillow's pixels to the block); none with simplejpeg where no scaling is needed.

    Examples
    --------
    >>> import os
    >>> from PIL import Image
    >>> from shmtensor.dataloaders.datasets import ImageFolder
    >>> for kind in "cat", "dog":
    ...     os.makedirs(kind)
    ...     Image.new("RGB", (6, 4)).save(f"{kind}/1.png")
    >>> dataset = ImageFolder(".", size=4)
    >>> dataset.classes, dataset[1][0].shape, int(dataset[1][1])
    (['cat', 'dog'], Size([3, 4, 4]), 1)
    """

    classes: list[str]
    class_to_idx: dict[str, int]

    def __init__(
        self,
        root: PathLike,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        size: int | Sequence[int] | None = None,
        mode: str = "RGB",
        corrupt: str = "raise",
    ) -> None:
        if corrupt not in ("raise", "next"):
            raise ValueError(f"ImageFolder: corrupt is not 'raise' or 'next': {corrupt!r}")
        self.root = Path(root).absolute()
        self.transform = transform
        self.target_transform = target_transform
        self.loader = loader
        self.size = None if size is None else pair("ImageFolder", size)
        self.mode = mode
        self.corrupt = corrupt
        self.classes = find_classes(self.root)
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        valid = is_valid_file or is_image
        paths = [sorted(files_below(self.root / name, valid)) for name in self.classes]
        empty = [name for name, files in zip(self.classes, paths, strict=True) if not files]
        if empty and not allow_empty:
            raise FileNotFoundError(
                f"ImageFolder: no images for the classes {', '.join(map(printable, empty))} in "
                f"{self.root}, extensions are {', '.join(IMG_EXTENSIONS)}"
            )
        self.paths = SharedList(path for files in paths for path in files)
        self._targets = shared(np.repeat(np.arange(len(paths)), [len(files) for files in paths]))

    @property
    def targets(self) -> list[int]:
        """The class number of each sample."""
        targets: list[int] = self._targets.tolist()
        return targets

    @property
    def samples(self) -> list[tuple[str, int]]:
        """Path and class number of each sample."""
        return list(zip(self.paths, self.targets, strict=True))

    @property
    def imgs(self) -> list[tuple[str, int]]:
        """`samples`, by torchvision's other name."""
        return self.samples

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The samples of `indices`, decoded into one block where their shapes are the same."""
        images, sources = [], []
        for index in indices:
            image, source = self.readable(index)
            images.append(image)
            sources.append(source)
        labels = self._targets.array[sources]
        shapes = {image.shape if hasattr(image, "decode_into") else None for image in images}
        if len(shapes) != 1 or None in shapes:
            return [
                self.transform_rows(*self.decode([image], labels[n : n + 1], [source]))[0]
                if hasattr(image, "decode_into")
                else transform_both(self, image, int(labels[n]))
                for n, (image, source) in enumerate(zip(images, sources, strict=True))
            ]
        return self.transform_rows(*self.decode(images, labels, sources))

    def readable(self, index: int) -> tuple[Any, int]:
        """The opened image of `index`, or the next one that can be opened, and its index."""
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"ImageFolder: index is out of range: {index} of {n} images")
        for i in range(index % n, index % n + n):
            path = self.paths[i % n]
            try:
                return self.open(path), i % n
            except OSError as error:
                self.report_corrupt(path, error)
        raise OSError(f"ImageFolder: no image can be read: {n} files in {self.root}")

    def open(self, path: str) -> Any:
        if self.loader is not None:
            return self.loader(path)
        return open_image(read_regular_file(path), self.mode, self.size)

    def report_corrupt(self, path: str, error: Exception) -> None:
        """Raises the error of a corrupt file, or warns of it."""
        text = f"ImageFolder: the image is corrupt: {printable(path)}: {printable(error)}"
        if self.corrupt == "raise":
            raise OSError(text) from error
        warnings.warn(f"{text}, the next one is taken", RuntimeWarning, stacklevel=2)

    def decode(self, opened: list[Any], labels: Any, sources: list[int]) -> tuple[Any, Any]:
        """Images and class numbers, in one block; a truncated file is only detected here."""
        rows = [ImageOrNext(self, *pair) for pair in zip(opened, sources, strict=True)]
        images, targets = decode_batch(rows, labels)
        for n, row in enumerate(rows):
            targets.array[n] = self._targets.array[row.index]
        return images, targets

    def transform_rows(self, images: Any, labels: Any) -> Sequence[Any]:
        count = len(images)
        return Rows(list(transform_both(self, images, labels)), count)

    def __repr__(self) -> str:
        return f"ImageFolder({len(self)} images, {len(self.classes)} classes, {str(self.root)!r})"


class ImageOrNext:
    """An opened image; if decoding fails, an error names its file, or the next image is used."""

    def __init__(self, folder: ImageFolder, image: Any, index: int) -> None:
        self.folder = folder
        self.image = image
        self.index = index
        self.shape = image.shape

    def decode_into(self, out: Any) -> None:
        folder, n = self.folder, len(self.folder)
        for _ in range(n):
            try:
                if self.image.shape != self.shape:
                    raise OSError(f"its shape is {self.image.shape}, not {self.shape}")
                self.image.decode_into(out)
                return
            except (OSError, ValueError, SyntaxError) as error:
                folder.report_corrupt(folder.paths[self.index], error)
                self.image, self.index = folder.readable((self.index + 1) % n)
        raise OSError(f"ImageFolder: no image can be decoded: {n} files in {folder.root}")


def find_classes(root: Path) -> list[str]:
    """The names of the folders in `root`, sorted."""
    if not root.is_dir():
        raise FileNotFoundError(f"ImageFolder: no such folder: {root}")
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"ImageFolder: no folders, one for each class, in {root}")
    return classes


def files_below(folder: Path, is_valid: Callable[[str], bool]) -> Iterator[str]:
    """The valid regular files in a folder and those below it. Links are followed, each folder is
    read once: one that links lead to again, maybe itself, is left out.
    """
    visited = set()
    for base, folders, files in os.walk(folder, followlinks=True):
        status = os.stat(base)
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        for file in files:
            path = os.path.join(base, file)
            if is_valid(path) and os.path.isfile(path):
                yield path


def read_regular_file(path: str) -> bytes:
    """The bytes of a file, which may have become a pipe or device since it was found: no wait.

    Raises:
        OSError: it is no regular file.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        return file.read()


def is_image(path: str) -> bool:
    return path.lower().endswith(IMG_EXTENSIONS)
