"""`pad`: with one number, or with the tensor's elements reflected, replicated or wrapped around."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..table.memory_format import contiguous_or_clone, like_image
from ..table.op_table import composite
from ..table.sizes import SMALL, check_size
from .resample import Taps
from .sliding_window import as_ints

MODES = ("constant", "reflect", "replicate", "circular")


def reflect(at: Any, n: int) -> Any:
    """Indices outside 0 to n - 1, reflected at the first and last element."""
    at = abs(at)
    return np.where(at >= n, 2 * (n - 1) - at, at)


@lru_cache(maxsize=64)  # tensors often have the same size
def padded_taps(mode: str, n: int, before: int, after: int) -> Taps | None:
    """The element of each result in the padded dimension; None if it is not padded."""
    if not before and not after:
        return None
    return Taps(n, padded_indices(mode, n, before, after)[:, None])


def padded_indices(mode: str, n: int, before: int, after: int) -> Any:
    """For each element of the padded dimension its index of 0 to n - 1."""
    at = np.arange(-before, n + after)
    if mode == "reflect":
        return reflect(at, n)
    if mode == "replicate":
        return np.clip(at, 0, n - 1)
    inside = np.arange(max(-before, 0), n - max(-after, 0))  # cropped elements do not wrap around
    return inside[np.arange(-max(before, 0), len(inside) + max(after, 0)) % len(inside)]


def check_padding(mode: str, n: int, before: int, after: int, shape: tuple[int, ...]) -> None:
    """Raises RuntimeError if the padding is larger than the mode allows."""
    limit = {"reflect": n - 1, "circular": n}.get(mode)
    if limit is not None and max(before, after) > limit:
        raise RuntimeError(
            f"pad: {mode} padding must be at most {limit} for a size of {n}: "
            f"({before}, {after}), input has {shape}"
        )
    if n + before + after < 1 or not n:
        raise RuntimeError(
            f"pad: the padded size would be empty: size {n}: ({before}, {after}), {shape}"
        )


@composite(method=False, function=False)
def pad(ops, input, pad, mode="constant", value=None):
    """Adds elements at the ends of dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype; for modes other than "constant" `(N, C, ...)` or `(C, ...)`.
    pad : tuple of int
        Elements before and after the last dimension, then those of the one before it, and so on.
        Negative numbers cut off.
    mode : str, optional
        "constant" (`value`), "reflect" (mirrored, without the edge), "replicate" (the edge) or
        "circular" (from the other end).
    value : float, optional
        What "constant" adds; 0 if None.

    Returns
    -------
    Tensor
        Of the input's dtype. Copies: one.

    Raises
    ------
    NotImplementedError
        There is no such mode, or not for so many dimensions.
    TypeError
        pad is not made of ints.
    ValueError
        A value is given for another mode.
    RuntimeError
        The padding does not fit.

    See Also
    --------
    nn.ConstantPad2d, nn.ReflectionPad2d

    Examples
    --------
    >>> x = st.tensor([[[1, 2, 3]]])
    >>> F.pad(x, (1, 2))
    tensor([[[0, 1, 2, 3, 0, 0]]])
    >>> F.pad(x, (1, 0, 0, 1), value=9)
    tensor([[[9, 1, 2, 3],
             [9, 9, 9, 9]]])
    >>> F.pad(x, (1, 1), mode="reflect")
    tensor([[[2, 1, 2, 3, 2]]])
    """
    pad = list(as_ints("pad", "pad", pad))
    if mode == "constant":
        return ops.constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in MODES:
        raise NotImplementedError(f"pad: no such mode: {mode!r}, one of {MODES} is needed")
    if value:
        raise ValueError(f"pad: mode {mode!r} takes no value: {value}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"pad: needs two numbers for a dimension: {tuple(pad)}, {tuple(input.shape)}"
        )
    if len(pad) not in (2, 4, 6) or input.ndim - len(pad) // 2 not in (1, 2):
        raise NotImplementedError(
            f"pad: {mode} padding needs 2, 4 or 6 numbers, for half as many dimensions after "
            f"(N, C) or (C,): {tuple(pad)}, {tuple(input.shape)}"
        )
    shape, original = tuple(input.shape), input
    if max(pad) > SMALL:
        widths = [max(a + b, 0) for a, b in zip(pad[::2], pad[1::2], strict=True)]
        inner = [n + w for n, w in zip(reversed(shape), widths, strict=False)]
        outer = shape[: len(shape) - len(inner)]
        check_size("pad", (*outer, *inner), np.dtype(input.dtype).itemsize)
    taps: list[Taps | None] = []
    for i in range(len(pad) // 2):
        before, after, n = pad[2 * i], pad[2 * i + 1], shape[len(shape) - 1 - i]
        check_padding(mode, n, before, after, shape)
        taps.insert(0, padded_taps(mode, n, before, after))
    if any(taps):
        input = ops._resample(input, tuple(taps))
    return (contiguous_or_clone if mode == "circular" else like_image)(ops, input, original)
