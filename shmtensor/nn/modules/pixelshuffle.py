"""Layers that exchange channels for pixels: PixelShuffle, PixelUnshuffle."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Moves channels into the image: `(..., C * r * r, H, W)` to `(..., C, H * r, W * r)`.

    Parameters
    ----------
    upscale_factor : int
        r.

    See Also
    --------
    PixelUnshuffle

    Notes
    -----
    Shi et al.: Real-Time Single Image and Video Super-Resolution, https://arxiv.org/abs/1609.05158.

    Examples
    --------
    >>> nn.PixelShuffle(3)(st.ones(1, 9, 4, 4)).shape
    Size([1, 1, 12, 12])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Moves blocks of pixels into channels: the inverse of `PixelShuffle`.

    Parameters
    ----------
    downscale_factor : int
        r.

    See Also
    --------
    PixelShuffle

    Notes
    -----
    Shape: `(..., C, H * r, W * r)` to `(..., C * r * r, H, W)`.

    Examples
    --------
    >>> nn.PixelUnshuffle(3)(st.ones(1, 1, 12, 12)).shape
    Size([1, 9, 4, 4])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
