"""Linear algebra and special functions by the names that `shmtensor` and Tensor have for them. The
work is done in families that are declared later (ops/__init__.py).
"""

from __future__ import annotations

import numpy as np

from .table.check_dtypes import fractions
from .table.named_results import named
from .table.op_definition import composite, insist_on_tensors, op


@composite(autocast="full")
def cholesky(ops, input, upper=False):
    """The Cholesky factor of Hermitian positive-definite matrices: `linalg.cholesky`."""
    return ops.linalg_cholesky(input, upper=upper)


@composite(autocast="full")
def cholesky_inverse(ops, L, upper=False):
    """The inverse of L @ L.mH (upper: L.mH @ L), of which L's one triangle is read."""
    return ops.linalg_cholesky_inverse(L, upper)


@composite(autocast="full")
def cholesky_solve(ops, B, L, upper=False):
    """X with L @ L.mH @ X = B (upper: L.mH @ L @ X = B)."""
    return ops.linalg_cholesky_solve(B, L, upper)


@composite(autocast="full")
def geqrf(ops, input):
    """(a, tau): R above the diagonal and the reflectors of Q below it; no gradients."""
    return ops.linalg_geqrf(input)


@composite
def lu(ops, A, pivot=True, get_infos=False):
    """(LU, pivots), and with get_infos where U's diagonal is zero first: `linalg.lu_factor`."""
    out = ops.linalg_lu_factor_ex(A, pivot=pivot)
    return tuple(out) if get_infos else tuple(out[:2])


@composite(autocast="full")
def lu_solve(ops, b, LU_data, LU_pivots):
    """X with A @ X = b for the A that `lu` took apart."""
    return ops.linalg_lu_solve(LU_data, LU_pivots, b)


@composite(method=False)
def lu_unpack(ops, LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """(P, L, U) of what `lu` gives; what is not unpacked is empty."""
    return ops.linalg_lu_unpacked(LU_data, LU_pivots, unpack_data, unpack_pivots)


@composite(autocast="full")
def orgqr(ops, input, tau):
    """The first columns of Q from its reflectors: `linalg.householder_product`."""
    return ops.linalg_householder_product(input, tau)


@composite(autocast="full")
def ormqr(ops, input, tau, other, left=True, transpose=False):
    """Q @ other (left=False: other @ Q) for the Q of `geqrf`; transpose: with its adjoint."""
    return ops.linalg_ormqr(input, tau, other, left, transpose)


@composite(autocast="full")
def qr(ops, input, some=True):
    """input = Q @ R; some=False: square Q. `linalg.qr`."""
    q, r = ops.linalg_qr(input, "reduced" if some else "complete")
    return named("qr", Q=q, R=r)


@composite(method=False)
def svd_lowrank(ops, A, q=6, niter=2, M=None):
    """(U, S, V) of the q largest singular values of A - M; exact, niter has no effect."""
    return ops.linalg_svd_lowrank(A, q, niter, M)


@composite(method=False)
def pca_lowrank(ops, A, q=None, center=True, niter=2):
    """(U, S, V): the principal components of the rows of A; exact, niter has no effect."""
    return ops.linalg_pca_lowrank(A, q, center, niter)


# ---- special functions


@composite(inplace=True)
def igamma(ops, input, other):
    """The regularised lower incomplete gamma function: `special.gammainc`."""
    insist_on_tensors("igamma", input, other)
    fractions("igamma", input, other)
    return ops.special_gammainc(input, other)


@composite(inplace=True)
def igammac(ops, input, other):
    """The regularised upper incomplete gamma function: `special.gammaincc`."""
    insist_on_tensors("igammac", input, other)
    fractions("igammac", input, other)
    return ops.special_gammaincc(input, other)


@composite(inplace=True)
def mvlgamma(ops, input, p):
    """The logarithm of the multivariate gamma function of dimension p: `special.multigammaln`."""
    return ops.special_multigammaln(input, p)


# ---- signals


@composite(autocast="full")
def stft(
    ops,
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """The Fourier transforms of overlapping frames of a signal: (..., frequencies, frames).

    Args:
        input: (L) or (batch, L)
        n_fft: points of a frame; hop_length: from frame to frame, by default a quarter.
        window: win_length weights, in the middle of a frame; by default ones.
        center: the signal is padded, so that frames are centred at 0, hop, 2 hop, ...
        normalized: scaled by 1 / sqrt(n_fft).
        onesided: the first half of the frequencies; by default of real signals.
        return_complex: False gives pairs of real numbers.
    """
    return ops.fft_stft(
        input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
        return_complex,
    )  # fmt: skip


@composite
def istft(
    ops,
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """The signal whose `stft` this is, by overlapping and adding; length: of the signal.

    Raises: RuntimeError, the windows leave gaps.
    """
    return ops.fft_istft(
        input, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
        return_complex,
    )  # fmt: skip


@composite(method=False)
def segment_reduce(
    ops,
    data,
    reduce,
    *,
    lengths=None,
    indices=None,
    offsets=None,
    axis=0,
    unsafe=False,
    initial=None,
):
    """ "sum", "mean", "max", "min" or "prod" of consecutive segments along a dimension.

    Args:
        lengths: of the segments, (..., segments), the dimensions before it those of data before
            axis; or offsets: where they start and the last one ends.
        initial: what a reduction starts from, and an empty segment gives.
        unsafe: the lengths are not checked.
    """
    if indices is not None:
        raise RuntimeError("segment_reduce: indices based reduction is not supported")
    return ops.fft_segments(data, reduce, lengths, offsets, axis, unsafe, initial)


@composite(method=False)
def vander(ops, x, N=None, increasing=False):
    """The powers of the numbers of a vector (n,): (n, N), by default N = n.

    Args:
        increasing: from 0 to N - 1; otherwise the other way round, as NumPy has it.

    Raises:
        RuntimeError: x is no vector, or N is negative.
    """
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a vector: {tuple(x.shape)}")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError(f"vander: N must not be negative: {n}")
    if n < 2:
        out = ops.unsqueeze(ops.ones_like(x), 1)[:, :n]
        return out if x.dtype.kind in "fc" else ops.cast(out, np.dtype(np.int64))
    out = ops.linalg_vander(x, n)
    return out if increasing else ops.flip(out, (1,))


@composite(method=False)
def norm_except_dim(ops, v, pow=2, dim=0):
    """The norm of v over all dimensions but one, kept as sizes of 1; dim -1: over all."""
    if dim == -1:
        return ops.norm(v, pow)
    rest = [d for d in range(v.ndim) if d != dim % v.ndim]
    return ops.linalg_vector_norm(v, pow, rest, keepdim=True) if rest else ops.abs(v)


# ---- complex numbers as pairs


@composite(method=False)
def view_as_real(ops, input):
    """Complex numbers as pairs of real ones: (...) to (..., 2)."""
    if input.dtype.kind != "c":
        raise RuntimeError(f"view_as_real: is only supported for complex tensors: {input.dtype}")
    return ops.complex_pairs(input)


@composite(method=False, autocast="full")
def view_as_complex(ops, input):
    """Pairs of real numbers as complex ones: (..., 2) to (...)."""
    if input.dtype.kind != "f" or not input.ndim or input.shape[-1] != 2:
        raise RuntimeError(
            "view_as_complex: a real tensor whose last dimension is 2 is needed: "
            f"{input.dtype}, {tuple(input.shape)}"
        )
    return ops.pairs_complex(input)


PAIRS_OF = {"complex64": np.float32, "complex128": np.float64}
OF_PAIRS = {"float32": np.complex64, "float64": np.complex128}


@op(view=True, method=False, function=False, samples=())
def complex_pairs(xp, x, /):
    """Real and imaginary parts along a new last dimension, a view."""
    kind = np.dtype(PAIRS_OF[x.dtype.name])
    return x[..., None].view(kind)


complex_pairs.pullback(x=lambda ops, g: ops.pairs_complex(ops.packed(g)))


@op(view=True, method=False, function=False, samples=())
def pairs_complex(xp, x, /):
    """The complex numbers whose parts lie along the last dimension, a view."""
    if x.strides[-1] != x.itemsize and x.size:
        raise RuntimeError(
            "view_as_complex: Tensor must have a last dimension with stride 1: strides "
            f"{tuple(s // x.itemsize for s in x.strides)}"
        )
    if x.dtype.name not in OF_PAIRS:
        raise RuntimeError(f"view_as_complex: float32 or float64 are needed: {x.dtype}")
    return x.view(OF_PAIRS[x.dtype.name])[..., 0]


pairs_complex.pullback(x=lambda ops, g: ops.complex_pairs(g))


# ---- recurrent networks


def network(name: str, kind: str, result: str) -> None:
    """lstm, gru, rnn_tanh, rnn_relu."""

    def compute(ops, *args, **named):
        return ops.recurrent_run(kind, args, named)

    compute.__doc__ = f"""Layers of {kind} cells: {result}.

    Forms: (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    with input (steps, batch, n); (data, batch_sizes, hx, params, has_biases, num_layers, dropout,
    train, bidirectional) with packed data. params: per layer and direction the weights of the
    input and of the state, and two biases if has_biases.
    """
    composite(compute, name=name, method=False)


network("lstm", "lstm", "(output, h, c), hx is (h, c)")
network("gru", "gru", "(output, h)")
network("rnn_tanh", "tanh", "(output, h)")
network("rnn_relu", "relu", "(output, h)")


@composite(method=False)
def lstm_cell(ops, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """(h, c) after one step of a cell with input, forget, cell and output gates; hx is (h, c)."""
    return ops.recurrent_cell("lstm", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))


def single(name: str, kind: str, doc: str) -> None:
    """The cells of one state."""

    def compute(ops, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return ops.recurrent_cell(kind, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]

    compute.__doc__ = doc
    composite(compute, name=name, method=False)


single("gru_cell", "gru", "The state after one step of a cell with reset and update gates.")
single("rnn_tanh_cell", "tanh", "tanh(w_ih @ input + b_ih + w_hh @ hx + b_hh).")
single("rnn_relu_cell", "relu", "relu(w_ih @ input + b_ih + w_hh @ hx + b_hh).")
