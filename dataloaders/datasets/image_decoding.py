"""Encoded images, and decoding them into the block of a batch.

    file --> EncodedImage, whose shape is known --> block of the batch --> decode_into(row of it)

Pillow decodes into its own memory, so its pixels are copied once more; simplejpeg, if it is
installed, writes JPEGs straight into the block.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from shmtensor.autograd import wrap

from ..loader.batch_block import allocate_parts
from ..transforms.compose import pair
from .in_memory_images import Array

MAX_IMAGE_PIXELS = 89_478_485  # Pillow's value, where Pillow is not imported
CHANNELS = {"RGB": 3, "L": 1, "RGBA": 4}


class EncodedImage(Protocol):
    """An image that knows its shape and writes its pixels into a given array."""

    shape: tuple[int, int, int]

    def decode_into(self, out: Array) -> None:
        """Writes the pixels into `out`, uint8 `(H, W, C)`, contiguous."""


@contextmanager
def decoding() -> Iterator[None]:
    """Makes an OSError of whatever a decoder raises for a damaged image."""
    try:
        yield
    except (OSError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise OSError(f"cannot be decoded: {type(error).__name__}: {error}") from error


class PillowImage:
    """An image for Pillow; scaled and cropped to `size` if that is given."""

    def __init__(self, data: bytes, mode: str, size: tuple[int, int] | None) -> None:
        with decoding():
            self.image: Any = pillow().open(io.BytesIO(data))
            if self.image.format == "EPS":
                raise OSError("Pillow would run Ghostscript on an EPS file")
            check_pixels(*self.image.size)
        self.mode = mode
        self.size = size
        width, height = self.image.size
        self.shape = (*(size or (height, width)), CHANNELS[mode])

    @decoding()
    def decode_into(self, out: Array) -> None:
        image, size = self.image, self.size
        if size is not None and image.size != size[::-1]:
            height, width = size
            # JPEG decoders can halve the image repeatedly; never below `size`.
            image.draft(self.mode, cover(image.size[::-1], size))
            box = middle(image.size[::-1], size)
            image = image.convert(self.mode)
            image = image.resize((width, height), pillow().Resampling.BILINEAR, box=box)
        elif image.mode != self.mode:
            image = image.convert(self.mode)
        out[...] = np.asarray(image).reshape(out.shape)


class TurboImage:
    """A JPEG for simplejpeg (libjpeg-turbo), which decodes into given memory."""

    def __init__(self, data: bytes, mode: str, size: tuple[int, int]) -> None:
        self.data = data
        self.mode = mode
        self.shape = (*size, CHANNELS[mode])

    @decoding()
    def decode_into(self, out: Array) -> None:
        name = "GRAY" if self.mode == "L" else self.mode
        turbo().decode_jpeg(self.data, name, buffer=out)


def check_pixels(width: int, height: int) -> None:
    """Refuses a size that Pillow refuses, before anything is allocated for it."""
    limit = getattr(sys.modules.get("PIL.Image"), "MAX_IMAGE_PIXELS", MAX_IMAGE_PIXELS)
    if limit is not None and width * height > 2 * limit:
        raise OSError(
            f"{width} x {height} pixels are more than {2 * limit}, which "
            "PIL.Image.MAX_IMAGE_PIXELS allows"
        )


def open_image(
    data: bytes, mode: str = "RGB", size: int | Sequence[int] | None = None
) -> EncodedImage:
    """Opens an image from a file's bytes, without decoding it.

    Parameters
    ----------
    data : bytes
        JPEG, PNG, or whatever Pillow reads.
    mode : str, optional
        "RGB", "L" (grey) or "RGBA".
    size : int or (int, int), optional
        (H, W), or one number for both: the image is scaled until it covers that and cropped to its
        middle; a JPEG is decoded at half, a quarter or an eighth of its size where that is enough.
        None: as it is.

    Returns
    -------
    EncodedImage
        With `shape` `(H, W, C)` and `decode_into(out)`.

    Raises
    ------
    ModuleNotFoundError
        Pillow is not installed.
    OSError
        Not an image; an EPS file, on which Pillow would run a program; or more pixels than Pillow
        opens (`PIL.Image.MAX_IMAGE_PIXELS`, 179 million).

    See Also
    --------
    decode_image

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> from shmtensor.dataloaders.datasets import open_image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (6, 4)).save(file, "png")
    >>> open_image(file.getvalue(), size=4).shape
    (4, 4, 3)
    """
    if mode not in CHANNELS:
        raise ValueError(f"open_image: mode is not one of {list(CHANNELS)}: {mode!r}")
    target = None if size is None else pair("open_image", size)
    library = turbo()
    if library is not None and data[:3] == b"\xff\xd8\xff" and mode != "RGBA":
        with decoding():
            height, width, space, _ = library.decode_jpeg_header(data)
        check_pixels(width, height)
        if target in (None, (height, width)) and space not in ("CMYK", "YCCK"):
            return TurboImage(data, mode, (height, width))
    return PillowImage(data, mode, target)


def decode_image(data: bytes, mode: str = "RGB", size: int | Sequence[int] | None = None) -> Any:
    """The image in the bytes of a file: a uint8 tensor `(C, H, W)` in shared memory.

    Parameters
    ----------
    data : bytes
        JPEG, PNG, or whatever Pillow reads.
    mode : str, optional
        "RGB", "L" (grey) or "RGBA".
    size : int or (int, int), optional
        As in `open_image`.

    Returns
    -------
    Tensor
        Copies: one (Pillow's pixels), none with simplejpeg.

    Raises
    ------
    ModuleNotFoundError, OSError
        As `open_image`; an image cut short is an OSError, too.

    See Also
    --------
    open_image

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> from shmtensor.dataloaders.datasets import decode_image
    >>> file = io.BytesIO()
    >>> Image.new("L", (2, 1), 7).save(file, "png")
    >>> decode_image(file.getvalue(), mode="L")
    tensor([[[7, 7]]], dtype=shmtensor.uint8)
    """
    images, _ = decode_batch([open_image(data, mode, size)])
    return images[0]


def decode_batch(encoded: Sequence[EncodedImage], extra: Sequence[Any] = ()) -> tuple[Any, Any]:
    """Decodes images of one shape `(H, W, C)` into one block, with a column of numbers beside them.

    Returns:
        uint8 `(N, C, H, W)`, with the channels last in memory, as decoders write them; and an
        int64 tensor `(N,)` of `extra`.
    """
    shape = encoded[0].shape
    block, labels = allocate_parts(
        [((len(encoded), *shape), np.dtype(np.uint8)), ((len(extra),), np.dtype(np.int64))]
    )
    for image, out in zip(encoded, block):
        with decoding():
            image.decode_into(out)
    labels[...] = extra
    return wrap(block.transpose(0, 3, 1, 2)), wrap(labels)


def cover(size: tuple[int, int], target: tuple[int, int]) -> tuple[int, int]:
    """The smallest width and height of an image of `size` (H, W) that cover `target`."""
    scale = max(target[0] / size[0], target[1] / size[1])
    return max(round(size[1] * scale), target[1]), max(round(size[0] * scale), target[0])


def middle(size: tuple[int, int], target: tuple[int, int]) -> tuple[float, float, float, float]:
    """The largest box in the middle with the ratio of `target`: left, top, right, bottom."""
    scale = min(size[0] / target[0], size[1] / target[1])
    height, width = target[0] * scale, target[1] * scale
    top, left = (size[0] - height) / 2, (size[1] - width) / 2
    return left, top, min(left + width, size[1]), min(top + height, size[0])


@lru_cache(maxsize=1)
def pillow() -> Any:
    try:
        return import_module("PIL.Image")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "decode_image: Pillow is not installed: pip install pillow (or shmtensor's extra "
            "'images')"
        ) from error


@lru_cache(maxsize=1)
def turbo() -> Any:
    """simplejpeg, or None where it is not installed."""
    try:
        return import_module("simplejpeg")
    except ImportError:
        return None
