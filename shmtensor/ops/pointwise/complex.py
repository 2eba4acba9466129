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
    """Complex conjugate; a real tensor itself."""
    return ops._conj_physical(input) if input.dtype.kind == "c" else input


conj.alias("conjugate", "conj_physical")


@op(view=True, samples=UNARY)
def _real(xp, x, /):
    """Real part, a view."""
    return x.real


_real.pullback(x=lambda g: g)


@composite(method=False)
def real(ops, input):
    """Real part, a view; a real tensor itself."""
    return ops._real(input) if input.dtype.kind == "c" else input


@op(view=True, method=False, samples=[], vmap="alone")
def imag(xp, x, /):
    """Imaginary part of a complex tensor, a view."""
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
    """Angle of complex numbers in the plane; of real ones 0, or pi for negative ones."""
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
    """Complex numbers from their real and imaginary parts."""
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
    """Complex numbers from their modulus and angle."""
    out = xp.empty(xp.broadcast(abs, angle).shape, xp.result_type(abs.dtype, xp.complex64))
    out.real, out.imag = abs * xp.cos(angle), abs * xp.sin(angle)
    return out


polar.pullback(
    abs=lambda ops, g, out: ops.real(g * ops.sgn(out).conjugate()),
    angle=lambda ops, g, out: ops.real(g * (out * 1j).conjugate()),
)


@composite
def resolve_conj(ops, input):
    """The tensor itself: conjugation is never lazy here."""
    return input


@composite
def resolve_neg(ops, input):
    """The tensor itself: negation is never lazy here."""
    return input


@composite(method=False)
def view_as_real(ops, input):
    """Complex numbers as pairs of real ones: (...) to (..., 2)."""
    if input.dtype.kind != "c":
        raise RuntimeError(
            f"view_as_real: is only supported for complex tensors: {input.dtype.name}"
        )
    return ops._view_as_real(input)


@composite(method=False, autocast="full")
def view_as_complex(ops, input):
    """Pairs of real numbers as complex ones: (..., 2) to (...)."""
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
