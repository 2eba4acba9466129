"""Normalisation over the last dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd import table as ops
from ...tensor import Tensor

__all__ = ["layer_norm", "rms_norm"]

layer_norm: Callable[..., Any] = ops.layer_norm


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Root mean square 1 over the last dimensions, then `* weight`.

    Raises: RuntimeError if normalized_shape is not the end of input's shape.
    """
    sizes = tuple(normalized_shape)
    n = len(sizes)
    if n == 0 or tuple(input.shape[-n:]) != sizes:
        raise RuntimeError(f"rms_norm: the shape does not end so: {tuple(input.shape)} for {sizes}")
    if eps is None:
        eps = float(np.finfo(input.dtype).eps)
    dims = tuple(range(-n, 0))
    out: Tensor = input * ((input * input).mean(dims, keepdim=True) + eps).rsqrt()
    return out if weight is None else out * weight
