"""bincount, histc, and histograms of one and of several dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..table.check_dtypes import check_floating
from ..table.constants import array_module, constant, data_of
from ..table.dims import check_ordered
from ..table.named_results import named_result
from ..table.op_table import composite, op
from ..table.samples import ints, reals
from ..table.sizes import check_size

EDGES = np.array([-1.0, -0.5, 0.25, 1.0])


def edges_of(xp: Any, name: str, x: Any, bins: Any, low: float | None, high: float | None) -> Any:
    """The edges of equal bins of [low, high], by default of the data's range; or `bins` itself."""
    if not isinstance(bins, (int, np.integer)):
        return xp.asarray(bins).astype(x.dtype)
    if bins < 1:
        raise RuntimeError(f"{name}: bins must be > 0: {bins}")
    check_size(name, (int(bins),))
    if low is None or high is None:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{name}: the range must be finite: {low}, {high}")
    if low > high:
        raise RuntimeError(f"{name}: min must not exceed max: {low}, {high}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return xp.linspace(low, high, int(bins) + 1, dtype=x.dtype)


def weighted_histogram(
    xp: Any, name: str, x: Any, edges: list[Any], weight: Any, density: bool
) -> Any:
    """The sums of the weights of the rows of x in each cell; divided by volume and total if
    density.

    A cell includes its lower edges; the last ones also include their upper edges.
    """
    if weight is not None and weight.size != len(x):
        raise RuntimeError(f"{name}: each of {len(x)} points needs one weight: {weight.shape}")
    shape = tuple(len(e) - 1 for e in edges)
    inside, cell = xp.ones(len(x), bool), xp.zeros(len(x), xp.int64)
    for d, (e, n) in enumerate(zip(edges, shape, strict=True)):
        at = xp.searchsorted(e, x[:, d], "right") - 1
        inside &= (x[:, d] >= e[0]) & (x[:, d] <= e[-1])
        cell = cell * n + xp.clip(at, 0, n - 1)
    weights = None if weight is None else weight.reshape(-1)[inside].astype(xp.float64)
    out = xp.bincount(cell[inside], weights, math.prod(shape)).reshape(shape)
    if density:
        out = out / out.sum()
        for d, e in enumerate(edges):
            out = out / xp.diff(e).reshape(-1, *(1,) * (len(edges) - 1 - d))
    return out.astype(x.dtype)


@op(
    outputs="hist edges",
    samples=[
        (reals((20,)), None, 5, None, None, False),
        (reals((20,)), reals((20,), 0.5, 1.0), EDGES, None, None, True),
    ],
)
def _histogram(xp, x, weight=None, /, bins=10, low=None, high=None, density=False):
    """The weight in each bin, and the bins' edges."""
    edges = edges_of(xp, "histogram", x, bins, low, high)
    return weighted_histogram(xp, "histogram", x.reshape(-1, 1), [edges], weight, density), edges


@op(outputs="hist", samples=[(reals((20, 2)), None, (EDGES, EDGES), False)])
def _histogramdd(xp, x, weight=None, /, edges=(), density=False):
    """The weight in each cell of a grid."""
    return weighted_histogram(
        xp,
        "histogramdd",
        x.reshape(-1, x.shape[-1]),
        [xp.asarray(e) for e in edges],
        weight,
        density,
    )


@composite
def histogram(ops, input, bins=100, *, range=None, weight=None, density=False):
    """The weight of the elements in each bin, and the edges of the bins.

    Parameters
    ----------
    input : Tensor
        Of a real dtype, which the result has, too; it is flattened.
    bins : int or Tensor, optional
        The number of bins of equal width, or a vector of edges.
    range : (float, float), optional
        The range that the bins cover; by default from the smallest to the largest element.
    weight : Tensor, optional
        The weight of each element, of the shape of `input`; 1 by default.
    density : bool, optional
        Whether the result is scaled so that its integral over all bins is 1.

    Returns
    -------
    (hist, bin_edges) : Tensor, Tensor
        n weights and n + 1 edges. The last bin contains its upper edge; elements outside do not
        count.

    See Also
    --------
    histc, histogramdd, bincount

    Examples
    --------
    >>> hist, edges = st.histogram(st.tensor([0.5, 1.5, 1.7, 3.]), bins=3, range=(0., 3.))
    >>> hist, edges
    (tensor([1., 2., 1.]), tensor([0., 1., 2., 3.]))
    """
    low, high = (None, None) if range is None else range
    hist, edges = ops._histogram(input, weight, data_of(bins), low, high, density)
    return named_result("histogram", hist=hist, bin_edges=edges)


@composite(method=False)
def histogramdd(ops, input, bins, *, range=None, weight=None, density=False):
    """The weight of points in each cell of a grid, and the edges of the cells.

    Parameters
    ----------
    input : Tensor
        Points of D coordinates, of shape `(..., D)` and of a floating-point dtype.
    bins : int or sequence
        One number; or for each dimension a number of bins or a vector of edges.
    range : sequence of float, optional
        The low and the high end of each dimension, one after the other: 2 D numbers.
    weight : Tensor, optional
        The weight of each point; 1 by default.
    density : bool, optional
        Whether the result is scaled so that its integral is 1.

    Returns
    -------
    (hist, bin_edges) : Tensor, tuple of Tensor
        A tensor of D dimensions, and a vector of edges for each.

    Raises
    ------
    RuntimeError
        There is not one entry of `bins` for each dimension.

    See Also
    --------
    histogram

    Examples
    --------
    >>> points = st.tensor([[0., 0.], [1., 1.], [2., 2.]])
    >>> st.histogramdd(points, 2).hist
    tensor([[1., 0.],
            [0., 2.]])
    """
    n = input.shape[-1] if input.ndim else 0
    if input.ndim < 2:
        raise RuntimeError(f"histogramdd: points (..., D) are needed: {tuple(input.shape)}")
    bins = [bins] * n if isinstance(bins, int) else list(bins)
    if len(bins) != n:
        raise RuntimeError(f"histogramdd: bins for each of {n} dimensions are needed: {len(bins)}")
    points, xp = data_of(input).reshape(-1, n), array_module(input)
    edges = []
    check_size("histogramdd", [b for b in bins if isinstance(b, int) and b > 0])
    for d, b in enumerate(bins):
        low, high = (None, None) if range is None else (range[2 * d], range[2 * d + 1])
        edges.append(edges_of(xp, "histogramdd", points[:, d], data_of(b), low, high))
    hist = ops._histogramdd(input, weight, tuple(edges), density)
    return named_result(
        "histogramdd",
        hist=hist,
        bin_edges=tuple(ops._to_copy(constant(e, input), e.dtype) for e in edges),
    )


# ---- counts


@op(
    sized_by_values="bincount",
    native=native.bincount,
    samples=[(ints((7,), 4), None, 0), (ints((7,), 4), (7,), 6)],
)
def _bincount(xp, x, weights=None, /, minlength=0):
    """The number of occurrences of each integer, or the sum of its weights."""
    x = native.private_index(x)
    if x.ndim != 1 or x.dtype.kind not in "iu" or (x.size and x.min() < 0):
        raise RuntimeError(
            f"bincount: a vector of whole numbers >= 0 is needed: {x.shape} {x.dtype.name}"
        )
    if weights is None:
        return xp.bincount(x, minlength=minlength).astype(np.int64)
    dtype = weights.dtype if weights.dtype == np.float32 else np.dtype(np.float64)
    return xp.bincount(x, weights.astype(np.float64, copy=False), minlength).astype(dtype)


@composite
def bincount(ops, input, weights=None, minlength=0):
    """How often each of the integers 0, 1, 2, ... occurs in a vector.

    Parameters
    ----------
    input : Tensor
        A vector of integers that are not negative.
    weights : Tensor, optional
        A vector of the same size: the weights at each integer are added, instead of counting.
    minlength : int, optional
        The result has at least so many elements.

    Returns
    -------
    Tensor
        A vector of max(largest integer + 1, minlength) elements: int64, or with weights float64
        (float32 if they are).

    Raises
    ------
    RuntimeError
        The tensor is not a vector of integers, or one of them is negative.

    See Also
    --------
    histogram, unique

    Examples
    --------
    >>> st.bincount(st.tensor([1, 3, 1]))
    tensor([0, 2, 0, 1])
    >>> st.bincount(st.tensor([1, 3, 1]), weights=st.tensor([0.5, 2., 1.]), minlength=5)
    tensor([0.0000, 1.5000, 0.0000, 2.0000, 0.0000])
    """
    return ops._bincount(input, weights, minlength)


def histc_range(x: Any, n: int, low: float, high: float) -> tuple[float, float]:
    """The range of `_histc`: if low is high, that of the data, which CUDA waits for."""
    if low > high:
        raise RuntimeError(f"histc: max must not be less than min: {low}, {high}")
    if n <= 0:
        raise RuntimeError(f"histc: at least one bin is needed: {n}")
    if low == high and x.size:
        low, high = float(x.min()), float(x.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histc: the range must be finite: {low}, {high}")
    return low, high


def histc_kernel(x: Any, n: int, low: float, high: float) -> Any:
    """The native kernel for a finite range."""
    counts = None
    if n > 0 and x.dtype.char in "fd" and x.size:
        a, b = (float(x.min()), float(x.max())) if low == high else (low, high)
        if a < b and math.isfinite(b - a):
            edges = np.histogram_bin_edges(np.empty(0, x.dtype), n, (a, b))
            counts = native.histogram(x.reshape(-1) if not x.ndim else x, edges.astype(x.dtype))
    return None if counts is None else counts.astype(x.dtype)


@op(native=histc_kernel, samples=[((20,), 5, -0.5, 0.5), ((20,), 4, 0, 0)])
def _histc(xp, x, /, n, low, high):
    """The number of elements in each of n equal parts of [low, high]; others do not count."""
    return xp.histogram(x, n, histc_range(x, n, low, high))[0].astype(x.dtype)


@composite
def histc(ops, input, bins=100, min=0, max=0):
    """The number of elements in each of equally wide bins.

    Parameters
    ----------
    input : Tensor
        Of a floating-point dtype; it is flattened.
    bins : int, optional
        The number of bins.
    min, max : float, optional
        The range that they cover; if both are the same, that of the elements.

    Returns
    -------
    Tensor
        A vector of `bins` numbers in the dtype of `input`; elements outside do not count.

    Raises
    ------
    RuntimeError
        `max` is less than `min`, or `bins` is not positive.

    See Also
    --------
    histogram, bincount

    Examples
    --------
    >>> st.histc(st.tensor([1., 2., 1., 4.]), bins=4, min=0, max=4)
    tensor([0., 2., 1., 1.])
    """
    check_floating("histc", check_ordered("histc", input))
    return ops._histc(input, bins, min, max)
