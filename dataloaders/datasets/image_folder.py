"""ImageFolder: a folder for each class, images in it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.shared_containers import SharedList

from ..dataset import Dataset
from ..tensor_dataset import Rows
from ..transforms.compose import pair
from .image_decoding import decode_batch, open_image
from .in_memory_images import PathLike, shared

__all__ = ["IMG_EXTENSIONS", "ImageFolder"]

IMG_EXTENSIONS = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
)  # fmt: skip


class ImageFolder(Dataset[Any]):
    """Images in folders that are named for their classes: root/cat/1.jpg, root/dog/x/2.png.

    Samples are (uint8 tensor `(C, H, W)`, class number), in the order of the sorted class names and
    paths on every machine. Paths lie packed in shared memory. Where a batch's images have one
    size (because of `size`, or by themselves) they are decoded into the rows of the batch's block,
    channels last in memory.

    Args:
        root: the folder.
        transform: of a batch of images `(N, C, H, W)`, or of one image where sizes differ; one of
            `dataloaders.transforms` or any function.
        target_transform: of the class numbers `(N,)`.
        loader: path -> the image, of any type, instead of decoding it here; or an object with
            `shape` `(H, W, C)` and `decode_into(out)`, which is given a row of the block.
        is_valid_file: path -> whether it is a sample; by extension if None (`IMG_EXTENSIONS`).
        allow_empty: whether a class may have no images.
        size: (H, W), or one number for both: images are scaled until they cover that, and cropped
            to their middle; JPEGs are decoded at a half, quarter or eighth where that is enough.
        mode: "RGB", "L" (grey) or "RGBA".
        corrupt: what a file that cannot be decoded does: "raise" an error that names it, or "next":
            warn with its name, and take the next sample's image and class.

    Raises:
        FileNotFoundError: no class folders, or one without images.
        ModuleNotFoundError: Pillow is not installed (on the first sample).
        OSError: an image is corrupt; names the file.

    Copies: one (Pillow's pixels to the block); none with simplejpeg where no scaling is needed.
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
        self.class_to_idx = {name: place for place, name in enumerate(self.classes)}
        valid = is_valid_file or is_image
        found = [sorted(files_below(self.root / name, valid)) for name in self.classes]
        empty = [name for name, files in zip(self.classes, found, strict=True) if not files]
        if empty and not allow_empty:
            raise FileNotFoundError(
                f"ImageFolder: no images for the classes {', '.join(empty)} in {self.root}, "
                f"extensions are {', '.join(IMG_EXTENSIONS)}"
            )
        self.paths = SharedList(path for files in found for path in files)
        self._targets = shared(np.repeat(np.arange(len(found)), [len(files) for files in found]))

    @property
    def targets(self) -> list[int]:
        """The class number of each sample."""
        found: list[int] = self._targets.tolist()
        return found

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
        opened, places = [], []
        for index in indices:
            image, place = self.readable(index)
            opened.append(image)
            places.append(place)
        labels = self._targets.array[places]
        shapes = {image.shape for image in opened if hasattr(image, "decode_into")}
        together = len(shapes) == 1 and all(hasattr(image, "decode_into") for image in opened)
        if not together:
            return [
                self.finish(*self.decode([image], labels[n : n + 1], [place]))[0]
                if hasattr(image, "decode_into")
                else self.finish_loaded(image, labels[n])
                for n, (image, place) in enumerate(zip(opened, places, strict=True))
            ]
        return self.finish(*self.decode(opened, labels, places))

    def readable(self, index: int) -> tuple[Any, int]:
        """The opened image of `index`, or of the next one after it that can be opened."""
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"ImageFolder: index is out of range: {index} of {n} images")
        for place in range(index % n, index % n + n):
            path = self.paths[place % n]
            try:
                return self.open(path), place % n
            except OSError as error:
                self.complain(path, error)
        raise OSError(f"ImageFolder: no image can be read: {n} files in {self.root}")

    def open(self, path: str) -> Any:
        if self.loader is not None:
            return self.loader(path)
        return open_image(Path(path).read_bytes(), self.mode, self.size)

    def complain(self, path: str, error: Exception) -> None:
        """Raises the error of a corrupt file, or warns of it."""
        text = f"ImageFolder: the image is corrupt: {path}: {error}"
        if self.corrupt == "raise":
            raise OSError(text) from error
        warnings.warn(f"{text}, the next one is taken", RuntimeWarning, stacklevel=2)

    def decode(self, opened: list[Any], labels: Any, places: list[int]) -> tuple[Any, Any]:
        """Images and class numbers, in one block; a file cut short shows only here."""
        rows = [Named(self, image, place) for image, place in zip(opened, places, strict=True)]
        images, found = decode_batch(rows, labels)
        for n, row in enumerate(rows):
            found.array[n] = self._targets.array[row.place]
        return images, found

    def finish(self, images: Any, labels: Any) -> Sequence[Any]:
        count = len(images)
        if self.transform is not None:
            images = self.transform(images)
        if self.target_transform is not None:
            labels = self.target_transform(labels)
        return Rows([images, labels], count)

    def finish_loaded(self, image: Any, label: Any) -> tuple[Any, Any]:
        """What a loader of the user's has returned."""
        label = int(label)
        return (
            image if self.transform is None else self.transform(image),
            label if self.target_transform is None else self.target_transform(label),
        )

    def __repr__(self) -> str:
        return f"ImageFolder({len(self)} images, {len(self.classes)} classes, {str(self.root)!r})"


class Named:
    """An opened image that tells its file's name when decoding fails, or goes on with the next."""

    def __init__(self, folder: ImageFolder, image: Any, place: int) -> None:
        self.folder = folder
        self.image = image
        self.place = place
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
                folder.complain(folder.paths[self.place], error)
                self.image, self.place = folder.readable((self.place + 1) % n)
        raise OSError(f"ImageFolder: no image can be decoded: {n} files in {folder.root}")


def find_classes(root: Path) -> list[str]:
    """The names of the folders in `root`, sorted."""
    if not root.is_dir():
        raise FileNotFoundError(f"ImageFolder: no such folder: {root}")
    found = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    if not found:
        raise FileNotFoundError(f"ImageFolder: no folders, one for each class, in {root}")
    return found


def files_below(folder: Path, is_valid: Callable[[str], bool]) -> Iterator[str]:
    for base, _, files in os.walk(folder, followlinks=True):
        for file in files:
            path = str(Path(base, file))
            if is_valid(path):
                yield path


def is_image(path: str) -> bool:
    return path.lower().endswith(IMG_EXTENSIONS)
