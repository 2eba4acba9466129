"""Different values: of a tensor, of a dimension, of each run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..table.dims import axis
from ..table.native_or_numpy import kernel_or_fallback
from ..table.op_definition import composite, op
from ..table.samples import ints


@op(
    outputs="values inverse counts",
    method=False,
    function=False,
    samples=[(ints((3, 4), 4),), (ints((6, 2), 2), 0)],
)
def _unique2(xp, x, /, dim=None):
    """The different values (of a dimension: slices), in order, where each element's is, and how
    often it occurs.
    """
    of_real(x)
    if dim is not None:
        dim = axis(x, dim)
    values, inverse, counts = xp.unique(x, return_inverse=True, return_counts=True, axis=dim)
    inverse = inverse.reshape(x.shape if dim is None else (x.shape[dim],))
    return values, inverse.astype(np.int64), counts.astype(np.int64)


def of_real(x: Any) -> Any:
    """x, unless it is complex: complex numbers are not ordered."""
    if x.dtype.kind == "c":
        raise NotImplementedError(f"unique: not implemented for {x.dtype}: shape {x.shape}")
    return x


def no_derivative(g: Any) -> Any:
    raise NotImplementedError(
        f"unique: the derivative is not implemented, as in PyTorch: shape {tuple(g.shape)}, "
        "hint: ask detach() for the places, and index the tensor itself with them"
    )


_unique2.pullback(x=no_derivative)
_unique2.numpy = kernel_or_fallback(native.unique2, _unique2.forward)


@op(
    outputs="values inverse counts",
    method=False,
    function=False,
    samples=[(ints((3, 4), 2),), (ints((6, 2), 2), 0)],
)
def _unique_consecutive(xp, x, /, dim=None):
    """The first of each run of equal values (slices), which run each element is in, and how long
    each is.
    """
    of_real(x)
    rows = x.reshape(-1) if dim is None else xp.moveaxis(x, axis(x, dim), 0)
    n = rows.shape[0]
    flat = rows.reshape(n, math.prod(rows.shape[1:]))
    new = xp.ones(n, bool)
    new[1:] = (flat[1:] != flat[:-1]).any(1)
    starts = xp.flatnonzero(new)
    values = rows[starts]
    inverse = xp.cumsum(new) - 1
    counts = xp.diff(xp.append(starts, n))
    if dim is None:
        inverse = inverse.reshape(x.shape)
    else:
        values = xp.ascontiguousarray(xp.moveaxis(values, 0, dim))
    return values, inverse.astype(np.int64), counts.astype(np.int64)


_unique_consecutive.pullback(x=no_derivative)
_unique_consecutive.numpy = kernel_or_fallback(
    native.unique_consecutive, _unique_consecutive.forward
)


@op(method=False, function=False, samples=[(ints((3, 4), 2),)])
def _unique_consecutive_values(xp, x, /):
    """The first of each run of equal values."""
    return _unique_consecutive.forward(xp, x)[0]


_unique_consecutive_values.pullback(x=no_derivative)
_unique_consecutive_values.numpy = kernel_or_fallback(
    native.unique_consecutive_values, _unique_consecutive_values.forward
)


def asked(found: Any, return_inverse: bool, return_counts: bool) -> Any:
    """The results that were asked for."""
    values, inverse, counts = found
    if not (return_inverse or return_counts):
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


@op(method=False, function=False, samples=[(ints((3, 4), 4),)])
def _unique(xp, x, /):
    """The different values, in order."""
    return xp.unique(of_real(x))


_unique.pullback(x=no_derivative)
_unique.numpy = kernel_or_fallback(native.unique, _unique.forward)


@composite
def unique(ops, input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different values in order; with dim the different slices."""
    if dim is None and not (return_inverse or return_counts):
        return ops._unique(input)
    return asked(ops._unique2(input, dim), return_inverse, return_counts)


@composite
def unique_consecutive(ops, input, return_inverse=False, return_counts=False, dim=None):
    """The values without immediate repetitions."""
    if dim is None and not (return_inverse or return_counts):
        return ops._unique_consecutive_values(input)
    return asked(ops._unique_consecutive(input, dim), return_inverse, return_counts)
