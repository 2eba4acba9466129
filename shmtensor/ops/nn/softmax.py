"""Softmax and its logarithm over a dimension; `_masked_scale` of dropout."""

from __future__ import annotations

import warnings
from typing import Any

from ... import native
from ..table.check_dtypes import check_floating
from ..table.dims import check_ordered
from ..table.op_table import composite, op
from ..table.samples import bools

# ---- over a dimension

ALONG = [((3, 4), 1), ((3, 4), 0), ((2, 3, 4), -2), ((), 0), ((0, 3), 1)]


def softmax_axis(x: Any, dim: int) -> Any:
    """NumPy's axis; () for a 0-d tensor."""
    if x.ndim:
        return dim
    if dim not in (0, -1):
        raise IndexError(f"softmax: dim is out of range: {dim} for shape ()")
    return ()


@op(numpy=native.softmax, promote="float", inplace=False, samples=ALONG, vmap="along")
def _softmax(xp, x, /, dim):
    """exp(x) over its sum along dim, without overflow."""
    axis = softmax_axis(x, dim)
    if not x.size:
        return x.copy()
    e = xp.exp(x - x.max(axis, keepdims=True))
    e /= e.sum(axis, keepdims=True)
    return e


_softmax.pullback(x=lambda ops, g, out, dim: ops._softmax_backward_data(g, out, dim))


@op(numpy=native.softmax_backward, samples=[((3, 4), (3, 4), 1)], vmap="along")
def _softmax_backward_data(xp, x, y, /, dim):
    """y * (x - sum(x * y)): the gradient of a softmax with the result y, for the gradient x."""
    product = x * y
    return product - y * product.sum(softmax_axis(x, dim), keepdims=True)


def softmax_double_backward(ops: Any, g: Any, x: Any, y: Any, dim: int) -> Any:
    """Gradient of y * (x - sum(x * y)) by y."""
    total, inner = ops.sum(x * y, dim, True), ops.sum(g * y, dim, True)
    return g * (x - total) - x * inner


_softmax_backward_data.pullback(
    x=lambda ops, g, y, dim: ops._softmax_backward_data(g, y, dim), y=softmax_double_backward
)


@op(numpy=native.log_softmax, promote="float", inplace=False, samples=ALONG, vmap="along")
def _log_softmax(xp, x, /, dim):
    """x - log(sum(exp(x))) along dim, without overflow."""
    axis = softmax_axis(x, dim)
    if not x.size:
        return x.copy()
    low = x - x.max(axis, keepdims=True)
    low -= xp.log(xp.exp(low).sum(axis, keepdims=True))
    return low


_log_softmax.pullback(x=lambda ops, g, out, dim: ops._log_softmax_backward_data(g, out, dim))


@op(numpy=native.log_softmax_backward, samples=[((3, 4), (3, 4), 1)], vmap="along")
def _log_softmax_backward_data(xp, x, y, /, dim):
    """x - exp(y) * sum(x): the gradient of a log_softmax with the result y, for the gradient x."""
    return x - xp.exp(y) * x.sum(softmax_axis(x, dim), keepdims=True)


_log_softmax_backward_data.pullback(
    x=lambda ops, g, y, dim: g - ops.sum(g * ops.exp(y), dim, True),
    y=lambda ops, g, x, y, dim: -g * ops.exp(y) * ops.sum(x, dim, True),
)


@composite(autocast_cuda="full")
def softmax(ops, input, dim=None, dtype=None):
    """exp(x) over its sum along a dimension: positive numbers that add up to 1.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    dim : int
        The dimension of the sum. None chooses one by the number of dimensions, with a warning.
    dtype : dtype, optional
        What the input is converted to before.

    Returns
    -------
    Tensor
        Of the input's shape. Copies: one.

    See Also
    --------
    log_softmax, nn.Softmax

    Examples
    --------
    >>> st.softmax(st.tensor([[0., 0.], [1000., 1000.]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    >>> st.softmax(st.tensor([1, 1]), dim=0, dtype=st.float32)
    tensor([0.5000, 0.5000])
    """
    input = input if dtype is None else ops._to_copy(input, dtype)
    check_floating("softmax", check_ordered("softmax", input))
    return ops._softmax(input, implicit_dim("softmax", input) if dim is None else dim)


@composite(autocast_cuda="full")
def log_softmax(ops, input, dim=None, dtype=None):
    """The logarithm of `softmax`, without overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    dim : int
        The dimension of the sum. None chooses one by the number of dimensions, with a warning.
    dtype : dtype, optional
        What the input is converted to before.

    Returns
    -------
    Tensor
        Of the input's shape.

    See Also
    --------
    softmax, logsumexp

    Examples
    --------
    >>> st.log_softmax(st.tensor([[0., 0.], [1000., 1000.]]), dim=1)
    tensor([[-0.6931, -0.6931],
            [-0.6931, -0.6931]])
    """
    input = input if dtype is None else ops._to_copy(input, dtype)
    check_floating("log_softmax", check_ordered("log_softmax", input))
    return ops._log_softmax(input, implicit_dim("log_softmax", input) if dim is None else dim)


def implicit_dim(name: str, input: Any, stacklevel: int = 3) -> int:
    """PyTorch's dimension for a call without one, with its warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


@op(native=native.masked_scale, samples=[((3, 4), bools((3, 4)), 2.0)], layout="pointwise")
def _masked_scale(xp, x, mask, /, scale):
    """scale * x where the mask is true, else 0: dropout with a given mask."""
    return xp.where(mask, x * scale, xp.zeros((), x.dtype))


_masked_scale.pullback(x=lambda ops, g, mask, scale: ops._masked_scale(g, mask, scale))
