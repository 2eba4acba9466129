"""Discrete Fourier transforms, on NumPy's pocketfft. Along one dimension they are rows; several
dimensions are transformed one after the other.

A transform is linear, so its gradient is its adjoint: the transform in the other direction with the
same scale, that is with the norm `ADJOINT_NORM[norm]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import as_dtype, get_default_dtype
from ..creation.device_forms import new_tensor
from ..creation.zeros_full_arange import copy_into_out, dtype_or_default, dtype_or_out
from ..table.constants import computed
from ..table.op_table import composite, op

ADJOINT_NORM = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@op(
    complex_gradients=True,
    samples=[((3, 5), 3, 1), ((3, 5), 7, -1), ((2, 3, 2), 4, 1)],
    vmap="along",
)
def _fft_resize(xp, x, /, n, dim):
    """The first n elements along a dimension, padded with zeros if there are fewer."""
    dim %= x.ndim
    size = x.shape[dim]
    if size >= n:
        return x[(slice(None),) * dim + (slice(0, n),)].copy()
    out = xp.zeros((*x.shape[:dim], n, *x.shape[dim + 1 :]), x.dtype)
    out[(slice(None),) * dim + (slice(0, size),)] = x
    return out


_fft_resize.pullback(x=lambda ops, g, x_shape, dim: ops._fft_resize(g, x_shape[dim], dim))


def resize_back(ops: Any, g: Any, shape: tuple[int, ...], dim: int) -> Any:
    """`_fft_resize` to the size of a shape along dim, if it differs."""
    return g if g.shape[dim] == shape[dim] else ops._fft_resize(g, shape[dim], dim)


SAMPLES = [
    ((3, 4), 4, 1, "backward", False),
    ((3, 4), 6, 0, "ortho", True),
    ((5,), 3, -1, "forward", False),
    ((3, 4), 5, 1, "backward", True),
]


@op(complex_gradients=True, samples=SAMPLES, vmap="along")
def _fft_c2c(xp, x, /, n, dim, norm, inverse):
    """The transform along one dimension, which is first truncated or zero-padded to n elements."""
    kernel = xp.fft.ifft if inverse else xp.fft.fft
    return kernel(x, n, dim, norm)


_fft_c2c.pullback(
    x=lambda ops, g, x_shape, n, dim, norm, inverse: resize_back(
        ops, ops._fft_c2c(g, n, dim, ADJOINT_NORM[norm], not inverse), x_shape, dim
    )
)


@op(
    samples=[((3, 4), 4, 1, "backward"), ((3, 4), 5, 0, "ortho"), ((5,), 3, -1, "forward")],
    vmap="along",
)
def _fft_r2c(xp, x, /, n, dim, norm):
    """The transform of real numbers: n // 2 + 1 frequencies; the others are their conjugates."""
    return xp.fft.rfft(x, n, dim, norm)


_fft_r2c.pullback(
    x=lambda ops, g, x_shape, n, dim, norm: resize_back(
        ops, ops.real(ops._fft_c2c(g, n, dim, ADJOINT_NORM[norm], True)), x_shape, dim
    )
)


@op(
    complex_gradients=True,
    samples=[((3, 3), 4, 1, "backward"), ((3, 4), 5, 0, "ortho"), ((5,), 5, -1, "forward")],
    vmap="along",
)
def _fft_c2r(xp, x, /, n, dim, norm):
    """n real numbers from n // 2 + 1 frequencies: the inverse of `_fft_r2c`."""
    return xp.fft.irfft(x, n, dim, norm)


def fft_c2r_backward(ops: Any, g: Any, shape: tuple[int, ...], n: int, dim: int, norm: str) -> Any:
    """The gradient of `_fft_c2r`; frequencies that also represent their conjugates count twice."""
    half = n // 2 + 1

    def weights(xp: Any) -> Any:
        numbers = xp.full(half, 2, g.dtype)
        numbers[0] = 1
        if n % 2 == 0:
            numbers[-1] = 1
        return numbers.reshape(-1, *(1,) * (len(shape) - 1 - dim % len(shape)))

    halves = ops._fft_r2c(g, n, dim, ADJOINT_NORM[norm])
    return resize_back(ops, ops.mul(halves, computed(weights, g)), shape, dim)


_fft_c2r.pullback(
    x=lambda ops, g, x_shape, n, dim, norm: fft_c2r_backward(ops, g, x_shape, n, dim, norm)
)


# ---- arguments of the public functions


def norm_of(name: str, norm: str | None) -> str:
    """The norm's name; None is "backward"."""
    if norm is not None and norm not in ADJOINT_NORM:
        raise RuntimeError(
            f'{name}: invalid normalization mode: "{norm}", one of {[*ADJOINT_NORM]}'
        )
    return norm or "backward"


def check_input(ops: Any, name: str, x: Any, real: bool = False) -> Any:
    """The input of a transform; integers and bool become the default dtype."""
    if x.dtype.kind in "iub":
        x = ops._to_copy(x, get_default_dtype())
    if x.dtype == np.float16 or x.dtype.kind not in "fc":
        raise RuntimeError(f"{name}: unsupported dtype: {x.dtype.name}")
    if real and x.dtype.kind == "c":
        raise RuntimeError(f"{name}: expects a real input tensor, but got {x.dtype.name}")
    return x


def transform_length(name: str, x: Any, n: int | None, dim: int, half: bool = False) -> int:
    """The length of a transform along one dimension; half: of its n // 2 + 1 frequencies."""
    if not x.ndim or not -x.ndim <= dim < x.ndim:
        raise IndexError(f"{name}: dim out of range: {dim} for shape {tuple(x.shape)}")
    if n is None:
        n = 2 * (x.shape[dim] - 1) if half else x.shape[dim]
    if n < 1:
        raise RuntimeError(f"{name}: invalid number of data points ({n}) specified")
    return n


def transform_lengths(
    name: str, x: Any, s: Sequence[int] | int | None, dim: Sequence[int] | int | None, half: bool
) -> tuple[list[int], list[int]]:
    """(lengths, dimensions) of a transform of several dimensions; half: as `transform_length`."""
    s = (s,) if isinstance(s, int) else s
    dim = (dim,) if isinstance(dim, int) else dim
    if dim is None:
        dims = list(range(x.ndim))[x.ndim - len(s) if s is not None else 0 :]
        if s is not None and len(s) > x.ndim:
            raise RuntimeError(f"{name}: got shape with {len(s)} values but input has {x.ndim} dim")
    else:
        if any(not -x.ndim <= d < x.ndim for d in dim):
            raise IndexError(f"{name}: dim out of range: {tuple(dim)} for shape {tuple(x.shape)}")
        dims = [d % x.ndim for d in dim]
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"{name}: FFT dims must be unique: {dim}")
    if s is not None and len(s) != len(dims):
        raise RuntimeError(f"{name}: dim and shape must have the same length: {dim}, {tuple(s)}")
    sizes: list[Any] = [None if n == -1 else n for n in s] if s is not None else [None] * len(dims)
    last = len(dims) - 1
    lengths = [
        transform_length(name, x, n, d, half and i == last)
        for i, (n, d) in enumerate(zip(sizes, dims))
    ]
    return lengths, dims


# ---- one dimension


@composite(method=False, function=False, autocast="full")
def fft_fft(ops, input, n=None, dim=-1, norm=None):
    """The discrete Fourier transform along a dimension.

    Parameters
    ----------
    input : Tensor
        Real or complex; integers are converted to the default dtype. Not float16.
    n : int, optional
        The length: the input is cut off or padded with zeros to it.
    dim : int, optional
        The dimension; the last by default.
    norm : str, optional
        The scale: "backward" 1, which is the default, "ortho" 1 / sqrt(n), "forward" 1 / n.

    Returns
    -------
    Tensor
        Complex, of n elements along `dim`: first the frequency 0, then the positive ones, then the
        negative ones.

    Raises
    ------
    RuntimeError
        n is less than 1, or the dtype is not supported.

    See Also
    --------
    ifft, rfft, fftn, fftfreq, fftshift

    Notes
    -----
    out[k] is the sum of input[j] exp(-2 pi i j k / n) over j.

    Examples
    --------
    >>> st.fft.fft(st.tensor([1., 2., 3., 2.])).real
    tensor([ 8., -2.,  0., -2.])
    >>> st.fft.fft(st.ones(3), n=4).shape
    Size([4])
    """
    x = check_input(ops, "fft", input)
    return ops._fft_c2c(x, transform_length("fft", x, n, dim), dim, norm_of("fft", norm), False)


@composite(method=False, function=False, autocast="full")
def fft_ifft(ops, input, n=None, dim=-1, norm=None):
    """The inverse of the discrete Fourier transform along a dimension.

    Parameters
    ----------
    input : Tensor
        Real or complex.
    n : int, optional
        The length: the input is cut off or padded with zeros to it.
    dim : int, optional
        The dimension; the last by default.
    norm : str, optional
        The scale: "backward" 1 / n, which is the default, "ortho" 1 / sqrt(n), "forward" 1.

    Returns
    -------
    Tensor
        Complex, of n elements along `dim`.

    Raises
    ------
    RuntimeError
        n is less than 1, or the dtype is not supported.

    See Also
    --------
    fft, irfft

    Examples
    --------
    >>> st.fft.ifft(st.tensor([8., -2., 0., -2.])).real
    tensor([1., 2., 3., 2.])
    """
    x = check_input(ops, "ifft", input)
    return ops._fft_c2c(x, transform_length("ifft", x, n, dim), dim, norm_of("ifft", norm), True)


@composite(method=False, function=False, autocast="full")
def fft_rfft(ops, input, n=None, dim=-1, norm=None):
    """The discrete Fourier transform of real numbers along a dimension: half of the frequencies.

    Parameters
    ----------
    input : Tensor
        Real.
    n : int, optional
        The length: the input is cut off or padded with zeros to it.
    dim : int, optional
        The dimension; the last by default.
    norm : str, optional
        The scale, as for `fft`.

    Returns
    -------
    Tensor
        Complex, of n // 2 + 1 elements along `dim`; the other frequencies are their conjugates.

    Raises
    ------
    RuntimeError
        The tensor is complex, or n is less than 1.

    See Also
    --------
    irfft, fft, rfftfreq

    Examples
    --------
    >>> st.fft.rfft(st.tensor([1., 2., 3., 2.])).real
    tensor([ 8., -2.,  0.])
    """
    x = check_input(ops, "rfft", input, real=True)
    return ops._fft_r2c(x, transform_length("rfft", x, n, dim), dim, norm_of("rfft", norm))


@composite(method=False, function=False, autocast="full")
def fft_irfft(ops, input, n=None, dim=-1, norm=None):
    """The inverse of `rfft`: real numbers from half of their frequencies.

    Parameters
    ----------
    input : Tensor
        Real or complex: n // 2 + 1 frequencies.
    n : int, optional
        How many numbers; by default 2 (frequencies - 1). Give it if it is odd.
    dim : int, optional
        The dimension; the last by default.
    norm : str, optional
        The scale, as for `ifft`.

    Returns
    -------
    Tensor
        Real, of n elements along `dim`.

    Raises
    ------
    RuntimeError
        n is less than 1.

    See Also
    --------
    rfft

    Examples
    --------
    >>> x = st.tensor([1., 2., 6.])
    >>> st.fft.irfft(st.fft.rfft(x), n=3).round()
    tensor([1., 2., 6.])
    """
    x = check_input(ops, "irfft", input)
    return ops._fft_c2r(x, transform_length("irfft", x, n, dim, True), dim, norm_of("irfft", norm))


@composite(method=False, function=False, autocast="full")
def fft_hfft(ops, input, n=None, dim=-1, norm=None):
    """The discrete Fourier transform of a Hermitian signal, from one half of it.

    Parameters
    ----------
    input : Tensor
        Real or complex: n // 2 + 1 elements of the signal.
    n : int, optional
        How many frequencies; by default 2 (elements - 1).
    dim : int, optional
        The dimension; the last by default.
    norm : str, optional
        The scale, as for `fft`.

    Returns
    -------
    Tensor
        Real, of n elements along `dim`.

    Raises
    ------
    RuntimeError
        n is less than 1.

    See Also
    --------
    ihfft, irfft

    Examples
    --------
    >>> st.fft.hfft(st.tensor([1., 0., 0.])).shape
    Size([4])
    """
    x = check_input(ops, "hfft", input)
    n = transform_length("hfft", x, n, dim, True)
    return ops._fft_c2r(ops.conj(x), n, dim, ADJOINT_NORM[norm_of("hfft", norm)])


@composite(method=False, function=False, autocast="full")
def fft_ihfft(ops, input, n=None, dim=-1, norm=None):
    """The inverse of `hfft`: half of a Hermitian signal from its real frequencies.

    Parameters
    ----------
    input : Tensor
        Real.
    n : int, optional
        The length: the input is cut off or padded with zeros to it.
    dim : int, optional
        The dimension; the last by default.
    norm : str, optional
        The scale, as for `ifft`.

    Returns
    -------
    Tensor
        Complex, of n // 2 + 1 elements along `dim`.

    Raises
    ------
    RuntimeError
        The tensor is complex, or n is less than 1.

    See Also
    --------
    hfft, rfft

    Examples
    --------
    >>> st.fft.ihfft(st.ones(4)).real
    tensor([1., 0., 0.])
    """
    x = check_input(ops, "ihfft", input, real=True)
    n = transform_length("ihfft", x, n, dim)
    return ops.conj(ops._fft_r2c(x, n, dim, ADJOINT_NORM[norm_of("ihfft", norm)]))


# ---- several dimensions


def transform_dims(ops: Any, x: Any, lengths: Any, dims: Any, norm: str, inverse: bool) -> Any:
    """The complex transform along dimensions, one after the other."""
    for n, d in zip(lengths, dims):
        x = ops._fft_c2c(x, n, d, norm, inverse)
    return x


def complex_of(ops: Any, x: Any) -> Any:
    """The tensor as complex numbers."""
    wide = np.complex128 if x.dtype in (np.float64, np.complex128) else np.complex64
    return x if x.dtype.kind == "c" else ops._to_copy(x, as_dtype(wide))


def complex_transform(name: str, inverse: bool) -> Any:
    """Makes fftn and ifftn, also used for fft2 and ifft2."""

    def compute(ops, input, s=None, dim=None, norm=None):
        x = check_input(ops, name, input)
        lengths, dims = transform_lengths(name, x, s, dim, False)
        return transform_dims(ops, complex_of(ops, x), lengths, dims, norm_of(name, norm), inverse)

    return compute


def real_transform(name: str) -> Any:
    """Makes rfftn: the last dimension by `rfft`, then the others by `fft`."""

    def compute(ops, input, s=None, dim=None, norm=None):
        x = check_input(ops, name, input, real=True)
        lengths, dims = transform_lengths(name, x, s, dim, False)
        if not dims:
            raise RuntimeError(f"{name}: must transform at least one axis")
        mode = norm_of(name, norm)
        x = ops._fft_r2c(x, lengths[-1], dims[-1], mode)
        return transform_dims(ops, x, lengths[:-1], dims[:-1], mode, False)

    return compute


def inverse_real_transform(name: str, inverse: bool) -> Any:
    """Makes irfftn and hfftn: all dimensions except the last, then the last to real numbers."""

    def compute(ops, input, s=None, dim=None, norm=None):
        x = complex_of(ops, check_input(ops, name, input))
        lengths, dims = transform_lengths(name, x, s, dim, True)
        if not dims:
            raise RuntimeError(f"{name}: must transform at least one axis")
        mode = norm_of(name, norm)
        x = transform_dims(ops, x, lengths[:-1], dims[:-1], mode, inverse)
        if inverse:
            return ops._fft_c2r(x, lengths[-1], dims[-1], mode)
        return ops._fft_c2r(ops.conj(x), lengths[-1], dims[-1], ADJOINT_NORM[mode])

    return compute


def inverse_hermitian_transform(name: str) -> Any:
    """Makes ihfftn: the last dimension by `ihfft`, then the others by `ifft`."""

    def compute(ops, input, s=None, dim=None, norm=None):
        x = check_input(ops, name, input, real=True)
        lengths, dims = transform_lengths(name, x, s, dim, False)
        if not dims:
            raise RuntimeError(f"{name}: must transform at least one axis")
        mode = norm_of(name, norm)
        x = ops.conj(ops._fft_r2c(x, lengths[-1], dims[-1], ADJOINT_NORM[mode]))
        return transform_dims(ops, x, lengths[:-1], dims[:-1], mode, True)

    return compute


def over_two_dims(compute: Any) -> Any:
    """The same function, by default over the last two dimensions."""

    def compute2(ops, input, s=None, dim=(-2, -1), norm=None):
        return compute(ops, input, s, dim, norm)

    return compute2


# name: (maker, its arguments, what it computes, what it takes and returns, an example)
KINDS: dict[str, tuple[Any, tuple[bool, ...], str, str, str, str]] = {
    "fft": (
        complex_transform,
        (False,),
        "The discrete Fourier transform along several dimensions",
        "Real or complex.",
        "Complex, of the lengths `s`.",
        "st.tensor([[1., 2.], [3., 4.]])).real\ntensor([[10., -2.],\n        [-4.,  0.]])",
    ),
    "ifft": (
        complex_transform,
        (True,),
        "The inverse of `fft{}`",
        "Real or complex.",
        "Complex, of the lengths `s`.",
        "st.tensor([[10., -2.], [-4., 0.]])).real\ntensor([[1., 2.],\n        [3., 4.]])",
    ),
    "rfft": (
        real_transform,
        (),
        "The discrete Fourier transform of real numbers along several dimensions",
        "Real.",
        "Complex, of the lengths `s`, but for the last one: that is s // 2 + 1, because the "
        "others\n        are the conjugates of these.",
        "st.zeros(8, 8)).shape\nSize([8, 5])",
    ),
    "irfft": (
        inverse_real_transform,
        (True,),
        "The inverse of `rfft{}`",
        "Real or complex: half of the frequencies of the last dimension.",
        "Real, of the lengths `s`; that of the last dimension is 2 (frequencies - 1) by default.",
        "st.zeros(8, 5)).shape\nSize([8, 8])",
    ),
    "hfft": (
        inverse_real_transform,
        (False,),
        "The discrete Fourier transform of a signal that is Hermitian in the last dimension",
        "Real or complex: half of the signal's last dimension.",
        "Real, of the lengths `s`; that of the last dimension is 2 (n - 1) by default.",
        "st.zeros(8, 5)).shape\nSize([8, 8])",
    ),
    "ihfft": (
        inverse_hermitian_transform,
        (),
        "The inverse of `hfft{}`",
        "Real.",
        "Complex, of the lengths `s`, but for the last one: that is s // 2 + 1.",
        "st.zeros(8, 8)).shape\nSize([8, 5])",
    ),
}

for _name, (_make, _arguments, _doc, _input, _result, _example) in KINDS.items():
    for _end in ("n", "2"):
        _compute = _make(f"{_name}{_end}", *_arguments)
        _compute = over_two_dims(_compute) if _end == "2" else _compute
        _where = "all, or the last ones of `s`" if _end == "n" else "the last two"
        _lines = _example.replace("\n", "\n    ")
        _compute.__doc__ = f"""{_doc.format(_end)}.

    Parameters
    ----------
    input : Tensor
        {_input}
    s : sequence of int, optional
        The length of each dimension: the input is cut off or padded with zeros to it; -1, and by
        default: no change.
    dim : sequence of int, optional
        The dimensions that are transformed; by default {_where}.
    norm : str, optional
        The scale, as for `fft`: "backward", "ortho" or "forward".

    Returns
    -------
    Tensor
        {_result}

    Raises
    ------
    RuntimeError
        A dimension occurs twice, or `s` and `dim` differ in length.

    See Also
    --------
    {_name}

    Examples
    --------
    >>> st.fft.{_name}{_end}({_lines}
    """
        _kind = "" if _name in ("hfft", "ihfft") else "full"  # as in PyTorch's lists
        composite(_compute, name=f"fft_{_name}{_end}", method=False, function=False, autocast=_kind)


# ---- frequencies, shifts


@composite(method=False, function=False)
def fft_fftfreq(
    ops, n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
    """The frequencies of the elements that `fft` returns.

    Parameters
    ----------
    n : int
        The number of samples.
    d : float, optional
        The distance of two samples.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(n,)`: 0, 1, ..., then the negative ones, over n d.

    See Also
    --------
    rfftfreq, fftshift

    Examples
    --------
    >>> st.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    >>> st.fft.fftfreq(5, d=0.2)
    tensor([ 0.,  1.,  2., -2., -1.])
    """
    dtype = dtype_or_default(dtype_or_out("fft_fftfreq", out, dtype))
    values = new_tensor(
        lambda: np.fft.fftfreq(n, d).astype(dtype),
        device=device,
        requires_grad=requires_grad,
        like=out,
    )
    return copy_into_out(out, values)


@composite(method=False, function=False)
def fft_rfftfreq(
    ops, n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
    """The frequencies of the elements that `rfft` returns.

    Parameters
    ----------
    n : int
        The number of samples.
    d : float, optional
        The distance of two samples.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(n // 2 + 1,)`: 0, 1, ..., over n d.

    See Also
    --------
    fftfreq

    Examples
    --------
    >>> st.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    dtype = dtype_or_default(dtype_or_out("fft_rfftfreq", out, dtype))
    values = new_tensor(
        lambda: np.fft.rfftfreq(n, d).astype(dtype),
        device=device,
        requires_grad=requires_grad,
        like=out,
    )
    return copy_into_out(out, values)


def shift_dims(x: Any, dim: Any) -> tuple[int, ...]:
    """The dimensions of a shift, by default all."""
    if dim is None:
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


@composite(method=False, function=False)
def fft_fftshift(ops, input, dim=None):
    """Frequencies in ascending order, with 0 in the middle.

    Parameters
    ----------
    input : Tensor
        What `fft` or `fftfreq` returned.
    dim : int or sequence of int, optional
        The dimensions; by default all.

    Returns
    -------
    Tensor
        Of the same shape.

    See Also
    --------
    ifftshift, roll

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.fft.fftshift(st.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    dims = shift_dims(input, dim)
    return ops.roll(input, tuple(input.shape[d] // 2 for d in dims), dims)


@composite(method=False, function=False)
def fft_ifftshift(ops, input, dim=None):
    """Frequencies in the order of `fft`: the inverse of `fftshift`.

    Parameters
    ----------
    input : Tensor
        Frequencies in ascending order.
    dim : int or sequence of int, optional
        The dimensions; by default all.

    Returns
    -------
    Tensor
        Of the same shape.

    See Also
    --------
    fftshift

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.fft.ifftshift(st.tensor([-2, -1, 0, 1]))
    tensor([ 0,  1, -2, -1])
    """
    dims = shift_dims(input, dim)
    return ops.roll(input, tuple((input.shape[d] + 1) // 2 for d in dims), dims)
