"""What PyTorch has as functions, too: methods of tensors, and a few small ones of its C++ side.

Imported when one of them is first asked for (`_LATER` in the package).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .autograd import table
from .tensor import Tensor

METHODS = (
    "addmv_", "as_strided_", "clamp_", "clamp_max_", "clamp_min_", "clip_", "detach", "detach_",
    "fill_", "get_device", "index_put_", "is_conj", "is_distributed", "is_inference", "is_neg",
    "is_same_size", "is_signed", "ldexp_",
)  # fmt: skip

__all__ = [
    *METHODS,
    "detach_copy",
    "norm_except_dim",
    "slice_copy",
    "split_copy",
    "vander",
    "view_as_complex_copy",
    "view_as_real_copy",
]

globals().update({name: getattr(Tensor, name) for name in METHODS})


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of the numbers of a vector (n,): (n, N), by default N = n.

    Args:
        increasing: from 0 to N - 1; otherwise the other way round, as NumPy has it.

    Raises:
        RuntimeError: x is no vector, or N is negative.
    """
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a vector: {tuple(x.shape)}")
    n = x.numel() if N is None else N
    if n < 0:
        raise RuntimeError(f"vander: N must not be negative: {n}")
    if n < 2:
        made = table.ones_like(x).unsqueeze(1)[:, :n]
        return made if x.dtype.kind in "fc" else made.long()  # type: ignore[no-any-return]
    made = table.linalg_vander(x, n)
    return made if increasing else made.flip(1)  # type: ignore[no-any-return]


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm of v over all dimensions but one, kept as sizes of 1; dim -1: over all."""
    if dim == -1:
        return table.norm(v, pow)  # type: ignore[no-any-return]
    rest = [d for d in range(v.ndim) if d != dim % v.ndim]
    return table.linalg_vector_norm(v, pow, rest, keepdim=True) if rest else v.abs()


def detach_copy(input: Tensor) -> Tensor:
    """`detach` in memory of its own. Copies: one (the result)."""
    return input.detach().clone()


def slice_copy(
    input: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """`input[start:end:step]` along a dimension, in memory of its own. Copies: one (the result).

    Raises:
        RuntimeError: step is not positive.
        IndexError: there is no such dimension.
    """
    if step <= 0:
        raise RuntimeError(f"slice_copy: step must be positive: {step}")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"slice_copy: no such dimension: {dim} of {tuple(input.shape)}")
    index = (slice(None),) * (dim % input.ndim) + (slice(start, end, step),)
    return input[index].clone()


def split_copy(input: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split` in memory of its own. Copies: one (the result)."""
    parts: Any = table.split(input, split_size, dim)
    return tuple(part.clone() for part in parts)


def view_as_complex_copy(input: Tensor) -> Tensor:
    """`view_as_complex` in memory of its own. Copies: one (the result)."""
    return table.view_as_complex(input).clone()  # type: ignore[no-any-return]


def view_as_real_copy(input: Tensor) -> Tensor:
    """`view_as_real` in memory of its own. Copies: one (the result)."""
    return table.view_as_real(input).clone()  # type: ignore[no-any-return]
