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
from ..table.constants import constant, on_device
from ..table.memory_format import like_image
from ..table.op_table import ROWS, op
from ..table.samples import ints
from ..table.sizes import SMALL, check_size
from .resample import Taps
from .sliding_window import (
    Shape,
    add_windows,
    are_plain,
    as_ints,
    expand_to_tuple,
    output_sizes,
    pad_with,
    window_elements,
)

# ---- windows of one size


def lowest(dtype: Any) -> Any:
    """The smallest number of a dtype."""
    return -math.inf if dtype.kind == "f" else np.iinfo(dtype).min


def end_padding(
    size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, fit: Shape
):
    """The padding that the windows need at the end of each dimension."""
    return tuple(
        max(p, s * (f - 1) + d * (k - 1) + 1 - n - p)
        for n, k, s, p, d, f in zip(size, kernel, stride, padding, dilation, fit, strict=True)
    )


def flat_index(xp: Any, size: Shape, indices: list[Any]) -> Any:
    """A vector of indices for each dimension, as indices of the flattened image (broadcast)."""
    index, step, n = 0, 1, len(size)
    for d in range(n - 1, -1, -1):
        index = index + indices[d].reshape(-1, *(1,) * (n - 1 - d)) * step
        step *= size[d]
    return index


def update_maximum(xp: Any, best: Any, indices: Any, values: Any, index: Any) -> None:
    """Writes the values that are larger than the best, or NaN, and their indices."""
    better = (values > best) | (values != values)
    xp.copyto(best, values, where=better)
    xp.copyto(indices, xp.broadcast_to(index, indices.shape), where=better)


def max_pool_kernel(x: Any, kernel: Shape, *args: Any) -> Any:
    """The native kernel; args are stride, padding, dilation, ceil."""
    fit = output_sizes(x.shape[x.ndim - len(kernel) :], kernel, *args)
    return native.max_pool(x, kernel, args[0], args[1], args[2], fit)


@op(
    native=max_pool_kernel,
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
    fit = output_sizes(size, kernel, stride, padding, dilation, ceil)
    after = end_padding(size, kernel, stride, padding, dilation, fit)
    wide = pad_with(xp, x, padding, after, lowest(x.dtype))
    shape = (*x.shape[: x.ndim - n], *fit)
    best, indices = xp.full(shape, lowest(x.dtype), x.dtype), xp.full(shape, -1, np.int64)
    starts = [xp.arange(f) * s - p for f, s, p in zip(fit, stride, padding, strict=True)]
    for offset, index in window_elements(kernel, stride, dilation, fit):
        element_indices = [a + o * d for a, o, d in zip(starts, offset, dilation, strict=True)]
        update_maximum(xp, best, indices, wide[index], flat_index(xp, size, element_indices))
    if (
        indices.size and indices.min() < 0
    ):  # all elements are the smallest number: take the first one
        firsts = [xp.where(a < 0, a + -(a // d) * d, a) for a, d in zip(starts, dilation)]
        indices = xp.where(indices < 0, flat_index(xp, size, firsts), indices)
    return best, indices


def max_pool_backward(ops: Any, g: Any, indices: Any, shape: Shape, n: int) -> Any:
    """g, added at the indices in images of a shape, whose last n dimensions are pooled."""
    if isinstance(g, np.ndarray):
        result = native.call(native.value_selecting_reduction_backward, g, indices, tuple(shape), n)
        if result is not None:
            return result
    batch, size = tuple(shape[: len(shape) - n]), tuple(shape[len(shape) - n :])
    rows = (*batch, math.prod(g.shape[len(batch) :]))
    flat_indices = ops.reshape(indices, rows)
    out = ops._gather_backward(ops.reshape(g, rows), flat_indices, (*batch, math.prod(size)), -1)
    return ops.reshape(out, shape)


@op(
    samples=[
        ((2, 3, 2), ints((2, 3, 2), 3), (5,), (5,), (1,), (2,), (1,)),
        ((1, 2, 1, 1), ints((1, 2, 1, 1), 6), (2, 3), (2, 3), (1, 1), (0, 0), (1, 1)),
        ((1, 1, 2), np.array([[[1, 1]]]), (3,), (2,), (1,), (0,), (1,)),
    ],
    layout="images x",
    vmap="alone",
)
def _max_pool_backward(xp, x, indices, /, size, kernel, stride, padding, dilation):
    """Zeros in images of a size, with each number added at the index that its window chose; one
    outside of its window is undefined: a GPU's kernel leaves it out.
    """
    lead = x.shape[: x.ndim - len(size)]
    shape = *lead, math.prod(size)
    places = indices.reshape(*lead, math.prod(indices.shape[len(lead) :]))
    out = ROWS["_gather_backward"].forward(xp, x.reshape(places.shape), places, shape, -1)
    return out.reshape(*lead, *size)


def chosen_elements(ops: Any, x: Any, indices: Any, n: int) -> Any:
    """The elements at indices in images, whose last n dimensions are pooled."""
    lead = tuple(x.shape[: x.ndim - n])
    flat = ops.reshape(x, (*lead, math.prod(x.shape[x.ndim - n :])))
    places = ops.reshape(indices, (*lead, math.prod(indices.shape[indices.ndim - n :])))
    return ops.reshape(ops._gather(flat, places, -1), tuple(indices.shape))


_max_pool_backward.pullback(
    x=lambda ops, g, indices, kernel: chosen_elements(ops, g, indices, len(kernel))
)


def gradient_of_max_pool(ops: Any, g: Any, indices: Any, shape: Shape, *windows: Shape) -> Any:
    """The gradient by images of a shape; the windows have a kernel, stride, padding, dilation."""
    n = len(windows[0])
    if on_device(g):
        return ops._max_pool_backward(g, indices, tuple(shape[len(shape) - n :]), *windows)
    return max_pool_backward(ops, g, indices, shape, n)


_max_pool.pullback(
    x=lambda ops, g, indices, x_shape, kernel, stride, padding, dilation: gradient_of_max_pool(
        ops, g, indices, x_shape, kernel, stride, padding, dilation
    )
)


def sum_pool_kernel(
    x: Any, kernel: Shape, stride: Shape, padding: Shape, ceil: bool, include_pad: bool = False,
    divisor: float = 1,
) -> Any:  # fmt: skip
    """The native kernel of the sums of windows over a divisor, or of their means (divisor 0)."""
    ones = (1,) * len(kernel)
    fit = output_sizes(x.shape[x.ndim - len(kernel) :], kernel, stride, padding, ones, ceil)
    return native.sum_pool(x, kernel, stride, padding, int(include_pad), divisor, fit)


def sum_pool_backward_kernel(
    x: Any, size: Shape, kernel: Shape, stride: Shape, padding: Shape, ceil: bool,
    include_pad: bool = False, divisor: float = 1,
) -> Any:  # fmt: skip
    """The native kernel of the gradient of `sum_pool_kernel`."""
    return native.sum_pool_backward(x, size, kernel, stride, padding, int(include_pad), divisor)


@op(
    native=sum_pool_kernel,
    samples=[
        ((2, 3, 7), (2,), (2,), (0,), False),
        ((2, 6, 7), (3, 2), (2, 1), (1, 1), False),
        ((1, 2, 5, 6), (2, 3), (2, 2), (1, 0), True),
    ],
    layout="images x",
    vmap="images",
)
def _sum_pool(xp, x, /, kernel, stride, padding, ceil):
    """The sum of each window; the padding is zeros."""
    n, ones = len(kernel), (1,) * len(kernel)
    size = x.shape[x.ndim - n :]
    fit = output_sizes(size, kernel, stride, padding, ones, ceil)
    wide = pad_with(xp, x, padding, end_padding(size, kernel, stride, padding, ones, fit))
    out = xp.zeros((*x.shape[: x.ndim - n], *fit), x.dtype)
    for _, index in window_elements(kernel, stride, ones, fit):
        out += wide[index]
    return out


@op(
    native=sum_pool_backward_kernel,
    samples=[
        ((2, 3, 3), (7,), (2,), (2,), (0,), False),
        ((1, 2, 3, 3), (5, 6), (2, 3), (2, 2), (1, 0), True),
    ],
    layout="images x",
)
def _sum_pool_backward(xp, x, /, size, kernel, stride, padding, ceil):
    """Each number, added to all elements of its window in images of a size."""
    n, ones = len(kernel), (1,) * len(kernel)
    lead = x.ndim - n
    full = xp.broadcast_to(
        x[(*(slice(None),) * lead, *(None,) * n)], (*x.shape[:lead], *kernel, *x.shape[lead:])
    )
    return xp.ascontiguousarray(add_windows(xp, full, size, kernel, stride, padding, ones))


_sum_pool.pullback(
    x=lambda ops, g, x_shape, kernel, stride, padding, ceil: ops._sum_pool_backward(
        g, tuple(x_shape[len(x_shape) - len(kernel) :]), kernel, stride, padding, ceil
    )
)
_sum_pool_backward.pullback(
    x=lambda ops, g, kernel, stride, padding, ceil: ops._sum_pool(g, kernel, stride, padding, ceil)
)


def divisors(
    xp: Any, dtype: Any, size: Shape, kernel: Shape, stride: Shape, padding: Shape, fit: Shape,
    include_pad: bool, divisor: int,
) -> Any:  # fmt: skip
    """What the sums of windows are divided by; divisor 0: their numbers of elements."""
    counts = divisor or window_counts(size, kernel, stride, padding, fit, include_pad)
    return dtype.type(counts) if isinstance(counts, int) else xp.asarray(counts.astype(dtype))


@op(
    native=sum_pool_kernel,
    samples=[
        ((2, 3, 7), (2,), (2,), (0,), False, True, 0),
        ((2, 6, 7), (3, 2), (2, 1), (1, 1), False, False, 0),
        ((1, 2, 5, 6), (2, 3), (2, 2), (1, 0), True, True, 5),
    ],
    layout="images x",
    vmap="images",
)
def _avg_pool(xp, x, /, kernel, stride, padding, ceil, include_pad, divisor):
    """`_sum_pool` over the numbers of elements, or over `divisor` if that is not 0."""
    sums = _sum_pool.forward(xp, x, kernel, stride, padding, ceil)
    size, fit = (v.shape[x.ndim - len(kernel) :] for v in (x, sums))
    windows = size, kernel, stride, padding, fit
    return sums / divisors(xp, x.dtype, *windows, include_pad, divisor)


@op(
    native=sum_pool_backward_kernel,
    samples=[
        ((2, 3, 3), (7,), (2,), (2,), (0,), False, True, 0),
        ((1, 2, 3, 3), (5, 6), (2, 3), (2, 2), (1, 0), True, False, 0),
    ],
    layout="images x",
    vmap="images",
)
def _avg_pool_backward(xp, x, /, size, kernel, stride, padding, ceil, include_pad, divisor):
    """Each number over its window's divisor, added to all elements of the window."""
    windows = size, kernel, stride, padding, x.shape[x.ndim - len(kernel) :]
    parts = x / divisors(xp, x.dtype, *windows, include_pad, divisor)
    return _sum_pool_backward.forward(xp, parts, size, kernel, stride, padding, ceil)


_avg_pool.pullback(
    x=lambda ops, g, x_shape, kernel, stride, padding, ceil, include_pad, divisor: (
        ops._avg_pool_backward(
            g, tuple(x_shape[len(x_shape) - len(kernel) :]), kernel, stride, padding, ceil,
            include_pad, divisor,
        )
    )
)  # fmt: skip
_avg_pool_backward.pullback(
    x=lambda ops, g, kernel, stride, padding, ceil, include_pad, divisor: ops._avg_pool(
        g, kernel, stride, padding, ceil, include_pad, divisor
    )
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
    """kernel, stride, padding and dilation as tuples that fit the image.

    Raises:
        RuntimeError: they do not.
        NotImplementedError: an image of bool.
    """
    given = kernel_size, stride, padding, dilation, ceil_mode
    check = checked_before if are_plain(given) else checked_arguments
    return check(name, n, tuple(x.shape), x.dtype, *given)


def checked_arguments(
    name: str,
    n: int,
    shape: Shape,
    dtype: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple[Shape, Shape, Shape, Shape]:
    """`pooling_arguments` of an image of a shape and dtype."""
    kernel = expand_to_tuple(name, "kernel_size", kernel_size, n)
    empty = stride is None or (not isinstance(stride, int) and not len(stride))
    stride = kernel if empty else expand_to_tuple(name, "stride", stride, n)
    padding, dilation = (
        expand_to_tuple(name, parameter, value, n)
        for parameter, value in (("padding", padding), ("dilation", dilation))
    )
    for parameter, value in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        if min(value) < 1:
            raise RuntimeError(f"{name}: {parameter} must be greater than zero: {value}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: pad must be non-negative: {padding}")
    if any(p > ((k - 1) * d + 1) // 2 for p, k, d in zip(padding, kernel, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: pad must be at most half of effective kernel size: pad={padding}, "
            f"kernel_size={kernel}, dilation={dilation}"
        )
    if len(shape) not in (n + 1, n + 2) or not all(shape[len(shape) - n - 1 :]):
        raise RuntimeError(
            f"{name}: expected {n + 1} or {n + 2} dimensions, of which only the batch's may be 0: "
            f"{shape}"
        )
    if dtype == np.bool_:
        raise NotImplementedError(f"{name}: not implemented for {dtype.name}")
    fit = output_sizes(shape[len(shape) - n :], kernel, stride, padding, dilation, ceil_mode)
    if min(fit) < 1:
        raise RuntimeError(f"{name}: no window fits: {kernel} in {shape}, output size {fit}")
    return kernel, stride, padding, dilation


checked_before = lru_cache(maxsize=1024)(checked_arguments)  # a network's images have few shapes


def max_pool(ops, name, n, input, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """`max_pool<n>d`."""
    arguments = pooling_arguments(name, n, input, kernel_size, stride, padding, dilation, ceil_mode)
    results = ops._max_pool(input, *arguments, ceil_mode)
    return tuple(results) if indices else results[0]


def avg_pool(ops, name, n, input, kernel_size, stride, padding, ceil_mode, include_pad, divisor):
    """`avg_pool<n>d`."""
    if divisor == 0:
        raise RuntimeError(f"{name}: divisor must be not zero: divisor_override=0")
    kernel, stride, padding, _ = pooling_arguments(
        name, n, input, kernel_size, stride, padding, 1, ceil_mode
    )
    if input.dtype.kind == "f":
        windows = kernel, stride, padding, ceil_mode, include_pad
        return ops._avg_pool(input, *windows, 0 if divisor is None else divisor)
    sums = ops._sum_pool(input, kernel, stride, padding, ceil_mode)
    if divisor is None:
        size, fit = (tuple(x.shape[input.ndim - n :]) for x in (input, sums))
        divisor = window_counts(size, kernel, stride, padding, fit, include_pad)
    if not isinstance(divisor, int):
        divisor = constant(divisor.astype(input.dtype), input)
    return ops.div(sums, divisor, rounding_mode="trunc")


@lru_cache(maxsize=64)  # images often have the same size
def window_counts(
    size: Shape, kernel: Shape, stride: Shape, padding: Shape, fit: Shape, include_pad: bool
) -> Any:
    """The number of elements of each mean; `include_pad`: zeros of the padding count."""
    n, counts = len(size), np.ones((), np.int64)
    for d in range(n):
        start = np.arange(fit[d]) * stride[d] - padding[d]
        end = np.minimum(start + kernel[d], size[d] + (padding[d] if include_pad else 0))
        lengths = end - (start if include_pad else np.maximum(start, 0))
        counts = counts * lengths.reshape(-1, *(1,) * (n - 1 - d))
    common = int(counts.flat[0]) if counts.size and (counts == counts.flat[0]).all() else None
    if common is not None:
        return common
    return np.frombuffer(counts.tobytes(), counts.dtype).reshape(counts.shape)  # keeps no block


# ---- windows that divide the image evenly


def adaptive_bounds(n: int, out: int) -> tuple[Any, Any]:
    """Starts and ends of `out` windows that cover n elements."""
    i = np.arange(out)
    return i * n // out, -(-((i + 1) * n) // out)


def adaptive_size(name: str, n: int, x: Any, output_size: Any) -> Shape:
    """The output's size; None means the input's.

    Raises:
        ValueError, RuntimeError: it, or the image, does not have so many dimensions.
    """
    check = size_before if are_plain((output_size,)) else checked_size
    return check(name, n, tuple(x.shape), output_size)


def checked_size(name: str, n: int, shape: Shape, output_size: Any) -> Shape:
    """`adaptive_size` of an image of a shape."""
    is_number = isinstance(output_size, int | None)
    values = [output_size] * n if is_number else list(output_size)
    if len(values) != n:
        raise RuntimeError(f"{name}: output_size must be {n} numbers: {output_size}")
    if len(shape) <= n:
        raise (RuntimeError if is_number or n == 1 else ValueError)(
            f"{name}: input dimension should be at least {n + 1}: {shape}"
        )
    if len(shape) not in (n + 1, n + 2) or not all(shape[len(shape) - n - 1 :]):
        raise RuntimeError(
            f"{name}: expected {n + 1} or {n + 2} dimensions, of which only the batch's may be 0: "
            f"{shape}"
        )
    inner = shape[len(shape) - n :]
    sizes = [m if v is None else v for m, v in zip(inner, values, strict=True)]
    size = as_ints(name, "output_size", sizes)
    if min(size) < 0:
        raise RuntimeError(f"{name}: elements of output_size must not be negative: {size}")
    if max(size) > SMALL:
        check_size(name, (max(size),), 16)  # the indices and weights of a dimension
        check_size(name, (*shape[: len(shape) - n], *size), 1)  # of any dtype
    return size


size_before = lru_cache(maxsize=1024)(checked_size)


@op(
    native=native.adaptive_max_pool,
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
    ends = [adaptive_bounds(m, out) for m, out in zip(inner, size, strict=True)]
    longest = [int((b - a).max()) if a.size else 0 for a, b in ends]
    for offset in product(*map(range, longest)):
        # shorter windows repeat their last element
        places = [np.minimum(a + o, b - 1) for (a, b), o in zip(ends, offset, strict=True)]
        part = x[(..., *np.ix_(*places))]
        update_maximum(xp, best, at, part, flat_index(xp, inner, places))
    if at.size and at.min() < 0:
        at = xp.where(at < 0, flat_index(xp, inner, [a for a, _ in ends]), at)
    return best, at


_adaptive_max_pool.pullback(
    x=lambda ops, g, indices, x_shape, size: max_pool_backward(ops, g, indices, x_shape, len(size))
)


def adaptive_max_pool(ops, n, input, output_size, return_indices):
    """`adaptive_max_pool<n>d`."""
    size = adaptive_size(f"adaptive_max_pool{n}d", n, input, output_size)
    results = ops._adaptive_max_pool(input, size)
    return tuple(results) if return_indices else results[0]


def adaptive_avg_pool(ops, n, input, output_size):
    """`adaptive_avg_pool<n>d`."""
    size = adaptive_size(f"adaptive_avg_pool{n}d", n, input, output_size)
    if size == (1,) * n:
        return like_image(ops, ops.mean(input, (-3, -2, -1)[3 - n :], True), input)
    inner = tuple(input.shape[input.ndim - n :])
    if all(size) and not any(m % out for m, out in zip(inner, size, strict=True)):
        kernel = tuple(m // out for m, out in zip(inner, size, strict=True))
        return ops._avg_pool(input, kernel, kernel, (0,) * n, False, False, 0)
    taps = tuple(adaptive_taps(m, out) for m, out in zip(inner, size, strict=True))
    return like_image(ops, ops._resample(input, taps), input)


@lru_cache(maxsize=64)  # images often have the same size
def adaptive_taps(n: int, out: int) -> Taps:
    """The elements of `out` windows that cover n elements, and their weights in a mean."""
    start, end = adaptive_bounds(n, out)
    counts = end - start
    width = int(counts.max(initial=1))
    elements = np.minimum(start[:, None] + np.arange(width), n - 1)
    return Taps(n, elements, np.broadcast_to(1 / counts[:, None], elements.shape), counts)


# ---- norms of windows


def lp_pool(ops, n, input, norm_type, kernel_size, stride, ceil_mode):
    """`lp_pool<n>d`: (sum of x ** p) ** (1 / p) of each window; the sum is mean times size."""
    name = f"lp_pool{n}d"
    if abs(norm_type) == math.inf:
        size = ops.abs(input) if norm_type > 0 else ops.neg(ops.abs(input))
        result = max_pool(ops, name, n, size, kernel_size, stride, 0, 1, ceil_mode, False)
        return result if norm_type > 0 else ops.neg(result)
    kernel = expand_to_tuple(name, "kernel_size", kernel_size, n)
    powers = ops.pow(input, norm_type)
    means = avg_pool(ops, name, n, powers, kernel, stride, 0, ceil_mode, True, None)
    sums = ops.mul(ops.mul(ops.sign(means), ops.relu(ops.abs(means))), math.prod(kernel))
    return ops.pow(sums, 1.0 / norm_type)
