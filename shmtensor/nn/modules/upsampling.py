"""Layers that change an image's size by interpolation: Upsample and its two older forms."""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor
from .. import functional as F
from .module import Module
from .utils import Ratios, Sizes

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """`F.interpolate` of (N, C, *size), to a size or by a factor.

    Args:
        size: the new size.
        scale_factor: by how much, instead of size.
        mode: "nearest", "linear" (L), "bilinear" and "bicubic" (H, W) or "trilinear" (D, H, W).
        align_corners: whether the centres of the corners are aligned; not for "nearest".
        recompute_scale_factor: whether the factor is recomputed from the rounded size.
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: Ratios | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: float | tuple[float, ...] | None
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None  # type: ignore[arg-type]
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) to the new size."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)!r}, mode={self.mode!r}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("recompute_scale_factor", True)


class UpsamplingNearest2d(Upsample):
    """Upsample of (N, C, H, W) with mode "nearest".

    Args:
        size: the new size.
        scale_factor: by how much, instead of size.
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Ratios | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of (N, C, H, W) with mode "bilinear" and align_corners.

    Args:
        size: the new size.
        scale_factor: by how much, instead of size.
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Ratios | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
