"""Layers that change an image's size by interpolation: Upsample and its two older forms."""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor
from .. import functional as F
from .module import Module
from .utils import Ratios, Sizes

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Sequences, images or volumes resampled to a size or by a factor.

    Parameters
    ----------
    size : int or tuple of int, optional
        The new size.
    scale_factor : float or tuple of float, optional
        The new size over the old one, instead of `size`.
    mode : str, optional
        "nearest", "linear" (3 dimensions), "bilinear" or "bicubic" (4), "trilinear" (5).
    align_corners : bool, optional
        Whether the centres of the corner elements coincide; not for "nearest".
    recompute_scale_factor : bool, optional
        Whether the ratio is that of the sizes, which are whole numbers, instead of scale_factor.

    See Also
    --------
    functional.interpolate

    Notes
    -----
    Shape: `(N, C, *sizes)` with 1 to 3 sizes, to `(N, C, *size)`.

    Examples
    --------
    >>> nn.Upsample(scale_factor=2)(st.tensor([[[1., 2.]]]))
    tensor([[[1., 1., 2., 2.]]])
    >>> nn.Upsample(size=(6, 8), mode="bilinear")(st.ones(1, 3, 2, 2)).shape
    Size([1, 3, 6, 8])
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
    """`Upsample` of images with mode "nearest".

    Parameters
    ----------
    size : int or (int, int), optional
        The new size.
    scale_factor : float or (float, float), optional
        The new size over the old one, instead of `size`.

    Examples
    --------
    >>> nn.UpsamplingNearest2d(scale_factor=2)(st.tensor([[[[1., 3.]]]]))
    tensor([[[[1., 1., 3., 3.],
              [1., 1., 3., 3.]]]])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Ratios | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images with mode "bilinear" and aligned corners.

    Parameters
    ----------
    size : int or (int, int), optional
        The new size.
    scale_factor : float or (float, float), optional
        The new size over the old one, instead of `size`.

    Examples
    --------
    >>> nn.UpsamplingBilinear2d(size=(1, 3))(st.tensor([[[[1., 3.]]]]))
    tensor([[[[1., 2., 3.]]]])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Ratios | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
