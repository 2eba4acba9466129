"""Discrete Fourier transforms, on NumPy's pocketfft. Along one dimension they are rows; several
dimensions are done one after the other.

A transform is linear, so its gradient is its adjoint: the transform in the other direction with the
same scale, which is the other direction's other `norm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import as_dtype, get_default_dtype
from ..creation.zeros_full_arange import default, dtype_or_out, into, made
from ..table.op_definition import composite, op

OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@op(
    method=False,
    function=False,
    samples=[((3, 5), 3, 1), ((3, 5), 7, -1), ((2, 3, 2), 4, 1)],
    vmap="along",
)
def _fft_resize(xp, x, /, n, dim):
    """The first n elements along a dimension, with zeros after them if there are fewer."""
    dim %= x.ndim
    have = x.shape[dim]
    if have >= n:
        return x[(slice(None),) * dim + (slice(0, n),)].copy()
    out = xp.zeros((*x.shape[:dim], n, *x.shape[dim + 1 :]), x.dtype)
    out[(slice(None),) * dim + (slice(0, have),)] = x
    return out


_fft_resize.pullback(x=lambda ops, g, x_shape, dim: ops._fft_resize(g, x_shape[dim], dim))


def fitted(ops: Any, g: Any, shape: tuple[int, ...], dim: int) -> Any:
    """`_fft_resize`, where there is something to do."""
    return g if g.shape[dim] == shape[dim] else ops._fft_resize(g, shape[dim], dim)


EACH = [
    ((3, 4), 4, 1, "backward", False),
    ((3, 4), 6, 0, "ortho", True),
    ((5,), 3, -1, "forward", False),
    ((3, 4), 5, 1, "backward", True),
]


@op(method=False, function=False, samples=EACH, vmap="along")
def _fft_c2c(xp, x, /, n, dim, norm, inverse):
    """The transform of n elements along one dimension, cut or filled up with zeros before it."""
    kernel = xp.fft.ifft if inverse else xp.fft.fft
    return kernel(x, n, dim, norm)


_fft_c2c.pullback(
    x=lambda ops, g, x_shape, n, dim, norm, inverse: fitted(
        ops, ops._fft_c2c(g, n, dim, OTHER[norm], not inverse), x_shape, dim
    )
)


@op(
    method=False,
    function=False,
    samples=[((3, 4), 4, 1, "backward"), ((3, 4), 5, 0, "ortho"), ((5,), 3, -1, "forward")],
    vmap="along",
)
def _fft_r2c(xp, x, /, n, dim, norm):
    """The transform of real numbers: n // 2 + 1 frequencies, the others are their conjugates."""
    return xp.fft.rfft(x, n, dim, norm)


_fft_r2c.pullback(
    x=lambda ops, g, x_shape, n, dim, norm: fitted(
        ops, ops.real(ops._fft_c2c(g, n, dim, OTHER[norm], True)), x_shape, dim
    )
)


@op(
    method=False,
    function=False,
    samples=[((3, 3), 4, 1, "backward"), ((3, 4), 5, 0, "ortho"), ((5,), 5, -1, "forward")],
    vmap="along",
)
def _fft_c2r(xp, x, /, n, dim, norm):
    """n real numbers of n // 2 + 1 frequencies, the inverse of `_fft_r2c`."""
    return xp.fft.irfft(x, n, dim, norm)


def fft_c2r_backward(ops: Any, g: Any, shape: tuple[int, ...], n: int, dim: int, norm: str) -> Any:
    """Frequencies that stand for their conjugates as well count twice."""
    half = n // 2 + 1
    weights = np.full(half, 2, g.dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    weights = weights.reshape(-1, *(1,) * (len(shape) - 1 - dim % len(shape)))
    return fitted(ops, ops.mul(ops._fft_r2c(g, n, dim, OTHER[norm]), weights), shape, dim)


_fft_c2r.pullback(
    x=lambda ops, g, x_shape, n, dim, norm: fft_c2r_backward(ops, g, x_shape, n, dim, norm)
)


# ---- what the public functions ask of their arguments


def norm_of(name: str, norm: str | None) -> str:
    """The norm's name; None is "backward"."""
    if norm is not None and norm not in OTHER:
        raise RuntimeError(f'{name}: invalid normalization mode: "{norm}", one of {[*OTHER]}')
    return norm or "backward"


def ready(ops: Any, name: str, x: Any, real: bool = False) -> Any:
    """The tensor as numbers that can be transformed: whole ones become the default dtype."""
    if x.dtype.kind in "iub":
        x = ops._to_copy(x, get_default_dtype())
    if x.dtype == np.float16 or x.dtype.kind not in "fc":
        raise RuntimeError(f"{name}: unsupported dtype: {x.dtype}")
    if real and x.dtype.kind == "c":
        raise RuntimeError(f"{name}: expects a real input tensor, but got {x.dtype}")
    return x


def one(name: str, x: Any, n: int | None, dim: int, half: bool = False) -> int:
    """The length of a transform along one dimension; half: of its n // 2 + 1 frequencies."""
    if not x.ndim or not -x.ndim <= dim < x.ndim:
        raise IndexError(f"{name}: dim out of range: {dim} for shape {tuple(x.shape)}")
    if n is None:
        n = 2 * (x.shape[dim] - 1) if half else x.shape[dim]
    if n < 1:
        raise RuntimeError(f"{name}: invalid number of data points ({n}) specified")
    return n


def several(
    name: str, x: Any, s: Sequence[int] | int | None, dim: Sequence[int] | int | None, half: bool
) -> tuple[list[int], list[int]]:
    """(lengths, dimensions) of a transform along several dimensions; half: as `one`, the last."""
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
    wanted: list[Any] = [None if n == -1 else n for n in s] if s is not None else [None] * len(dims)
    last = len(dims) - 1
    lengths = [one(name, x, n, d, half and i == last) for i, (n, d) in enumerate(zip(wanted, dims))]
    return lengths, dims


# ---- one dimension


@composite(method=False, function=False, autocast="full")
def fft_fft(ops, input, n=None, dim=-1, norm=None):
    """The discrete Fourier transform along a dimension: complex, of n elements.

    Args:
        n: cut or fill up with zeros to this length first.
        norm: "backward" (no scale), "ortho" (1 / sqrt(n)) or "forward" (1 / n).
    """
    x = ready(ops, "fft", input)
    return ops._fft_c2c(x, one("fft", x, n, dim), dim, norm_of("fft", norm), False)


@composite(method=False, function=False, autocast="full")
def fft_ifft(ops, input, n=None, dim=-1, norm=None):
    """The inverse of `fft`; "backward" scales by 1 / n, "forward" not."""
    x = ready(ops, "ifft", input)
    return ops._fft_c2c(x, one("ifft", x, n, dim), dim, norm_of("ifft", norm), True)


@composite(method=False, function=False, autocast="full")
def fft_rfft(ops, input, n=None, dim=-1, norm=None):
    """The transform of real numbers: n // 2 + 1 frequencies."""
    x = ready(ops, "rfft", input, real=True)
    return ops._fft_r2c(x, one("rfft", x, n, dim), dim, norm_of("rfft", norm))


@composite(method=False, function=False, autocast="full")
def fft_irfft(ops, input, n=None, dim=-1, norm=None):
    """The inverse of `rfft`: n real numbers, by default twice the frequencies but one."""
    x = ready(ops, "irfft", input)
    return ops._fft_c2r(x, one("irfft", x, n, dim, True), dim, norm_of("irfft", norm))


@composite(method=False, function=False, autocast="full")
def fft_hfft(ops, input, n=None, dim=-1, norm=None):
    """The real transform of a Hermitian signal of which one half is given."""
    x = ready(ops, "hfft", input)
    n = one("hfft", x, n, dim, True)
    return ops._fft_c2r(ops.conj(x), n, dim, OTHER[norm_of("hfft", norm)])


@composite(method=False, function=False, autocast="full")
def fft_ihfft(ops, input, n=None, dim=-1, norm=None):
    """The inverse of `hfft`, of real numbers."""
    x = ready(ops, "ihfft", input, real=True)
    n = one("ihfft", x, n, dim)
    return ops.conj(ops._fft_r2c(x, n, dim, OTHER[norm_of("ihfft", norm)]))


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


def whole(name: str, inverse: bool) -> Any:
    """fftn and ifftn, and with two dimensions by default fft2 and ifft2."""

    def compute(ops, input, s=None, dim=None, norm=None):
        x = ready(ops, name, input)
        lengths, dims = several(name, x, s, dim, False)
        return transform_dims(ops, complex_of(ops, x), lengths, dims, norm_of(name, norm), inverse)

    return compute


def half(name: str) -> Any:
    """rfftn: the last dimension to its frequencies, the others after it."""

    def compute(ops, input, s=None, dim=None, norm=None):
        x = ready(ops, name, input, real=True)
        lengths, dims = several(name, x, s, dim, False)
        if not dims:
            raise RuntimeError(f"{name}: must transform at least one axis")
        mode = norm_of(name, norm)
        x = ops._fft_r2c(x, lengths[-1], dims[-1], mode)
        return transform_dims(ops, x, lengths[:-1], dims[:-1], mode, False)

    return compute


def double(name: str, inverse: bool) -> Any:
    """irfftn (and hfftn): all dimensions but the last, then the last to real numbers."""

    def compute(ops, input, s=None, dim=None, norm=None):
        x = complex_of(ops, ready(ops, name, input))
        lengths, dims = several(name, x, s, dim, True)
        if not dims:
            raise RuntimeError(f"{name}: must transform at least one axis")
        mode = norm_of(name, norm)
        x = transform_dims(ops, x, lengths[:-1], dims[:-1], mode, inverse)
        if inverse:
            return ops._fft_c2r(x, lengths[-1], dims[-1], mode)
        return ops._fft_c2r(ops.conj(x), lengths[-1], dims[-1], OTHER[mode])

    return compute


def hermitian(name: str) -> Any:
    """ihfftn: the last dimension by `ihfft`, the others by `ifft`."""

    def compute(ops, input, s=None, dim=None, norm=None):
        x = ready(ops, name, input, real=True)
        lengths, dims = several(name, x, s, dim, False)
        if not dims:
            raise RuntimeError(f"{name}: must transform at least one axis")
        mode = norm_of(name, norm)
        x = ops.conj(ops._fft_r2c(x, lengths[-1], dims[-1], OTHER[mode]))
        return transform_dims(ops, x, lengths[:-1], dims[:-1], mode, True)

    return compute


def in_two(compute: Any) -> Any:
    """The same, by default of the last two dimensions."""

    def compute2(ops, input, s=None, dim=(-2, -1), norm=None):
        return compute(ops, input, s, dim, norm)

    return compute2


KINDS: dict[str, tuple[Any, tuple[bool, ...], str]] = {
    "fft": (whole, (False,), "The transform along several dimensions"),
    "ifft": (whole, (True,), "The inverse of `fft{}`"),
    "rfft": (half, (), "The transform of real numbers along several dimensions, the last one half"),
    "irfft": (double, (True,), "The inverse of `rfft{}`"),
    "hfft": (double, (False,), "The real transform of a signal Hermitian in the last dimension"),
    "ihfft": (hermitian, (), "The inverse of `hfft{}`"),
}

for _name, (_make, _arguments, _doc) in KINDS.items():
    for _end in ("n", "2"):
        _compute = _make(f"{_name}{_end}", *_arguments)
        _compute = in_two(_compute) if _end == "2" else _compute
        _where = "by default all" if _end == "n" else "by default the last two"
        _compute.__doc__ = f"{_doc.format(_end)}; dim: {_where}. s: the lengths; norm: as `fft`."
        _kind = "" if _name in ("hfft", "ihfft") else "full"  # as PyTorch's lists have it
        composite(_compute, name=f"fft_{_name}{_end}", method=False, function=False, autocast=_kind)


# ---- frequencies, shifts


@composite(method=False, function=False)
def fft_fftfreq(
    ops, n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
    """The frequencies of `fft` for n samples, d apart."""
    dtype = default(dtype_or_out("fft_fftfreq", out, dtype))
    values = made(
        lambda: np.fft.fftfreq(n, d).astype(dtype), device=device, requires_grad=requires_grad
    )
    return into(out, values)


@composite(method=False, function=False)
def fft_rfftfreq(
    ops, n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
    """The frequencies of `rfft` for n samples, d apart."""
    dtype = default(dtype_or_out("fft_rfftfreq", out, dtype))
    values = made(
        lambda: np.fft.rfftfreq(n, d).astype(dtype), device=device, requires_grad=requires_grad
    )
    return into(out, values)


def shift_dims(x: Any, dim: Any) -> tuple[int, ...]:
    """The dimensions of a shift, by default all."""
    if dim is None:
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


@composite(method=False, function=False)
def fft_fftshift(ops, input, dim=None):
    """The frequencies in rising order: the zero one in the middle."""
    dims = shift_dims(input, dim)
    return ops.roll(input, tuple(input.shape[d] // 2 for d in dims), dims)


@composite(method=False, function=False)
def fft_ifftshift(ops, input, dim=None):
    """The inverse of `fftshift`."""
    dims = shift_dims(input, dim)
    return ops.roll(input, tuple((input.shape[d] + 1) // 2 for d in dims), dims)
