"""Pooling, by the number of dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tensor import Tensor
from . import from_table as ops
from .from_table import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    fractional_max_pool2d,
    fractional_max_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

WithIndices = Callable[..., tuple[Tensor, Tensor]]


def _with_indices(name: str, position: int) -> WithIndices:
    """`name` with return_indices=True; `position` of that argument, counted after the input."""
    function: WithIndices = getattr(ops, name)

    def with_indices(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if len(args) > position:
            args = (*args[:position], True, *args[position + 1 :])
        else:
            kwargs["return_indices"] = True
        result: tuple[Tensor, Tensor] = function(input, *args, **kwargs)
        return result

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    n = int(name.partition("pool")[2][0])
    with_indices.__doc__ = f"""`{name}` with return_indices=True.

    Parameters
    ----------
    input : Tensor
        As of `{name}`.
    *args, **kwargs
        The other arguments of `{name}`.

    Returns
    -------
    (values, indices) : Tensor, Tensor
        The largest elements, and their int64 places in the flattened image.

    Examples
    --------
    >>> x = st.ones(1, 2{", 4" * n})
    >>> values, indices = F.{name}_with_indices(x, 2{", 2" * name.startswith("fractional")})
    >>> values.shape == indices.shape, indices.dtype
    (True, shmtensor.int64)
    """
    return with_indices


adaptive_max_pool1d_with_indices: WithIndices = _with_indices("adaptive_max_pool1d", 1)
adaptive_max_pool2d_with_indices: WithIndices = _with_indices("adaptive_max_pool2d", 1)
adaptive_max_pool3d_with_indices: WithIndices = _with_indices("adaptive_max_pool3d", 1)
fractional_max_pool2d_with_indices: WithIndices = _with_indices("fractional_max_pool2d", 3)
fractional_max_pool3d_with_indices: WithIndices = _with_indices("fractional_max_pool3d", 3)
max_pool1d_with_indices: WithIndices = _with_indices("max_pool1d", 5)
max_pool2d_with_indices: WithIndices = _with_indices("max_pool2d", 5)
max_pool3d_with_indices: WithIndices = _with_indices("max_pool3d", 5)
