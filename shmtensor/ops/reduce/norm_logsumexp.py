"""Norms, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...dtypes import promote_types
from ..table.constants import zero_gradient
from ..table.dims import axes, expand_reduced, keepdim_shape, reduced_dims
from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_table import check_tensors, composite, op

INFINITE = (math.inf, -math.inf)


@op(
    complex_gradients=True,
    autocast_cuda="full",
    native=native.logsumexp,
    promote="float",
    inplace=False,
    samples=[((3, 4), 1), ((3, 4), (0, 1), True), ((), 0), ((3, 4), 0)],
    layout="contiguous",
    vmap="along",
)
def logsumexp(xp, x, /, dim, keepdim=False):
    """The logarithm of the sum of exponentials along dimensions, without overflow.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype; integers are converted to the default dtype.
    dim : int or sequence of int
        The dimensions.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor
        log(sum(exp(input), dim)); -inf of no elements.

    See Also
    --------
    logaddexp, log_softmax, logcumsumexp

    Notes
    -----
    The gradient is the softmax of the elements.

    Examples
    --------
    >>> st.logsumexp(st.tensor([[1000., -float("inf")], [5., 5.]]), dim=1)[0]
    tensor(1000.)
    """
    axis = axes(x, dim)
    if not x.size:
        return xp.log(xp.exp(x).sum(axis, keepdims=keepdim))
    largest = x.max(axis, keepdims=True) if x.dtype.kind != "c" else x.real.max(axis, keepdims=True)
    largest = xp.where(xp.isfinite(largest), largest, 0)
    out = xp.log(xp.exp(x - largest).sum(axis, keepdims=True)) + largest
    return out if keepdim else out.squeeze(reduced_dims(dim, x.shape) if x.ndim else ())


logsumexp.pullback(
    x=lambda ops, g, x, out, dim, keepdim: logsumexp_backward(ops, g, x, out, dim, keepdim)
)


def logsumexp_backward(ops: Any, g: Any, x: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """g exp(x - out): the softmax; 0 where the sum is 0."""
    shape = tuple(x.shape)
    finite_out = ops._where_other(ops.isinf(out), out, 0.0)
    weights = ops.exp(x - expand_reduced(ops, finite_out, shape, dim, keepdim))
    return expand_reduced(ops, g, shape, dim, keepdim) * weights.conjugate()


def norm_kernel(x: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """The norms that need no power of each element; None for others."""
    if ord == 2 or ord == 1:
        return native.norm(x, dim, keepdim, int(ord))
    if x.dtype.kind != "f":
        return None
    if ord == 0:
        n = native.count(x, dim, keepdim)
        return None if n is None else n.astype(x.dtype)
    if ord == math.inf:
        low, high = (native.minmax(x, dim, keepdim, largest) for largest in (False, True))
        if low is None or high is None:
            return None
        return np.maximum(np.abs(low), np.abs(high))
    return None


@op(
    complex_gradients=True,
    native=norm_kernel,
    samples=[
        ((3, 4), 2, None, False),
        ((3, 4), 2, 1, True),
        ((3, 4), 1, 0, False),
        ((3, 4), 3, None, False),
        ((3, 4), math.inf, 1, False),
        ((3, 4), -math.inf, None, False),
    ],
    layout="contiguous",
    vmap="along",
)
def _vector_norm(xp, x, /, ord, dim, keepdim):
    """(sum of |x| ** ord) ** (1 / ord) along dimensions; infinity: the largest |x|; 0: the number
    of elements that are not 0.
    """
    axis, size = axes(x, dim), xp.abs(x)
    if ord == math.inf:
        return size.max(axis, keepdims=keepdim)
    if ord == -math.inf:
        return size.min(axis, keepdims=keepdim)
    if ord == 0:
        return (size != 0).sum(axis, keepdims=keepdim).astype(size.dtype)
    if ord == 1:
        return size.sum(axis, keepdims=keepdim)
    if ord == 2:
        return xp.sqrt((size * size).sum(axis, keepdims=keepdim))
    return (size**ord).sum(axis, keepdims=keepdim) ** (1 / ord)


def check_norm(name: str, shape: tuple[int, ...], ord: float, dim: Any) -> None:
    """Raises RuntimeError for a norm of no elements that is not defined for the order."""
    if (
        (ord < 0 or ord == math.inf)
        and 0 in shape
        and any(not shape[d] for d in reduced_dims(dim, shape))
    ):
        raise RuntimeError(
            f"{name}: the norm of order {ord} of no elements is not defined: {shape}"
        )


def norm_backward(ops: Any, g: Any, x: Any, out: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """x |x| ** (ord - 2) / out ** (ord - 1); 0 where the norm is 0 (a subgradient)."""
    shape = tuple(x.shape)
    if ord == 0:
        return zero_gradient(ops, x)
    # Compute per norm, not per element: both are broadcast at the end.
    g, norm = (ops.reshape(v, keepdim_shape(shape, dim)) for v in (g, out))
    if ord == 1:
        return g * ops.sgn(x)
    if ord in INFINITE:
        size = ops.abs(x)
        mask = size == norm
        n = ops.reshape(ops.sum(mask, dim, keepdim), keepdim_shape(shape, dim))
        return ops._where(mask, g / n, 0.0) * ops.sgn(x)
    zero = norm == 0
    safe = ops._where_other(zero, norm, 1.0)
    if ord == 2:
        return ops._where_other(zero, g / safe, 0.0) * x
    is_zero = x == 0
    size = ops.abs(ops._where_other(is_zero, x, 1.0))
    gradient = g * ops.sgn(x) * (size / safe) ** (ord - 1)
    return ops._where_other(zero | is_zero, gradient, 0.0)


_vector_norm.pullback(x=norm_backward)


def nuclear(ops: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """The sum of the singular values of matrices, by default of the last two dimensions."""
    dims = (-2, -1) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2 or x.ndim < 2:
        raise RuntimeError(f"norm: p='nuc' is for two dimensions: dim={dim}, {tuple(x.shape)}")
    sorted_dims = sorted(d % x.ndim for d in dims)
    out = ops.sum(ops._svdvals(ops.movedim(x, dims, (-2, -1))), -1)
    if keepdim:
        for d in sorted_dims:
            out = ops.unsqueeze(out, d)
    return out


@composite(autocast_cuda="full")
def norm(ops, input, p="fro", dim=None, keepdim=False, dtype=None):
    """The norm of the elements, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    p : number or str, optional
        The order: sum(abs(x) ** p) ** (1 / p); infinity is the largest abs(x), 0 counts the
        elements that are not 0. "fro" is the 2-norm, "nuc" the sum of the singular values of
        matrices.
    dim : int or sequence of int, optional
        The dimensions; by default all, for "nuc" the last two.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it first.

    Returns
    -------
    Tensor
        Without these dimensions; real.

    Raises
    ------
    RuntimeError
        The dtype is of integers, or there is no such norm.

    See Also
    --------
    linalg.vector_norm, linalg.matrix_norm, dist

    Examples
    --------
    >>> x = st.tensor([[3., 4.], [6., 8.]])
    >>> st.norm(x, dim=1)
    tensor([ 5., 10.])
    >>> st.norm(x, p=1)
    tensor(21.)
    >>> st.norm(x, p=float("inf"))
    tensor(8.)
    """
    if dtype is not None:
        input = ops._to_copy(input, dtype)
    if input.dtype.kind in "iub":
        raise RuntimeError(
            f"norm: the tensor must be floating point or complex: {input.dtype.name}, give dtype="
        )
    if p == "nuc":
        return nuclear(ops, input, dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: no such norm: p={p!r}, a number or 'fro' is needed")
    dim = None if dim is None or dim == () or dim == [] else dim
    ord = 2 if p == "fro" or p is None else p
    check_norm("norm", tuple(input.shape), ord, dim)
    return restore_half(
        ops, ops._vector_norm(upcast_half(ops, input), ord, dim, keepdim), input.dtype
    )


@composite(autocast_cuda="full")
def dist(ops, input, other, p=2):
    """The norm of the difference of two tensors.

    Parameters
    ----------
    input, other : Tensor
        Broadcast against each other.
    p : number, optional
        The order of the norm, as for `norm`.

    Returns
    -------
    Tensor
        0-d.

    See Also
    --------
    norm, cdist

    Examples
    --------
    >>> st.dist(st.tensor([1., 2.]), st.tensor([4., 6.]))
    tensor(5.)
    >>> st.dist(st.tensor([1., 2.]), st.tensor([4., 6.]), p=1)
    tensor(7.)
    """
    check_tensors("dist", input, other)
    difference = ops.sub(upcast_half(ops, input), upcast_half(ops, other))
    return restore_half(ops, ops.norm(difference, p), promote_types(input.dtype, other.dtype))


@composite(autocast_cuda="full", inplace=True)
def renorm(ops, input, p, dim, maxnorm):
    """A tensor whose slices along a dimension are scaled down to a norm of at most a given one.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype, with at least two dimensions.
    p : number
        The order of the norm.
    dim : int
        The dimension whose slices are scaled, each as a whole.
    maxnorm : number
        The largest norm; slices below it stay as they are.

    Returns
    -------
    Tensor
        Of the shape of `input`; `renorm_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The tensor has fewer dimensions, or is of integers.

    See Also
    --------
    norm

    Examples
    --------
    >>> st.renorm(st.tensor([[3., 4.], [0.5, 0.]]), p=2, dim=0, maxnorm=10.)
    tensor([[3.0000, 4.0000],
            [0.5000, 0.0000]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"renorm: at least 2 dimensions are needed: {tuple(input.shape)}")
    if input.dtype.kind not in "fc":
        raise RuntimeError(
            f"renorm: the tensor must be floating point or complex: {input.dtype.name}"
        )
    other_dims = tuple(d for d in range(input.ndim) if d != dim % input.ndim)
    norms = ops._vector_norm(input, p, other_dims, True)
    scale = ops._where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)
    return ops.mul(input, scale)


@composite(method=False)
def norm_except_dim(ops, v, pow=2, dim=0):
    """The norms of the slices along one dimension, as weight normalization needs them.

    Parameters
    ----------
    v : Tensor
        Of a floating-point dtype.
    pow : number, optional
        The order of the norm.
    dim : int, optional
        The dimension that stays; -1: none, the norm is that of all elements.

    Returns
    -------
    Tensor
        Of the size of `v` along `dim`, and of size 1 elsewhere; 0-d for -1.

    See Also
    --------
    norm

    Examples
    --------
    >>> st.norm_except_dim(st.tensor([[3., 4.], [6., 8.]]))
    tensor([[ 5.],
            [10.]])
    """
    if dim == -1:
        return ops.norm(v, pow)
    other_dims = [d for d in range(v.ndim) if d != dim % v.ndim]
    return ops.linalg_vector_norm(v, pow, other_dims, keepdim=True) if other_dims else ops.abs(v)
