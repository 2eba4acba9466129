"""`torchvision.utils`: batches of images as one, and into a file."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.dtypes import uint8
from shmtensor.functions import cat, full, stack

__all__ = ["make_grid", "save_image"]


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Any:
    """One image of many.

    Args:
        tensor: images `(N, C, H, W)`, `(C, H, W)` or `(H, W)`, or a list of images `(C, H, W)`;
            images of one channel become grey ones of three.
        nrow: how many beside each other.
        padding: pixels between and around them.
        normalize: shift and scale to 0 .. 1.
        value_range: what becomes 0 and 1, instead of the smallest and the largest value.
        scale_each: scale each image by itself.
        pad_value: of the pixels between them.

    Returns: `(C, rows, columns)`; an image alone is returned without padding.

    Copies: one.
    """
    if isinstance(tensor, (list, tuple)):
        tensor = stack(list(tensor))
    x = tensor.detach()
    x = x[(None,) * (4 - x.ndim)] if x.ndim < 4 else x
    if x.ndim != 4:
        raise ValueError(f"make_grid: 2 to 4 dimensions are needed: {tuple(tensor.shape)}")
    if x.shape[1] == 1:
        x = cat([x, x, x], 1)
    if normalize:
        x = normalized(x, value_range, scale_each)
    n, channels, height, width = x.shape
    if n == 1:
        return x[0]
    columns = min(nrow, n)
    height, width = height + padding, width + padding
    size = (channels, height * math.ceil(n / columns) + padding, width * columns + padding)
    grid = full(size, pad_value, dtype=x.dtype)
    for i in range(n):
        top, left = i // columns * height + padding, i % columns * width + padding
        grid[:, top : top + height - padding, left : left + width - padding].copy_(x[i])
    return grid


def normalized(x: Any, value_range: tuple[float, float] | None, scale_each: bool) -> Any:
    """The images with values from 0 to 1."""
    if scale_each:
        return cat([normalized(image[None], value_range, False) for image in x])
    low, high = value_range or (float(x.min()), float(x.max()))
    return (x.clamp(low, high) - low) / max(high - low, 1e-5)


def save_image(tensor: Any, fp: Any, format: str | None = None, **options: Any) -> None:
    """Writes images with values from 0 to 1 into a file, many as one by `make_grid`.

    Args:
        tensor: as of `make_grid`.
        fp: a path, or a file with `format`.
        format: "png", or what Pillow writes; of the path's ending if None.
        **options: as of `make_grid`.

    PNG needs no package, other formats Pillow.
    """
    pixels = (make_grid(tensor, **options) * 255 + 0.5).clamp(0, 255).to(uint8)
    array = np.ascontiguousarray(pixels.permute(1, 2, 0).numpy())
    kind = format or (Path(fp).suffix[1:] if isinstance(fp, (str, Path)) else "png")
    if kind.lower() != "png":
        from PIL import Image

        Image.fromarray(array).save(fp, format=format)
    elif isinstance(fp, (str, Path)):
        Path(fp).write_bytes(png_of(array))
    else:
        fp.write(png_of(array))


def png_of(array: np.ndarray[Any, Any]) -> bytes:
    """The PNG file of an image of bytes `(H, W, 3)` or `(H, W, 4)`."""
    height, width, channels = array.shape
    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # a row begins with its filter, none
    rows[:, 1:] = array.reshape(height, -1)
    chunks: Sequence[tuple[bytes, bytes]] = (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(rows.tobytes())),
        (b"IEND", b""),
    )
    parts = [b"\x89PNG\r\n\x1a\n"]
    for name, data in chunks:
        checksum = struct.pack(">I", zlib.crc32(name + data))
        parts += [struct.pack(">I", len(data)), name, data, checksum]
    return b"".join(parts)
