"""Transforms of the shape: resize, crop, pad, flip. Random ones draw from the default generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shmtensor.functions import empty, rand, randint
from shmtensor.nn import Module

from ....dataloaders.transforms.compose import pair, probability
from . import functional as F
from .functional import InterpolationMode

__all__ = [
    "CenterCrop",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
]

ATTEMPTS = 10  # boxes drawn before RandomResizedCrop takes the middle


def draw(n: int) -> int:
    """A random number below n."""
    return int(randint(0, n, (1,)))


def draw_between(low: float, high: float) -> float:
    return float(empty(1).uniform_(low, high))


class Resize(Module):
    """An image of another size; arguments as of `functional.resize`."""

    def __init__(
        self,
        size: Any,
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def extra_repr(self) -> str:
        return f"size={self.size}"


class CenterCrop(Module):
    """The middle. Args: size: height and width, or one number for both."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = pair("CenterCrop", size)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)

    def extra_repr(self) -> str:
        return f"size={self.size}"


class Pad(Module):
    """More pixels around the image; arguments as of `functional.pad`."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class RandomCrop(Module):
    """A part at a random place.

    Args:
        size: height and width, or one number for both.
        padding: pixels added around the image first, as `functional.pad` takes them.
        pad_if_needed: pads an image that is smaller than `size`.
        fill: the value of padded pixels.
        padding_mode: as of `functional.pad`.

    Raises:
        ValueError: the image is smaller than `size`, on the call.
    """

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = pair("RandomCrop", size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        height, width = self.size
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, h, w = F.get_dimensions(img)
        if self.pad_if_needed and (h < height or w < width):
            sides = (max(width - w, 0), max(height - h, 0))
            img = F.pad(img, sides, self.fill, self.padding_mode)
            _, h, w = F.get_dimensions(img)
        if h < height or w < width:
            raise ValueError(
                f"RandomCrop: the image is smaller than the crop: {h} x {w}, {height} x {width}, "
                "use pad_if_needed=True"
            )
        return F.crop(img, draw(h - height + 1), draw(w - width + 1), height, width)

    def extra_repr(self) -> str:
        return f"size={self.size}, padding={self.padding}"


class RandomHorizontalFlip(Module):
    """Exchanges left and right with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = probability("RandomHorizontalFlip", p)

    def forward(self, img: Any) -> Any:
        return F.hflip(img) if float(rand(1)) < self.p else img

    def extra_repr(self) -> str:
        return f"p={self.p}"


class RandomVerticalFlip(RandomHorizontalFlip):
    """Exchanges top and bottom with probability `p`."""

    def forward(self, img: Any) -> Any:
        return F.vflip(img) if float(rand(1)) < self.p else img


class RandomResizedCrop(Module):
    """A random box, resized.

    Args:
        size: height and width, or one number for both.
        scale: the box's area as a share of the image's, from and to.
        ratio: the box's width over its height, from and to.
        interpolation: as of `functional.resize`.
        antialias: as of `functional.resize`.

    Source: C. Szegedy et al., "Going deeper with convolutions", CVPR 2015.
    """

    def __init__(
        self,
        size: Any,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = pair("RandomResizedCrop", size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.antialias = antialias

    @staticmethod
    def get_params(
        img: Any, scale: Sequence[float], ratio: Sequence[float]
    ) -> tuple[int, int, int, int]:
        """Top, left, height and width of a random box; the largest in the middle whose ratio is
        allowed if ten draws do not fit."""
        _, height, width = F.get_dimensions(img)
        for _ in range(ATTEMPTS):
            area = height * width * draw_between(scale[0], scale[1])
            aspect = math.exp(draw_between(math.log(ratio[0]), math.log(ratio[1])))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return draw(height - h + 1), draw(width - w + 1), h, w
        aspect = min(max(width / height, min(ratio)), max(ratio))
        h = min(height, round(width / aspect))
        w = min(width, round(height * aspect))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        box = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *box, self.size, self.interpolation, self.antialias)

    def extra_repr(self) -> str:
        return f"size={self.size}, scale={self.scale}, ratio={self.ratio}"
