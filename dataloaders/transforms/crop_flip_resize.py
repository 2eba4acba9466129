"""Geometric transforms: crop, pad, flip, resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmtensor.autograd import no_grad, wrap
from shmtensor.nn.functional import interpolate

from .compose import Transform, empty, pair, probability
from .sample_rng import Array, integers, uniform

MODES = "constant", "edge", "reflect", "symmetric"
ATTEMPTS = 10  # boxes drawn before RandomResizedCrop takes the middle, as in torchvision


class CenterCrop(Transform):
    """The middle of the images; smaller images get zeros around them.

    Parameters
    ----------
    size : int or (int, int)
        Height and width, or one number for both.

    See Also
    --------
    RandomCrop

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> transforms.CenterCrop(2)(images)
    array([[[[ 5,  6],
             [ 9, 10]]]], dtype=uint8)
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = pair("CenterCrop", size)

    def change(self, x: Array, keys: Array | None) -> Array:
        height, width = self.size
        # Rounded as torchvision does.
        top = round((x.shape[2] - height) / 2)
        left = round((x.shape[3] - width) / 2)
        out = empty((*x.shape[:2], height, width), x.dtype)
        crop(x, out, top, left, 0)
        return out


class Pad(Transform):
    """More pixels around the images.

    Parameters
    ----------
    padding : int or sequence of int
        On all sides; or (left and right, top and bottom); or (left, top, right, bottom).
    fill : float, optional
        The value of these pixels, for the mode "constant".
    padding_mode : str, optional
        "constant", "edge", "reflect" or "symmetric".

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> transforms.Pad((1, 0))(images)[0, 0, 1]
    array([0, 4, 5, 6, 7, 0], dtype=uint8)
    """

    def __init__(
        self, padding: int | Sequence[int], fill: float = 0, padding_mode: str = "constant"
    ) -> None:
        self.padding = padding_sides("Pad", padding)
        self.fill = fill
        self.padding_mode = mode_of("Pad", padding_mode)

    def change(self, x: Array, keys: Array | None) -> Array:
        return pad(x, self.padding, self.fill, self.padding_mode)


class RandomCrop(Transform):
    """A crop of each image at a random place.

    Parameters
    ----------
    size : int or (int, int)
        Height and width, or one number for both.
    padding : int or sequence of int, optional
        Pixels added around the images first, as `Pad` takes them.
    pad_if_needed : bool, optional
        Whether images that are smaller than `size` are padded.
    fill : float, optional
        The value of padded pixels, for the mode "constant".
    padding_mode : str, optional
        "constant", "edge", "reflect" or "symmetric".

    Raises
    ------
    ValueError
        The images are smaller than `size`, on the call.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> transforms.RandomCrop(3, padding=1)(images).shape
    (1, 1, 3, 3)
    """

    is_random = True

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float = 0,
        padding_mode: str = "constant",
    ) -> None:
        self.size = pair("RandomCrop", size)
        self.padding = padding_sides("RandomCrop", 0 if padding is None else padding)
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = mode_of("RandomCrop", padding_mode)

    def change(self, x: Array, keys: Array | None) -> Array:
        assert keys is not None
        height, width = self.size
        left, top, right, bottom = self.padding
        if self.pad_if_needed:
            more_y = max(0, height - x.shape[2] - top - bottom)
            more_x = max(0, width - x.shape[3] - left - right)
            left, top, right, bottom = left + more_x, top + more_y, right + more_x, bottom + more_y
        padded_height, padded_width = x.shape[2] + top + bottom, x.shape[3] + left + right
        if padded_height < height or padded_width < width:
            raise ValueError(
                f"RandomCrop: the images are smaller than the crop: {padded_height} x "
                f"{padded_width} with padding, {height} x {width}, use pad_if_needed=True"
            )
        if self.padding_mode != "constant" and (left or top or right or bottom):
            x = pad(x, (left, top, right, bottom), self.fill, self.padding_mode)
            left = top = 0
        ys = (integers(keys, 0, padded_height - height + 1) - top).tolist()
        xs = (integers(keys, 1, padded_width - width + 1) - left).tolist()
        out = empty((*x.shape[:2], height, width), x.dtype)
        for n, (crop_top, crop_left) in enumerate(zip(ys, xs)):
            crop(x[n], out[n], crop_top, crop_left, self.fill)
        return out


class Flip(Transform):
    """Mirrors some samples along one dimension."""

    is_random = True
    flip_index: tuple[Any, ...]

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(type(self).__name__, p)

    def change(self, x: Array, keys: Array | None) -> Array:
        assert keys is not None
        out = empty(x.shape, x.dtype)
        for n, flips in enumerate((uniform(keys, 0) < self.p).tolist()):
            out[n] = x[n][self.flip_index] if flips else x[n]
        return out


class RandomHorizontalFlip(Flip):
    """Mirrors each image left to right with probability `p`.

    Parameters
    ----------
    p : float, optional
        How likely.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> transforms.RandomHorizontalFlip(p=1.0)(images)[0, 0, 0]
    array([3, 2, 1, 0], dtype=uint8)
    """

    flip_index = (Ellipsis, slice(None, None, -1))


class RandomVerticalFlip(Flip):
    """Mirrors each image top to bottom with probability `p`.

    Parameters
    ----------
    p : float, optional
        How likely.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> transforms.RandomVerticalFlip(p=1.0)(images)[0, 0, 0]
    array([12, 13, 14, 15], dtype=uint8)
    """

    flip_index = (Ellipsis, slice(None, None, -1), slice(None))


class Resize(Transform):
    """Images of another size.

    Parameters
    ----------
    size : int or (int, int)
        Height and width; or one number, which the shorter side becomes.
    interpolation : str, optional
        "nearest", "bilinear" or "bicubic".
    antialias : bool, optional
        Whether a smaller image is an average of all pixels of the larger one.

    Notes
    -----
    Bytes are rounded and clipped back to bytes.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> transforms.Resize((8, 6))(images).shape
    (1, 1, 8, 6)
    """

    def __init__(
        self, size: int | Sequence[int], interpolation: str = "bilinear", antialias: bool = True
    ) -> None:
        sizes = pair("Resize", size)
        self.size = size if isinstance(size, int) else sizes
        if interpolation not in ("nearest", "bilinear", "bicubic"):
            raise ValueError(
                "Resize: interpolation is not 'nearest', 'bilinear' or 'bicubic': "
                f"{interpolation!r}"
            )
        self.interpolation = interpolation
        self.antialias = antialias

    def change(self, x: Array, keys: Array | None) -> Array:
        if isinstance(self.size, int):
            height, width = x.shape[2:]
            short = min(height, width)
            size = (self.size * height // short, self.size * width // short)
        else:
            size = self.size
        return resize(x, size, self.interpolation, self.antialias)


class RandomResizedCrop(Transform):
    """A random box of each image, resized: the "Inception crop" (Szegedy et al. 2015).

    Parameters
    ----------
    size : int or (int, int)
        Height and width, or one number for both.
    scale : (float, float), optional
        The box's area as a share of the image's, from and to.
    ratio : (float, float), optional
        The box's width over its height, from and to.
    interpolation : str, optional
        As in `Resize`.
    antialias : bool, optional
        As in `Resize`.

    Examples
    --------
    >>> from shmtensor.dataloaders import transforms
    >>> images = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> transforms.RandomResizedCrop(8)(images).shape
    (1, 1, 8, 8)
    """

    is_random = True

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
        antialias: bool = True,
    ) -> None:
        self.size = pair("RandomResizedCrop", size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.antialias = antialias

    def change(self, x: Array, keys: Array | None) -> Array:
        assert keys is not None
        boxes = sample_boxes(keys, x.shape[2], x.shape[3], self.scale, self.ratio)
        out = empty((*x.shape[:2], *self.size), x.dtype)
        for n, (top, left, height, width) in enumerate(boxes.tolist()):
            box = x[n : n + 1, :, top : top + height, left : left + width]
            out[n] = resize(box, self.size, self.interpolation, self.antialias)[0]
        return out


def sample_boxes(
    keys: Array, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> Array:
    """A box (top, left, height, width) for each key, `(N, 4)`: the first of ten draws that fits,
    else the largest in the middle whose ratio is allowed (C. Szegedy et al., "Going deeper with
    convolutions", 2015, as in torchvision)."""
    low, high = np.log(ratio)
    image_ratio = width / height
    box_ratio = min(max(image_ratio, ratio[0]), ratio[1])
    h = height if image_ratio > box_ratio else min(height, round(width / box_ratio))
    w = round(height * box_ratio) if image_ratio > box_ratio else width
    boxes = np.empty((len(keys), 4), np.int64)
    boxes[:] = ((height - h) // 2, (width - w) // 2, h, w)
    pending = np.ones(len(keys), bool)
    for attempt in range(ATTEMPTS):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * uniform(keys, 4 * attempt))
        shape = np.exp(low + (high - low) * uniform(keys, 4 * attempt + 1))
        ws, hs = np.rint(np.sqrt(area * shape)), np.rint(np.sqrt(area / shape))
        fits = pending & (ws > 0) & (ws <= width) & (hs > 0) & (hs <= height)
        tops = integers(keys, 4 * attempt + 2, np.maximum(height - hs + 1, 1).astype(np.int64))
        lefts = integers(keys, 4 * attempt + 3, np.maximum(width - ws + 1, 1).astype(np.int64))
        boxes[fits] = np.stack([tops, lefts, hs, ws], 1)[fits].astype(np.int64)
        pending &= ~fits
    return boxes


# ------------------------------------------------------------------ pixels
def crop(x: Array, out: Array, top: int, left: int, fill: float) -> None:
    """Writes the part of `x` from (top, left) on into `out`, with `fill` beyond its borders."""
    height, width = out.shape[-2:]
    y0, x0 = max(top, 0), max(left, 0)
    y1, x1 = min(top + height, x.shape[-2]), min(left + width, x.shape[-1])
    if (y1 - y0, x1 - x0) != (height, width):
        out[...] = fill
    if y1 > y0 and x1 > x0:
        inner = (..., slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
        out[inner] = x[..., y0:y1, x0:x1]


def pad(x: Array, padding: tuple[int, int, int, int], fill: float, mode: str) -> Array:
    left, top, right, bottom = padding
    if mode != "constant":
        return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), mode)  # type: ignore[call-overload, no-any-return]
    out = empty((*x.shape[:2], x.shape[2] + top + bottom, x.shape[3] + left + right), x.dtype)
    crop(x, out, -top, -left, fill)
    return out


def resize(x: Array, size: tuple[int, int], mode: str, antialias: bool) -> Array:
    """`x` `(N, C, H, W)` with other `H` and `W`."""
    if x.shape[2:] == size:
        return x
    if mode == "nearest":
        with no_grad():
            return interpolate(wrap(x), size, mode=mode).array  # type: ignore[no-any-return]
    floats = x.astype(np.float32) if x.dtype.kind != "f" else x
    with no_grad():
        y = interpolate(wrap(floats), size, mode=mode, antialias=antialias).array
    if x.dtype.kind == "f":
        return y  # type: ignore[no-any-return]
    limits = np.iinfo(x.dtype)
    out = empty(y.shape, x.dtype)
    np.copyto(out, np.clip(np.rint(y), limits.min, limits.max), casting="unsafe")
    return out


def padding_sides(where: str, padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Left, top, right, bottom."""
    values = [padding] if isinstance(padding, int) else list(padding)
    if len(values) not in (1, 2, 4) or any(int(n) != n or n < 0 for n in values):
        raise ValueError(f"{where}: padding is not 1, 2 or 4 whole numbers: {padding!r}")
    left, top, right, bottom = {1: values * 4, 2: values * 2, 4: values}[len(values)]
    return left, top, right, bottom


def mode_of(where: str, mode: str) -> str:
    if mode not in MODES:
        raise ValueError(f"{where}: padding_mode is not one of {list(MODES)}: {mode!r}")
    return mode
