"""The functions under the transforms, for an image of Pillow or a tensor `(..., H, W)`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from shmtensor.dtypes import float32, get_default_dtype, iinfo, uint8
from shmtensor.functions import zeros
from shmtensor.nn import functional as F
from shmtensor.tensor import Tensor
from shmtensor.tensor.from_data import as_tensor, from_numpy

from ....dataloaders.transforms.compose import pair
from ....dataloaders.transforms.crop_flip_resize import padding_sides

__all__ = [
    "InterpolationMode",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "get_dimensions",
    "get_image_size",
    "hflip",
    "image_of",
    "normalize",
    "pad",
    "pil_to_tensor",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "to_grayscale",
    "to_pil_image",
    "to_tensor",
    "vflip",
]


class InterpolationMode(Enum):
    """How `resize` makes pixels between pixels."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


# Pillow's numbers, which torchvision also takes.
OF_PILLOW = {
    0: InterpolationMode.NEAREST,
    2: InterpolationMode.BILINEAR,
    3: InterpolationMode.BICUBIC,
}
GREY = (0.2989, 0.587, 0.114)  # shares of red, green and blue, as in torchvision


# ------------------------------------------------------------------ kinds of images
def image_of(pixels: Any) -> Any:
    """The image of uint8 pixels `(H, W)` or `(H, W, C)`: Pillow's, or where that is not installed a
    tensor `(C, H, W)`."""
    array = pixels.numpy() if isinstance(pixels, Tensor) else pixels
    try:
        from PIL import Image
    except ModuleNotFoundError:
        planes = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
        return from_numpy(planes.copy())
    return Image.fromarray(array)


def to_tensor(pic: Any) -> Tensor:
    """A float tensor `(C, H, W)` of an image of Pillow or an array `(H, W)` or `(H, W, C)`; bytes
    become 0 .. 1. A uint8 tensor `(C, H, W)` is taken as well. Copies: one."""
    if isinstance(pic, Tensor):
        x = pic
    elif isinstance(pic, np.ndarray):
        planes = pic[None] if pic.ndim == 2 else pic.transpose(2, 0, 1)
        x = from_numpy(planes.copy())
    else:
        if pic.mode == "1":
            pic = pic.convert("L")
            return to_tensor(pic)
        x = pil_to_tensor(pic)
    if x.dtype == uint8:
        return x.to(get_default_dtype()).div_(255)
    return x.contiguous()


def pil_to_tensor(pic: Any) -> Tensor:
    """A tensor `(C, H, W)` of the pixels of an image of Pillow. Copies: one."""
    array = np.array(pic)
    if array.dtype == np.uint16:
        array = array.astype(np.int32)
    planes = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return from_numpy(planes).clone()


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """An image of Pillow of a tensor `(C, H, W)` or `(H, W)` (floats of 0 .. 1), or of an array
    `(H, W, C)` or `(H, W)`; as `image_of` without Pillow. Copies: one."""
    if isinstance(pic, Tensor):
        if pic.dtype.kind == "f":
            pic = pic.detach().mul(255).to(uint8)
        pic = pic.numpy() if pic.ndim == 2 else pic.permute(1, 2, 0).numpy()
    array = np.ascontiguousarray(pic[..., 0] if pic.ndim == 3 and pic.shape[-1] == 1 else pic)
    image = image_of(array)
    return image if mode is None or isinstance(image, Tensor) else image.convert(mode)


def convert_image_dtype(image: Tensor, dtype: Any = None) -> Tensor:
    """A tensor of another dtype: bytes 0 .. 255 are floats 0 .. 1. Copies: one."""
    dtype = float32 if dtype is None else dtype
    x = image if image.dtype.kind == "f" else image.to(float32) / largest(image.dtype)
    if zeros(0, dtype=dtype).is_floating_point():
        return x.to(dtype)
    return x.mul(largest(dtype) + 1 - 1e-3).to(dtype)


def largest(dtype: Any) -> int:
    return int(iinfo(dtype).max)


def get_dimensions(img: Any) -> list[int]:
    """Channels, height, width."""
    if isinstance(img, Tensor):
        return [img.shape[-3] if img.ndim > 2 else 1, *img.shape[-2:]]
    return [len(img.getbands()), img.height, img.width]


def get_image_size(img: Any) -> list[int]:
    """Width, height."""
    return get_dimensions(img)[:0:-1]


# ------------------------------------------------------------------ geometry
def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The part from (top, left) on, with zeros beyond the borders. Copies: none inside a tensor."""
    if not isinstance(img, Tensor):
        return img.crop((left, top, left + width, top + height))
    _, h, w = get_dimensions(img)
    bottom, right = top + height - h, left + width - w
    part = img[..., max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    if min(top, left, -bottom, -right) < 0:
        sides = (max(-left, 0), max(right, 0), max(-top, 0), max(bottom, 0))
        part = F.pad(part, sides)
    return part


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle; smaller images get zeros around them."""
    height, width = pair("center_crop", output_size)
    _, h, w = get_dimensions(img)
    return crop(img, round((h - height) / 2), round((w - width) / 2), height, width)


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    return img.flip(-1) if isinstance(img, Tensor) else img.transpose(0)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return img.flip(-2) if isinstance(img, Tensor) else img.transpose(1)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """More pixels around the image.

    Args:
        padding: on all sides; or (left and right, top and bottom); or (left, top, right, bottom).
        fill: their value, for the mode "constant".
        padding_mode: "constant", "edge", "reflect" or "symmetric".
    """
    left, top, right, bottom = padding_sides("pad", padding)
    is_tensor = isinstance(img, Tensor)
    if not is_tensor and padding_mode == "constant":
        from PIL import ImageOps

        return ImageOps.expand(img, (left, top, right, bottom), fill)
    if is_tensor and padding_mode == "constant":
        return F.pad(img, (left, right, top, bottom), value=fill)
    array = img.numpy() if is_tensor else np.asarray(img)
    first = array.ndim - 2 if is_tensor else 0
    sides = [(0, 0)] * array.ndim
    sides[first], sides[first + 1] = (top, bottom), (left, right)
    padded: Any = np.pad(array, sides, padding_mode)  # type: ignore[call-overload]
    return from_numpy(padded) if is_tensor else image_of(padded)


def resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image with another size.

    Args:
        size: height and width; or one number, which the shorter side becomes.
        interpolation: an `InterpolationMode`, or Pillow's number of one.
        max_size: the most that the longer side becomes, where `size` is one number.
        antialias: whether a smaller tensor is an average of all pixels; Pillow's always is.
    """
    mode = OF_PILLOW[int(interpolation)] if isinstance(interpolation, int) else interpolation
    _, h, w = get_dimensions(img)
    height, width = target_size(size, h, w, max_size)
    if not isinstance(img, Tensor):
        number = next(number for number, other in OF_PILLOW.items() if other is mode)
        return img if (height, width) == (h, w) else img.resize((width, height), number)
    smooth = mode is not InterpolationMode.NEAREST
    x = img.reshape(-1, *img.shape[-3:]) if img.ndim != 4 else img
    floats = x if x.dtype.kind == "f" else x.to(float32)
    y = F.interpolate(
        floats, (height, width), mode=mode.value, antialias=smooth and bool(antialias)
    )
    if img.dtype.kind != "f":
        y = y.round().clamp(0, largest(img.dtype)).to(img.dtype)
    return y.reshape(*img.shape[:-2], height, width)


def target_size(size: Any, height: int, width: int, max_size: int | None) -> tuple[int, int]:
    sizes = [size] if isinstance(size, int) else list(size)
    if len(sizes) == 2:
        return pair("resize", sizes)
    short, long = sorted((height, width))
    new_short, new_long = int(sizes[0]), int(sizes[0] * long / short)
    if max_size is not None and new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_short, new_long) if height <= width else (new_long, new_short)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A part, resized."""
    part = crop(img, top, left, height, width)
    return resize(part, size, interpolation, antialias=antialias)


# ------------------------------------------------------------------ pixels
def normalize(
    tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    """`(x - mean) / std` of each channel of `(..., C, H, W)`. Copies: one; none if `inplace`.

    Raises:
        TypeError: no tensor of floats.
        ValueError: a std of 0.
    """
    if not isinstance(tensor, Tensor) or tensor.dtype.kind != "f":
        kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor)
        raise TypeError(f"normalize: not a tensor of floats: {kind}, put ToTensor before it")
    shape = (-1, 1, 1)
    means = as_tensor(mean, dtype=tensor.dtype).reshape(shape)
    deviations = as_tensor(std, dtype=tensor.dtype).reshape(shape)
    if bool((deviations == 0).any()):
        raise ValueError(f"normalize: std is 0: {std}")
    x = tensor if inplace else tensor.clone()
    return x.sub_(means).div_(deviations)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """A grey image of 1 or 3 channels."""
    if num_output_channels not in (1, 3):
        raise ValueError(f"rgb_to_grayscale: channels are not 1 or 3: {num_output_channels}")
    if not isinstance(img, Tensor):
        grey = img.convert("L")
        return grey if num_output_channels == 1 else grey.convert("RGB")
    x = img[..., :1, :, :]
    if img.shape[-3] == 3:
        floats = img.to(float32) if img.dtype.kind != "f" else img
        red, green, blue = floats.unbind(-3)
        x = (red * GREY[0] + green * GREY[1] + blue * GREY[2]).to(img.dtype).unsqueeze(-3)
    return x.expand(*img.shape[:-3], num_output_channels, *img.shape[-2:])


to_grayscale = rgb_to_grayscale
