"""Functions of matrices: inverse, determinants, singular values, exponential. Batched over leading
dimensions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import errors
from ...dtypes import HALVES
from ..shape.view_expand_flip import sum_to_shape
from ..table.constants import eye, on_device, zeros
from ..table.named_results import named_result
from ..table.op_table import composite, op

Function = Callable[..., Any]
Shape = tuple[int, ...]


def check_square(name: str, x: Any) -> None:
    """Raises RuntimeError unless x is a batch of square matrices of real or complex numbers."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"{name}: square matrices (..., n, n) are needed: {tuple(x.shape)}")
    check_floating(name, x)


def check_floating(name: str, x: Any) -> None:
    """Raises RuntimeError unless the numbers are real or complex, in single or double precision."""
    if x.ndim < 2:
        raise RuntimeError(f"{name}: at least 2 dimensions are needed: {tuple(x.shape)}")
    if x.dtype.kind not in "fc" or x.dtype in HALVES:
        raise RuntimeError(
            f"{name}: floating-point or complex numbers of 32 bits or more are needed: "
            f"{x.dtype.name}"
        )


def call_numpy(name: str, function: Function, *arrays: Any, reason: str = "") -> Any:
    """Calls one of NumPy's functions; its LinAlgError becomes ours, with the shapes.

    Args:
        reason: why the function fails, if there is one cause alone; by default what the library
            says. NumPy names the cause, CuPy the routine that failed.
    """
    try:
        if on_device(arrays[0]):
            return call_device(function, *arrays)
        return function(*arrays)
    except np.linalg.LinAlgError as error:
        shapes = ", ".join(str(a.shape) for a in arrays)
        text = reason or str(error).lower()
        raise errors.LinAlgError(f"{name}: {text}: {shapes}") from None


def call_device(function: Function, *arrays: Any) -> Any:
    """Calls one of CuPy's functions, which raises LinAlgError as NumPy's. It waits for the result,
    as PyTorch does for the same errors.
    """
    import cupyx

    with cupyx.errstate(linalg="raise"):
        return function(*arrays)


def conj_transpose(x: Any) -> Any:
    """The matrices conjugated and transposed."""
    return x.swapaxes(-1, -2).conjugate()


NEAR_ONE = np.eye(3) + 0.3 * np.arange(9.0).reshape(3, 3) % 0.7
BATCH = np.stack([NEAR_ONE, NEAR_ONE.T + 0.2])
TALL = np.array([[1.0, 0.2], [0.3, 2.0], [-0.4, 0.6]])


of_matrices = functools.partial(op, halves="checks", vmap="alone")


@of_matrices(complex_gradients=True, samples=[(NEAR_ONE,), (BATCH,), ((0, 2, 2),)], autocast="full")
def inverse(xp, x, /):
    """The inverse of square matrices.

    Parameters
    ----------
    input : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    LinAlgError
        A matrix is singular.

    See Also
    --------
    linalg.inv, linalg.solve, pinverse

    Examples
    --------
    >>> st.inverse(st.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("inverse", x)
    return call_numpy("inverse", xp.linalg.inv, x, reason="singular matrix")


inverse.pullback(
    x=lambda ops, g, out: -ops.matmul(ops.matmul(conj_transpose(out), g), conj_transpose(out))
)


@op(
    complex_gradients=True,
    samples=[(NEAR_ONE, (3, 2)), (BATCH, (3, 1)), (NEAR_ONE, (2, 3, 1))],
    halves="checks",
    vmap="solve",
)
def _solve(xp, x, y, /):
    """The matrices z with x @ z = y."""
    check_square("solve", x)
    if xp is not np and x.shape[:-2] != y.shape[:-2]:
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        x, y = (xp.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, y))
    return call_numpy("solve", xp.linalg.solve, x, y, reason="singular matrix")


def solve_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, out: Any, x_shape: Shape, y_shape: Shape
) -> tuple[Any, Any]:
    """The gradients by x and y, from one solution with the adjoint of x."""
    needs_x, needs_y = needed
    solution = ops._solve(conj_transpose(x), g)
    g_x = None
    if needs_x:
        g_x = sum_to_shape(ops, -ops.matmul(solution, conj_transpose(out)), x_shape)
    return g_x, sum_to_shape(ops, solution, y_shape) if needs_y else None


_solve.joint_pullback(solve_backward, x="x", y="x")


# ---- determinants


@of_matrices(outputs="sign logabsdet", samples=[(NEAR_ONE,), (BATCH,)])
def slogdet(xp, x, /):
    """The sign and the logarithm of the absolute value of the determinant of square matrices.

    Parameters
    ----------
    input : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    (sign, logabsdet) : Tensor, Tensor
        Of shape `(...)`; the determinant is sign * exp(logabsdet). For complex matrices the sign
        has modulus 1; of singular ones it is 0 and the logarithm -inf.

    See Also
    --------
    det, logdet

    Notes
    -----
    Large matrices have determinants beyond the dtype's range, but not their logarithms.

    Examples
    --------
    >>> st.slogdet(st.tensor([[0., 1.], [1., 0.]]))
    shmtensor.return_types.slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    check_square("slogdet", x)
    sign, size = xp.linalg.slogdet(x)
    return xp.asarray(sign, x.dtype), xp.asarray(size, x.real.dtype)


def slogdet_backward(ops: Any, g_sign: Any, g_logabsdet: Any, x: Any, sign: Any) -> Any:
    """(g of the logarithm - i Im(conj(g of the sign) * sign)) times the inverse's adjoint."""
    scale = g_logabsdet
    if x.dtype.kind == "c":
        scale = scale - ops.imag(g_sign.conjugate() * sign) * 1j
    return ops.unsqueeze(ops.unsqueeze(scale, -1), -1) * conj_transpose(ops.inverse(x))


slogdet.pullback(x=slogdet_backward)


@composite
def logdet(ops, input):
    """The logarithm of the determinant of square matrices.

    Parameters
    ----------
    input : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    Tensor
        Of shape `(...)`; -inf where the determinant is 0, NaN where it is negative.

    See Also
    --------
    slogdet, det

    Examples
    --------
    >>> st.logdet(st.eye(3))
    tensor(0.)
    """
    sign, size = ops.slogdet(input)
    return ops.add(size, ops.log(sign))


def product_of_others(ops: Any, s: Any) -> Any:
    """For each number of the last dimension, the product of the others, without a division."""
    n = s.shape[-1]
    wide = ops.broadcast_to(ops.unsqueeze(s, -2), (*s.shape, n))
    return ops.prod(ops._where_other(eye(n, n, bool, s), wide, 1.0), -1)


@of_matrices(complex_gradients=True, samples=[(NEAR_ONE,), (BATCH,), ((2, 0, 0),)])
def det(xp, x, /):
    """The determinant of square matrices.

    Parameters
    ----------
    input : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    Tensor
        Of shape `(...)`.

    Raises
    ------
    RuntimeError
        The matrices are not square.

    See Also
    --------
    slogdet, linalg.det

    Notes
    -----
    The gradient of singular matrices is computed from their singular values.

    Examples
    --------
    >>> st.det(st.tensor([[2., 0.], [0., 3.]]))
    tensor(6.)
    """
    check_square("det", x)
    return xp.asarray(xp.linalg.det(x), x.dtype)


def det_backward(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """The cofactors: det * inverse, or from the singular values if a matrix is singular."""
    as_1x1 = lambda v: ops.unsqueeze(ops.unsqueeze(v, -1), -1)  # noqa: E731
    if bool(ops.all(out != 0)):
        return as_1x1(g * out.conjugate()) * conj_transpose(ops.inverse(x))
    u, s, vh = ops._svd(x)
    phase = ops.det(u) * ops.det(vh)
    scale = ops.unsqueeze(product_of_others(ops, s), -2)
    return as_1x1(g * phase.conjugate()) * ops.matmul(u * scale, vh)


det.pullback(x=det_backward)


# ---- singular values


@of_matrices(outputs="u s vh", samples=[(NEAR_ONE,), (TALL,), (TALL.T,)])
def _svd(xp, x, /):
    """x = u @ diag(s) @ vh, s descending: (..., m, k), (..., k), (..., k, n), k = min(m, n)."""
    check_floating("svd", x)
    return tuple(call_numpy("svd", lambda a: xp.linalg.svd(a, full_matrices=False), x))


def svd_backward(ops: Any, g_u: Any, g_s: Any, g_vh: Any, u: Any, s: Any, vh: Any) -> Any:
    """The gradient at x (Townsend 2016). It has no limit where singular values coincide."""
    m, k, n = u.shape[-2], s.shape[-1], vh.shape[-1]
    uh, v, g_v = conj_transpose(u), conj_transpose(vh), conj_transpose(g_vh)
    row, column = ops.unsqueeze(s, -2), ops.unsqueeze(s, -1)
    same = eye(k, k, bool, s)
    gaps = ops._where_other(same, (row - column) * (row + column), 1.0)
    u_part, v_part = ops.matmul(uh, g_u), ops.matmul(conj_transpose(v), g_v)
    inner = ((u_part - conj_transpose(u_part)) / gaps) * row + column * (
        (v_part - conj_transpose(v_part)) / gaps
    )
    inner = inner + ops.diag_embed(g_s)
    if u.dtype.kind == "c":
        inner = ops._where(
            same, ops.diag_embed(g_s) + (u_part - conj_transpose(u_part)) / (2 * row), inner
        )
    out = ops.matmul(ops.matmul(u, inner), vh)
    if m > k:
        orthogonal = g_u - ops.matmul(u, u_part)
        out = out + ops.matmul(orthogonal / row, vh)
    if n > k:
        orthogonal = conj_transpose(g_v - ops.matmul(v, v_part))
        out = out + ops.matmul(u / row, orthogonal)
    return out


_svd.pullback(x=svd_backward)


@of_matrices(samples=[(NEAR_ONE,), (TALL,), (TALL.T,)])
def _svdvals(xp, x, /):
    """The singular values of matrices, descending. Gradients are right even if some coincide."""
    check_floating("svd", x)
    return call_numpy("svd", lambda a: xp.linalg.svd(a, compute_uv=False), x)


def svdvals_backward(ops: Any, g: Any, x: Any) -> Any:
    """u diag(g) vh."""
    u, _, vh = ops._svd(x)
    return ops.matmul(u * ops.unsqueeze(g, -2), vh)


_svdvals.pullback(x=svdvals_backward)


@composite(autocast="full")
def svd(ops, input, some=True, compute_uv=True):
    """The singular value decomposition of matrices: input = U @ diag(S) @ V.mH.

    Parameters
    ----------
    input : Tensor
        `(..., m, n)`, float32, float64 or complex; k is the smaller of m and n.
    some : bool, optional
        False gives square U and V.
    compute_uv : bool, optional
        False gives zeros for U and V.

    Returns
    -------
    (U, S, V) : Tensor, Tensor, Tensor
        `(..., m, k)`, `(..., k)` in descending order, and `(..., n, k)`; with `some=False` U `(...,
        m, m)` and V `(..., n, n)`.

    See Also
    --------
    linalg.svd, linalg.svdvals

    Notes
    -----
    `linalg.svd` returns the adjoint of V. The gradients of U and V have no limit where singular
    values coincide.

    Examples
    --------
    >>> st.svd(st.tensor([[2., 0.], [0., 3.]])).S.round()
    tensor([3., 2.])
    """
    m, n = (input.shape[-2], input.shape[-1]) if input.ndim > 1 else (0, 0)
    if not compute_uv:
        s = ops._svdvals(input)
        lead = tuple(input.shape[:-2])
        u, v = (zeros(ops, (*lead, k, k), input.dtype, input) for k in (m, n))
        return named_result("svd", U=u, S=s, V=v)
    u, s, vh = ops._svd(input) if some or m == n else ops._linalg_svd(input)
    return named_result("svd", U=u, S=s, V=ops.adjoint(vh))


@of_matrices(samples=[(TALL,), (TALL.T,), (BATCH,)], autocast="full")
def pinverse(xp, x, /, rcond=1e-15):
    """The pseudo-inverse of matrices (Moore and Penrose).

    Parameters
    ----------
    input : Tensor
        `(..., m, n)`, float32, float64 or complex.
    rcond : float, optional
        Singular values up to rcond times the largest one count as 0.

    Returns
    -------
    Tensor
        `(..., n, m)`.

    See Also
    --------
    linalg.pinv, inverse

    Examples
    --------
    >>> st.pinverse(st.tensor([[2., 0.], [0., 4.]])).shape
    Size([2, 2])
    """
    check_floating("pinverse", x)
    if not x.size:
        return xp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    return call_numpy("pinverse", lambda a: xp.linalg.pinv(a, rcond), x)


def pinverse_backward(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """The gradient for a constant rank (Golub and Pereyra 1973)."""
    gh, adjoint = conj_transpose(g), conj_transpose(out)
    if x.shape[-2] <= x.shape[-1]:
        k = ops.matmul(gh, out)
        wide = ops.matmul(k, adjoint)
        return (
            wide
            - conj_transpose(ops.matmul(out, k))
            - ops.matmul(ops.matmul(x, out), wide)
            + ops.matmul(ops.matmul(adjoint, out), gh - ops.matmul(k, x))
        )
    k = ops.matmul(out, gh)
    wide = ops.matmul(adjoint, k)
    return (
        wide
        - conj_transpose(ops.matmul(k, out))
        + ops.matmul(ops.matmul(gh - ops.matmul(x, k), out), adjoint)
        - ops.matmul(ops.matmul(wide, out), x)
    )


pinverse.pullback(x=pinverse_backward)


# ---- triangular systems


@composite(autocast="full")
def triangular_solve(ops, input, A, upper=True, transpose=False, unitriangular=False):
    """The solution of a system of equations with a triangular matrix: A @ x = input.

    Parameters
    ----------
    input : Tensor
        `(..., n, k)`: the right-hand sides.
    A : Tensor
        `(..., n, n)`.
    upper : bool, optional
        Which triangle of A counts: the upper or the lower one.
    transpose : bool, optional
        Whether the transpose of A is the matrix.
    unitriangular : bool, optional
        Whether the diagonal of A counts as ones.

    Returns
    -------
    (solution, cloned_coefficient) : Tensor, Tensor
        The solution `(..., n, k)`, and a copy of A.

    See Also
    --------
    linalg.solve_triangular

    Examples
    --------
    >>> st.triangular_solve(st.tensor([[4.], [4.]]), st.tensor([[2., 1.], [9., 4.]])).solution
    tensor([[1.5000],
            [1.0000]])
    """
    check_square("triangular_solve", A)
    check_floating("triangular_solve", input)
    if A.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            f"triangular_solve: sizes differ: A {tuple(A.shape)}, b {tuple(input.shape)}"
        )
    triangle, shift = (ops.triu, 1) if upper else (ops.tril, -1)
    part = triangle(A)
    if unitriangular:
        part = ops.add(triangle(A, shift), eye(A.shape[-1], A.shape[-1], A.dtype, A))
    part = ops.transpose(part, -2, -1) if transpose else part
    return named_result(
        "triangular_solve", solution=ops._solve(part, input), cloned_coefficient=ops.clone(A)
    )


# ---- powers


PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip


@op(complex_gradients=True, samples=[(NEAR_ONE,), (BATCH,), ((2, 2),), ((0, 2, 2),)], vmap="alone")
def matrix_exp(xp, x, /):
    """The exponential of square matrices: the sum of A ** k / k! over k = 0, 1, ...

    Parameters
    ----------
    input : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    Tensor
        Of the same shape.

    See Also
    --------
    matrix_power, exp

    Notes
    -----
    By scaling and squaring with a Padé approximant of order 13 (Higham 2005), in float64.

    Examples
    --------
    >>> st.matrix_exp(st.tensor([[0., 1.], [0., 0.]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    check_square("matrix_exp", x)
    if not x.size:
        return x.copy()
    dtype = x.dtype
    wide = xp.result_type(dtype, xp.float64)
    x = x.astype(wide)
    norm = float(xp.abs(x).sum(-2).max())
    if not math.isfinite(norm):
        return xp.full(x.shape, xp.nan, dtype)
    times = max(0, math.ceil(math.log2(norm / 5.37))) if norm else 0
    x = x / 2.0**times
    one = xp.eye(x.shape[-1], dtype=wide)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    b = PADE
    odd = x @ (
        x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one
    )
    even = (
        x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    )
    out = xp.linalg.solve(even - odd, even + odd)
    for _ in range(times):
        out = out @ out
    return out.astype(dtype)


def matrix_exp_backward(ops: Any, g: Any, x: Any) -> Any:
    """The corner of exp([[x*, g], [0, x*]]) (Mathias 1996)."""
    n, adjoint = x.shape[-1], conj_transpose(x)
    above = ops.cat([adjoint, g], -1)
    below = ops.cat([adjoint * 0, adjoint], -1)
    return ops.matrix_exp(ops.cat([above, below], -2))[..., :n, n:]


matrix_exp.pullback(x=matrix_exp_backward)


@composite
def matrix_power(ops, input, n):
    """Square matrices to an integer power.

    Parameters
    ----------
    input : Tensor
        `(..., n, n)`.
    n : int
        The power; a negative one is that of the inverse, 0 gives the identity.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    RuntimeError
        The matrices are not square.

    See Also
    --------
    linalg.matrix_power, matrix_exp

    Notes
    -----
    By repeated squaring: about log2(n) products.

    Examples
    --------
    >>> st.matrix_power(st.tensor([[1., 1.], [0., 1.]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise RuntimeError(f"matrix_power: square matrices are needed: {tuple(input.shape)}")
    if n < 0:
        return ops.matrix_power(ops.inverse(input), -n)
    if n == 0:
        one = eye(input.shape[-1], input.shape[-1], input.dtype, input)
        return ops.add(ops.mul(input, 0), one)
    out: Any = None
    while True:
        if n % 2:
            out = input if out is None else ops.matmul(out, input)
        n //= 2
        if not n:
            return ops.clone(out) if out is input else out
        input = ops.matmul(input, input)
