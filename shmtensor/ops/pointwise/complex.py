"""Complex numbers: real, imag, conj, angle, polar; view_as_real and view_as_complex."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table.check_dtypes import same_dtype_check
from ..table.constants import zero_gradient
from ..table.op_table import composite, op
from ..table.samples import UNARY, reals


@op(complex_gradients=True, samples=UNARY, layout="pointwise")
def _conj_physical(xp, x, /):
    """The complex conjugate of complex numbers, a copy."""
    return xp.conjugate(x)


_conj_physical.pullback(x=lambda g: g.conjugate())


@composite(inplace=True)
def conj(ops, input):
    """The complex conjugate of each element.

    Parameters
    ----------
    input : Tensor
        Any dtype.

    Returns
    -------
    Tensor
        A copy with opposite imaginary parts; a real tensor itself.

    See Also
    --------
    adjoint, resolve_conj

    Notes
    -----
    Copies: one for complex numbers, none for real ones. `conjugate` and `conj_physical` are other
    names.

    Examples
    --------
    >>> st.conj(st.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return ops._conj_physical(input) if input.dtype.kind == "c" else input


conj.alias("conjugate", "conj_physical")


@op(view=True, samples=UNARY)
def _real(xp, x, /):
    """Real part, a view."""
    return x.real


_real.pullback(x=lambda g: g)


@composite(method=False)
def real(ops, input):
    """The real parts of complex numbers, as a view.

    Parameters
    ----------
    input : Tensor
        Any dtype; a real tensor is returned as it is.

    Returns
    -------
    Tensor
        float32 for complex64, float64 for complex128.

    See Also
    --------
    imag, view_as_real

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.real(st.tensor([1 + 2j, 3 - 4j]))
    tensor([1., 3.])
    """
    return ops._real(input) if input.dtype.kind == "c" else input


@op(view=True, method=False, samples=[], vmap="alone")
def imag(xp, x, /):
    """The imaginary parts of complex numbers, as a view.

    Parameters
    ----------
    input : Tensor
        Of a complex dtype.

    Returns
    -------
    Tensor
        float32 for complex64, float64 for complex128.

    Raises
    ------
    RuntimeError
        The tensor is not complex.

    See Also
    --------
    real, view_as_real

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.imag(st.tensor([1 + 2j, 3 - 4j]))
    tensor([ 2., -4.])
    """
    if x.dtype.kind != "c":
        raise RuntimeError(f"imag: the tensor is not complex: {x.dtype.name}")
    return x.imag


imag.pullback(x=lambda g: g * 1j)


@op(
    complex_gradients=True,
    promote="float",
    samples=[(reals((3, 4), 0.3, 2.0),)],
    layout="pointwise",
)
def angle(xp, x, /):
    """The angle of complex numbers against the positive real axis.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype.

    Returns
    -------
    Tensor
        Radians in [-pi, pi]; of real numbers 0, or pi for negative ones, or NaN.

    See Also
    --------
    abs, polar

    Examples
    --------
    >>> st.angle(st.tensor([1j, -1 + 0j]))
    tensor([1.5708, 3.1416])
    """
    if x.dtype.kind == "c":
        return xp.arctan2(x.imag, x.real)
    return xp.where(xp.isnan(x), x, xp.where(x < 0, xp.asarray(xp.pi, x.dtype), 0))


def angle_backward(ops: Any, g: Any, x: Any) -> Any:
    """The part of g orthogonal to x, over abs(x); 0 for real numbers."""
    if x.dtype.kind != "c":
        return zero_gradient(ops, g)
    size = ops.abs(x)
    return ops._where_other(
        size == 0, g * ops.sgn(x) * 1j / ops._where_other(size == 0, size, 1.0), 0.0
    )


angle.pullback(x=angle_backward)


@op(
    check_dtypes=same_dtype_check("complex"),
    broadcast=True,
    promote="common",
    inplace=False,
    method=False,
    samples=[((3, 4), (3, 4))],
    tensors="real imag",
    exact_out=True,
)
def complex(xp, real, imag, /):
    """Complex numbers from their real and imaginary parts.

    Parameters
    ----------
    real, imag : Tensor
        float32 or float64, both of the same, broadcast against each other.

    Returns
    -------
    Tensor
        complex64 or complex128.

    Raises
    ------
    RuntimeError
        The dtypes differ.

    See Also
    --------
    polar, view_as_complex

    Examples
    --------
    >>> st.complex(st.tensor([1., 2.]), st.tensor([3., -4.]))
    tensor([1.+3.j, 2.-4.j])
    """
    out = xp.empty(xp.broadcast(real, imag).shape, xp.result_type(real.dtype, xp.complex64))
    out.real, out.imag = real, imag
    return out


complex.pullback(real=lambda ops, g: ops.real(g), imag=lambda ops, g: ops.real(g * -1j))


@op(
    check_dtypes=same_dtype_check("polar"),
    broadcast=True,
    promote="common",
    inplace=False,
    method=False,
    samples=[(reals((3, 4), 0.3, 2.0), (3, 4))],
    tensors="abs angle",
    autocast="full",
    exact_out=True,
)
def polar(xp, abs, angle, /):
    """Complex numbers from their modulus and angle.

    Parameters
    ----------
    abs : Tensor
        The modulus, float32 or float64.
    angle : Tensor
        The angle in radians, of the same dtype.

    Returns
    -------
    Tensor
        abs * cos(angle) + 1j * abs * sin(angle): complex64 or complex128.

    Raises
    ------
    RuntimeError
        The dtypes differ.

    See Also
    --------
    complex, angle

    Examples
    --------
    >>> st.polar(st.tensor([2.]), st.tensor([0.]))
    tensor([2.+0.j])
    """
    out = xp.empty(xp.broadcast(abs, angle).shape, xp.result_type(abs.dtype, xp.complex64))
    out.real, out.imag = abs * xp.cos(angle), abs * xp.sin(angle)
    return out


polar.pullback(
    abs=lambda ops, g, out: ops.real(g * ops.sgn(out).conjugate()),
    angle=lambda ops, g, out: ops.real(g * (out * 1j).conjugate()),
)


@composite
def resolve_conj(ops, input):
    """The tensor itself: conjugation is never lazy here.

    Parameters
    ----------
    input : Tensor
        Any dtype.

    Returns
    -------
    Tensor
        `input`.

    See Also
    --------
    conj

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.resolve_conj(st.tensor([1j]).conj())
    tensor([0.-1.j])
    """
    return input


@composite
def resolve_neg(ops, input):
    """The tensor itself: negation is never lazy here.

    Parameters
    ----------
    input : Tensor
        Any dtype.

    Returns
    -------
    Tensor
        `input`.

    See Also
    --------
    neg

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.resolve_neg(st.tensor([1.]))
    tensor([1.])
    """
    return input


@composite(method=False)
def view_as_real(ops, input):
    """Complex numbers as pairs of real ones, a view.

    Parameters
    ----------
    input : Tensor
        complex64 or complex128, of shape `(...)`.

    Returns
    -------
    Tensor
        float32 or float64, of shape `(..., 2)`: the real and the imaginary part.

    Raises
    ------
    RuntimeError
        The tensor is not complex.

    See Also
    --------
    view_as_complex, real

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.view_as_real(st.tensor([1 + 2j, 3 - 4j]))
    tensor([[ 1.,  2.],
            [ 3., -4.]])
    """
    if input.dtype.kind != "c":
        raise RuntimeError(
            f"view_as_real: is only supported for complex tensors: {input.dtype.name}"
        )
    return ops._view_as_real(input)


@composite(method=False, autocast="full")
def view_as_complex(ops, input):
    """Pairs of real numbers as complex ones, a view.

    Parameters
    ----------
    input : Tensor
        float32 or float64, of shape `(..., 2)`, the pairs side by side in memory.

    Returns
    -------
    Tensor
        complex64 or complex128, of shape `(...)`.

    Raises
    ------
    RuntimeError
        The last dimension is not 2, or its stride is not 1.

    See Also
    --------
    view_as_real, complex

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.view_as_complex(st.tensor([[1., 2.], [3., -4.]]))
    tensor([1.+2.j, 3.-4.j])
    """
    if input.dtype.kind != "f" or not input.ndim or input.shape[-1] != 2:
        raise RuntimeError(
            "view_as_complex: a real tensor whose last dimension is 2 is needed: "
            f"{input.dtype.name}, {tuple(input.shape)}"
        )
    return ops._view_as_complex(input)


REAL_DTYPES = {"complex64": np.float32, "complex128": np.float64}
COMPLEX_DTYPES = {"float32": np.complex64, "float64": np.complex128}


@op(view=True, samples=())
def _view_as_real(xp, x, /):
    """Real and imaginary parts along a new last dimension, a view."""
    dtype = np.dtype(REAL_DTYPES[x.dtype.name])
    return x[..., None].view(dtype)


_view_as_real.pullback(x=lambda ops, g: ops._view_as_complex(ops._contiguous(g)))


@op(view=True, samples=())
def _view_as_complex(xp, x, /):
    """The complex numbers whose parts are the last dimension, a view."""
    if x.strides[-1] != x.itemsize and x.size:
        raise RuntimeError(
            "view_as_complex: Tensor must have a last dimension with stride 1: strides "
            f"{tuple(s // x.itemsize for s in x.strides)}"
        )
    if x.dtype.name not in COMPLEX_DTYPES:
        raise RuntimeError(f"view_as_complex: float32 or float64 are needed: {x.dtype.name}")
    return x.view(COMPLEX_DTYPES[x.dtype.name])[..., 0]


_view_as_complex.pullback(x=lambda ops, g: ops._view_as_real(g))
