"""Pooling: each window's largest element, mean or norm.

Images are (N, C, *size) or (C, *size).
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ... import native
from ..table.memory_format import like_image
from ..table.native_or_numpy import kernel_or_fallback, narrowed, widened
from ..table.op_definition import op
from .sliding_window import Shape, added_back, counts, each, ints, numbers, padded

# ---- windows of one size


def lowest(dtype: Any) -> Any:
    """The smallest number of a dtype."""
    return -math.inf if dtype.kind == "f" else np.iinfo(dtype).min


def beyond(size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, fit: Shape):
    """How far the windows reach past the end of each dimension."""
    return tuple(
        max(p, s * (f - 1) + d * (k - 1) + 1 - n - p)
        for n, k, s, p, d, f in zip(size, kernel, stride, padding, dilation, fit, strict=True)
    )


def flat_place(xp: Any, size: Shape, places: list[Any]) -> Any:
    """Index vectors, one for each dimension, as one index of the flattened image (broadcast)."""
    found, step, n = 0, 1, len(size)
    for d in range(n - 1, -1, -1):
        found = found + places[d].reshape(-1, *(1,) * (n - 1 - d)) * step
        step *= size[d]
    return found


def take_better(xp: Any, best: Any, at: Any, part: Any, place: Any) -> None:
    """Writes what is larger, or NaN, and where it is."""
    better = (part > best) | (part != part)
    xp.copyto(best, part, where=better)
    xp.copyto(at, xp.broadcast_to(place, at.shape), where=better)


@op(
    method=False,
    function=False,
    outputs="values indices",
    samples=[
        ((2, 3, 7), (2,), (2,), (0,), (1,), False),
        ((2, 6, 7), (3, 2), (2, 1), (1, 1), (1, 2), False),
        ((1, 2, 5, 6), (2, 3), (2, 2), (1, 0), (1, 1), True),
        ((1, 4, 4, 4), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), False),
    ],
    layout="images x",
    vmap="images",
)
def _max_pool(xp, x, /, kernel, stride, padding, dilation, ceil):
    """The largest element of each window (NaN is larger than any), and its index in the image."""
    n = len(kernel)
    size = x.shape[x.ndim - n :]
    fit = counts(size, kernel, stride, padding, dilation, ceil)
    after = beyond(size, kernel, stride, padding, dilation, fit)
    wide = padded(xp, x, padding, after, lowest(x.dtype))
    shape = (*x.shape[: x.ndim - n], *fit)
    best, at = xp.full(shape, lowest(x.dtype), x.dtype), xp.full(shape, -1, np.int64)
    starts = [xp.arange(f) * s - p for f, s, p in zip(fit, stride, padding, strict=True)]
    for offset, index in each(kernel, stride, dilation, fit):
        places = [a + o * d for a, o, d in zip(starts, offset, dilation, strict=True)]
        take_better(xp, best, at, wide[index], flat_place(xp, size, places))
    if at.size and at.min() < 0:  # nothing but the smallest number: the window's first element
        firsts = [xp.where(a < 0, a + -(a // d) * d, a) for a, d in zip(starts, dilation)]
        at = xp.where(at < 0, flat_place(xp, size, firsts), at)
    return best, at


def fast_max(x: Any, kernel: Shape, *rest: Any) -> Any:
    """The native kernel, for as many windows as there are: stride, padding, dilation, ceil."""
    fit = counts(x.shape[x.ndim - len(kernel) :], kernel, *rest)
    return native.max_pool(x, kernel, rest[0], rest[1], rest[2], fit)


_max_pool.numpy = kernel_or_fallback(fast_max, _max_pool.forward)


def unpool(ops: Any, g: Any, indices: Any, shape: Shape, n: int) -> Any:
    """g added at the indices of images of a shape, of which the last n dimensions count."""
    if isinstance(g, np.ndarray):
        found = native.call(native.value_selecting_reduction_backward, g, indices, tuple(shape), n)
        if found is not None:
            return found
    lead, size = tuple(shape[: len(shape) - n]), tuple(shape[len(shape) - n :])
    rows = (*lead, math.prod(g.shape[len(lead) :]))
    places = ops.reshape(indices, rows)
    out = ops._gather_backward(ops.reshape(g, rows), places, (*lead, math.prod(size)), -1)
    return ops.reshape(out, shape)


_max_pool.pullback(
    x=lambda ops, g, indices, x_shape, kernel: unpool(ops, g, indices, x_shape, len(kernel))
)


@op(
    method=False,
    function=False,
    samples=[
        ((2, 3, 7), (2,), (2,), (0,), False),
        ((2, 6, 7), (3, 2), (2, 1), (1, 1), False),
        ((1, 2, 5, 6), (2, 3), (2, 2), (1, 0), True),
    ],
    layout="images x",
    vmap="images",
)
def _sum_pool(xp, x, /, kernel, stride, padding, ceil):
    """The sum of each window; outside the image are zeros."""
    n, ones = len(kernel), (1,) * len(kernel)
    size = x.shape[x.ndim - n :]
    fit = counts(size, kernel, stride, padding, ones, ceil)
    wide = padded(xp, x, padding, beyond(size, kernel, stride, padding, ones, fit))
    out = xp.zeros((*x.shape[: x.ndim - n], *fit), x.dtype)
    for _, index in each(kernel, stride, ones, fit):
        out += wide[index]
    return out


@op(
    method=False,
    function=False,
    samples=[
        ((2, 3, 3), (7,), (2,), (2,), (0,), False),
        ((1, 2, 3, 3), (5, 6), (2, 3), (2, 2), (1, 0), True),
    ],
    layout="images x",
)
def _sum_pool_backward(xp, x, /, size, kernel, stride, padding, ceil):
    """Each number added to all elements of its window, in images of a size."""
    n, ones = len(kernel), (1,) * len(kernel)
    lead = x.ndim - n
    full = xp.broadcast_to(
        x[(*(slice(None),) * lead, *(None,) * n)], (*x.shape[:lead], *kernel, *x.shape[lead:])
    )
    return xp.ascontiguousarray(added_back(xp, full, size, kernel, stride, padding, ones))


def fast_sums(x: Any, kernel: Shape, stride: Shape, padding: Shape, ceil: bool) -> Any:
    """The native kernel, for as many windows as there are; for small ones in large images NumPy's
    passes, one for each element of a window.
    """
    taps = math.prod(kernel)
    if x.size > 4096 and (taps <= 4 or (taps <= 9 and max(stride) == 1)):
        return None
    ones = (1,) * len(kernel)
    fit = counts(x.shape[x.ndim - len(kernel) :], kernel, stride, padding, ones, ceil)
    return native.sum_pool(x, kernel, stride, padding, fit)


_sum_pool.numpy = kernel_or_fallback(fast_sums, _sum_pool.forward)
_sum_pool_backward.numpy = kernel_or_fallback(
    lambda x, size, kernel, stride, padding, ceil: native.sum_pool_backward(
        x, size, kernel, stride, padding
    ),
    _sum_pool_backward.forward,
)
_sum_pool.pullback(
    x=lambda ops, g, x_shape, kernel, stride, padding, ceil: ops._sum_pool_backward(
        g, tuple(x_shape[len(x_shape) - len(kernel) :]), kernel, stride, padding, ceil
    )
)
_sum_pool_backward.pullback(
    x=lambda ops, g, kernel, stride, padding, ceil: ops._sum_pool(g, kernel, stride, padding, ceil)
)


def pooling_arguments(
    name: str,
    n: int,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Shape, Shape, Shape, Shape]:
    """kernel, stride, padding and dilation as tuples, that fit the image.

    Raises:
        RuntimeError: they do not.
        NotImplementedError: an image of bool.
    """
    kernel = numbers(name, "kernel_size", kernel_size, n)
    empty = stride is None or (not isinstance(stride, int) and not len(stride))
    stride = kernel if empty else numbers(name, "stride", stride, n)
    padding, dilation = (
        numbers(name, what, value, n)
        for what, value in (("padding", padding), ("dilation", dilation))
    )
    for what, value in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        if min(value) < 1:
            raise RuntimeError(f"{name}: {what} must be greater than zero: {value}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: pad must be non-negative: {padding}")
    if any(p > ((k - 1) * d + 1) // 2 for p, k, d in zip(padding, kernel, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: pad must be at most half of effective kernel size: pad={padding}, "
            f"kernel_size={kernel}, dilation={dilation}"
        )
    shape = tuple(x.shape)
    if x.ndim not in (n + 1, n + 2) or not all(shape[x.ndim - n - 1 :]):
        raise RuntimeError(
            f"{name}: expected {n + 1} or {n + 2} dimensions, of which only the batch's may be 0: "
            f"{shape}"
        )
    if x.dtype == bool:
        raise NotImplementedError(f"{name}: not implemented for {x.dtype}")
    fit = counts(shape[x.ndim - n :], kernel, stride, padding, dilation, ceil_mode)
    if min(fit) < 1:
        raise RuntimeError(f"{name}: no window fits: {kernel} in {shape}, output size {fit}")
    return kernel, stride, padding, dilation


def max_pool(ops, name, n, input, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """`max_pool<n>d`."""
    made = pooling_arguments(name, n, input, kernel_size, stride, padding, dilation, ceil_mode)
    found = ops._max_pool(input, *made, ceil_mode)
    return tuple(found) if indices else found[0]


def avg_pool(ops, name, n, input, kernel_size, stride, padding, ceil_mode, inside, divisor):
    """`avg_pool<n>d`."""
    if divisor == 0:
        raise RuntimeError(f"{name}: divisor must be not zero: divisor_override=0")
    kernel, stride, padding, _ = pooling_arguments(
        name, n, input, kernel_size, stride, padding, 1, ceil_mode
    )
    given, input = input.dtype, widened(ops, input)
    sums = ops._sum_pool(input, kernel, stride, padding, ceil_mode)
    if divisor is None:
        size, fit = (tuple(x.shape[input.ndim - n :]) for x in (input, sums))
        divisor = shares(size, kernel, stride, padding, fit, inside)
    if input.dtype.kind in "iu":
        divisor = divisor if isinstance(divisor, int) else divisor.astype(input.dtype)
        return ops.div(sums, divisor, rounding_mode="trunc")
    divisor = divisor if isinstance(divisor, int) else divisor.astype(input.dtype)
    return narrowed(ops, ops.div(sums, divisor), given)


@lru_cache(maxsize=64)  # images of one size follow each other
def shares(
    size: Shape, kernel: Shape, stride: Shape, padding: Shape, fit: Shape, inside: bool
) -> Any:
    """How many elements each mean is of; `inside`: the frame's zeros count as well."""
    n, found = len(size), np.ones((), np.int64)
    for d in range(n):
        start = np.arange(fit[d]) * stride[d] - padding[d]
        end = np.minimum(start + kernel[d], size[d] + (padding[d] if inside else 0))
        lengths = end - (start if inside else np.maximum(start, 0))
        found = found * lengths.reshape(-1, *(1,) * (n - 1 - d))
    same = int(found.flat[0]) if found.size and (found == found.flat[0]).all() else None
    return found if same is None else same


# ---- windows that divide the image evenly


def evenly(n: int, out: int) -> tuple[Any, Any]:
    """Starts and ends of `out` windows that cover n elements."""
    i = np.arange(out)
    return i * n // out, -(-((i + 1) * n) // out)


def adaptive_size(name: str, n: int, x: Any, output_size: Any) -> Shape:
    """The output's size, where None keeps the input's.

    Raises:
        ValueError, RuntimeError: it, or the image, does not have so many dimensions.
    """
    shape = tuple(x.shape)
    one = isinstance(output_size, int | None)
    given = [output_size] * n if one else list(output_size)
    if len(given) != n:
        raise RuntimeError(f"{name}: output_size must be {n} numbers: {output_size}")
    if len(shape) <= n:
        raise (RuntimeError if one or n == 1 else ValueError)(
            f"{name}: input dimension should be at least {n + 1}: {shape}"
        )
    if len(shape) not in (n + 1, n + 2) or not all(shape[len(shape) - n - 1 :]):
        raise RuntimeError(
            f"{name}: expected {n + 1} or {n + 2} dimensions, of which only the batch's may be 0: "
            f"{shape}"
        )
    inner = shape[len(shape) - n :]
    wanted = [m if v is None else v for m, v in zip(inner, given, strict=True)]
    size = ints(name, "output_size", wanted)
    if min(size) < 0:
        raise RuntimeError(f"{name}: elements of output_size must not be negative: {size}")
    return size


@op(
    method=False,
    function=False,
    outputs="values indices",
    samples=[((2, 3, 7), (3,)), ((2, 5, 6), (2, 4)), ((1, 2, 3, 4, 5), (2, 2, 2))],
    layout="images x",
    vmap="images",
)
def _adaptive_max_pool(xp, x, /, size):
    """The largest element of each of `size` windows, and its index in the image."""
    n = len(size)
    inner = x.shape[x.ndim - n :]
    shape = (*x.shape[: x.ndim - n], *size)
    best, at = xp.full(shape, lowest(x.dtype), x.dtype), xp.full(shape, -1, np.int64)
    ends = [evenly(m, out) for m, out in zip(inner, size, strict=True)]
    longest = [int((b - a).max()) if a.size else 0 for a, b in ends]
    for offset in product(*map(range, longest)):
        # windows that are shorter see their last element again
        places = [np.minimum(a + o, b - 1) for (a, b), o in zip(ends, offset, strict=True)]
        part = x[(..., *np.ix_(*places))]
        take_better(xp, best, at, part, flat_place(xp, inner, places))
    if at.size and at.min() < 0:
        at = xp.where(at < 0, flat_place(xp, inner, [a for a, _ in ends]), at)
    return best, at


_adaptive_max_pool.pullback(
    x=lambda ops, g, indices, x_shape, size: unpool(ops, g, indices, x_shape, len(size))
)


def adaptive_max(ops, n, input, output_size, return_indices):
    """`adaptive_max_pool<n>d`."""
    size = adaptive_size(f"adaptive_max_pool{n}d", n, input, output_size)
    found = ops._adaptive_max_pool(input, size)
    return tuple(found) if return_indices else found[0]


def adaptive_mean(ops, n, input, output_size):
    """`adaptive_avg_pool<n>d`: in one go where the windows are alike, else by dimension."""
    size = adaptive_size(f"adaptive_avg_pool{n}d", n, input, output_size)
    lead = tuple(input.shape[: input.ndim - n])
    inner = tuple(input.shape[input.ndim - n :])
    if all(size) and not any(m % out for m, out in zip(inner, size, strict=True)):
        if size == (1,) * n:
            return like_image(ops, ops.mean(input, tuple(range(-n, 0)), True), input)
        split = [v for m, out in zip(inner, size, strict=True) for v in (out, m // out)]
        parts = ops.reshape(input, (*lead, *split))
        means = ops.mean(parts, tuple(range(len(lead) + 1, len(lead) + 2 * n, 2)))
        return like_image(ops, means, input)
    given = input
    for d, (m, out) in enumerate(zip(inner, size, strict=True)):
        start, end = evenly(m, out)
        widest = int((end - start).max()) if out else 1
        at = np.minimum(start[:, None] + np.arange(widest), end[:, None] - 1)
        weights = (np.arange(widest) < (end - start)[:, None]) / np.maximum(end - start, 1)[:, None]
        input = ops._upsample(input, at, weights, len(lead) + d)
    return like_image(ops, input, given)


# ---- norms of windows


def lp_pool(ops, n, input, norm_type, kernel_size, stride, ceil_mode):
    """`lp_pool<n>d`: (sum of x ** p) ** (1 / p) over each window, by its mean times its size."""
    name = f"lp_pool{n}d"
    if abs(norm_type) == math.inf:
        size = ops.abs(input) if norm_type > 0 else ops.neg(ops.abs(input))
        found = max_pool(ops, name, n, size, kernel_size, stride, 0, 1, ceil_mode, False)
        return found if norm_type > 0 else ops.neg(found)
    kernel = numbers(name, "kernel_size", kernel_size, n)
    powers = ops.pow(input, norm_type)
    means = avg_pool(ops, name, n, powers, kernel, stride, 0, ceil_mode, True, None)
    sums = ops.mul(ops.mul(ops.sign(means), ops.relu(ops.abs(means))), math.prod(kernel))
    return ops.pow(sums, 1.0 / norm_type)
