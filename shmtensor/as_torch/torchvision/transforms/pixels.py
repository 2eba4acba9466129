"""Transforms of the kind of image and of its pixels, and sequences of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmtensor.functions import rand
from shmtensor.nn import Module

from ....dataloaders.transforms.compose import probability
from . import functional as F

__all__ = [
    "Compose",
    "ConvertImageDtype",
    "Grayscale",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "RandomApply",
    "ToPILImage",
    "ToTensor",
]


class Compose:
    """Several transforms, one after another. Args: transforms: functions of an image."""

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        lines = "".join(f"\n    {transform!r}" for transform in self.transforms)
        return f"Compose({lines}\n)"


class Lambda:
    """A function as a transform. Args: lambd: the function."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Lambda: not a function: {type(lambd)}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class ToTensor:
    """A float tensor `(C, H, W)`; see `functional.to_tensor`."""

    def __call__(self, pic: Any) -> Any:
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """A tensor `(C, H, W)` of the pixels as they are."""

    def __call__(self, pic: Any) -> Any:
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return "PILToTensor()"


class ToPILImage:
    """An image of Pillow. Args: mode: of Pillow, by the number of channels if None."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return "ToPILImage()"


class ConvertImageDtype(Module):
    """A tensor of another dtype: bytes 0 .. 255 are floats 0 .. 1."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Any) -> Any:
        return F.convert_image_dtype(image, self.dtype)


class Normalize(Module):
    """`(x - mean) / std` of each channel.

    Args:
        mean: of each channel.
        std: of each channel.
        inplace: change the tensor itself.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Any) -> Any:
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def extra_repr(self) -> str:
        return f"mean={self.mean}, std={self.std}"


class Grayscale(Module):
    """A grey image. Args: num_output_channels: 1 or 3."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, self.num_output_channels)


class RandomApply(Module):
    """Applies all of some transforms with probability `p`, or none."""

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = probability("RandomApply", p)

    def forward(self, img: Any) -> Any:
        if float(rand(1)) >= self.p:
            return img
        for transform in self.transforms:
            img = transform(img)
        return img
