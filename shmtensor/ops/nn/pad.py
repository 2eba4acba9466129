"""Frames around a tensor: of one number, or of its own elements mirrored, repeated or wrapped."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..table.memory_format import like_image, own
from ..table.op_definition import composite
from .sliding_window import ints

MODES = ("constant", "reflect", "replicate", "circular")


def mirrored(at: Any, n: int) -> Any:
    """Places beyond the ends, reflected at the first and last element."""
    at = abs(at)
    return np.where(at >= n, 2 * (n - 1) - at, at)


@lru_cache(maxsize=64)  # tensors of one size follow each other
def padded_indices(mode: str, n: int, before: int, after: int) -> Any:
    """The element of 0 to n - 1 that stands at each place of the framed dimension (read-only)."""
    found = placed(mode, n, before, after)
    found.flags.writeable = False
    return found


def placed(mode: str, n: int, before: int, after: int) -> Any:
    """A fresh one."""
    at = np.arange(-before, n + after)
    if mode == "reflect":
        return mirrored(at, n)
    if mode == "replicate":
        return np.clip(at, 0, n - 1)
    kept = np.arange(max(-before, 0), n - max(-after, 0))  # what is cut off does not come around
    return kept[np.arange(-max(before, 0), len(kept) + max(after, 0)) % len(kept)]


def fits(mode: str, n: int, before: int, after: int, shape: tuple[int, ...]) -> None:
    """Raises RuntimeError if the frame is wider than the mode allows."""
    limit = {"reflect": n - 1, "circular": n}.get(mode)
    if limit is not None and max(before, after) > limit:
        raise RuntimeError(
            f"pad: {mode} padding must be at most {limit} for a size of {n}: "
            f"({before}, {after}), input has {shape}"
        )
    if n + before + after < 1 or not n:
        raise RuntimeError(f"pad: nothing is left of a size of {n}: ({before}, {after}), {shape}")


@composite(method=False, function=False)
def pad(ops, input, pad, mode="constant", value=None):
    """The tensor in a frame: pad is (before, after) of the last dimension, then of the one before.

    Args:
        mode: "constant" (of `value`, 0), "reflect" (mirrored, without the edge), "replicate" (the
            edge), "circular" (from the other end).

    Raises:
        NotImplementedError: the mode does not exist, or not for so many dimensions.
        TypeError: pad is not made of ints.
        RuntimeError: the frame does not fit.
    """
    pad = list(ints("pad", "pad", pad))
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
            f"pad: {mode} padding needs 2, 4 or 6 numbers, for half as many dimensions behind "
            f"(N, C) or (C,): {tuple(pad)}, {tuple(input.shape)}"
        )
    shape, given = tuple(input.shape), input
    for i in range(len(pad) // 2):
        before, after, dim = pad[2 * i], pad[2 * i + 1], len(shape) - 1 - i
        fits(mode, shape[dim], before, after, shape)
        if before or after:
            input = ops._index_select(input, padded_indices(mode, shape[dim], before, after), dim)
    return (own if mode == "circular" else like_image)(ops, input, given)
