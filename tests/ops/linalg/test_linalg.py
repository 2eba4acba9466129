"""shmtensor.linalg: values against NumPy and SciPy; gradients of two orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import shmtensor as st
from shmtensor import linalg
from shmtensor.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(5)
A = RANDOM.standard_normal((2, 3, 3)) + 3 * np.eye(3)
C = A + 0.5j * RANDOM.standard_normal((2, 3, 3))
TALL = RANDOM.standard_normal((2, 4, 3))
WIDE = RANDOM.standard_normal((3, 5))
B = RANDOM.standard_normal((2, 3, 2))
V = RANDOM.standard_normal((2, 3))
POSITIVE = A @ A.swapaxes(-1, -2)

np_norm = np.linalg.norm
Case = tuple[Callable[[], Any], Callable[[], Any]]


def t(x: Any) -> Any:
    return st.tensor(x)


VALUES: dict[str, Case] = {
    "cholesky": (lambda: linalg.cholesky(t(POSITIVE)), lambda: np.linalg.cholesky(POSITIVE)),
    "cholesky_ex": (
        lambda: linalg.cholesky_ex(t(POSITIVE)).L, lambda: np.linalg.cholesky(POSITIVE)
    ),
    "cond": (lambda: linalg.cond(t(A), 1), lambda: np.linalg.cond(A, 1)),
    "cross": (lambda: linalg.cross(t(V), t(V[::-1].copy())), lambda: np.cross(V, V[::-1])),
    "det": (lambda: linalg.det(t(C)), lambda: np.linalg.det(C)),
    "diagonal": (lambda: linalg.diagonal(t(A)), lambda: np.diagonal(A, 0, 1, 2)),
    "eigvalsh": (lambda: linalg.eigvalsh(t(POSITIVE)), lambda: np.linalg.eigvalsh(POSITIVE)),
    "inv": (lambda: linalg.inv(t(C)), lambda: np.linalg.inv(C)),
    "inv_ex": (lambda: linalg.inv_ex(t(A)).inverse, lambda: np.linalg.inv(A)),
    "lstsq": (
        lambda: linalg.lstsq(t(TALL[0]), t(np.ones((4, 2)))).solution,
        lambda: np.linalg.lstsq(TALL[0], np.ones((4, 2)))[0],
    ),
    "matrix_exp": (lambda: linalg.matrix_exp(t(A)), lambda: scipy.linalg.expm(A)),
    "matrix_norm": (lambda: linalg.matrix_norm(t(A), "nuc"), lambda: np_norm(A, "nuc", (1, 2))),
    "matrix_power": (
        lambda: linalg.matrix_power(t(A), -2), lambda: np.linalg.matrix_power(A, -2)
    ),
    "matrix_rank": (
        lambda: linalg.matrix_rank(t(np.ones((3, 3)))), lambda: np.asarray(1)
    ),
    "multi_dot": (
        lambda: linalg.multi_dot([t(A[0]), t(A[1]), t(B[0]), t(np.ones(2))]),
        lambda: A[0] @ A[1] @ B[0] @ np.ones(2),
    ),
    "norm": (lambda: linalg.norm(t(WIDE), -1), lambda: np_norm(WIDE, -1)),
    "pinv": (lambda: linalg.pinv(t(TALL)), lambda: np.linalg.pinv(TALL)),
    "slogdet": (lambda: linalg.slogdet(t(A)).logabsdet, lambda: np.linalg.slogdet(A)[1]),
    "solve": (lambda: linalg.solve(t(A), t(V)), lambda: np.linalg.solve(A, V[..., None])[..., 0]),
    "solve_ex": (lambda: linalg.solve_ex(t(A), t(B)).result, lambda: np.linalg.solve(A, B)),
    "solve_triangular": (
        lambda: linalg.solve_triangular(t(A[0]), t(B[0]), upper=False),
        lambda: scipy.linalg.solve_triangular(A[0], B[0], lower=True),
    ),
    "svdvals": (
        lambda: linalg.svdvals(t(TALL)), lambda: np.linalg.svd(TALL, compute_uv=False)
    ),
    "tensorinv": (
        lambda: linalg.tensorinv(t(np.eye(6).reshape(6, 2, 3) * 2), 1),
        lambda: np.linalg.tensorinv(np.eye(6).reshape(6, 2, 3) * 2, 1),
    ),
    "tensorsolve": (
        lambda: linalg.tensorsolve(t(A[0].reshape(3, 1, 3)), t(V[0])),
        lambda: np.linalg.tensorsolve(A[0].reshape(3, 1, 3), V[0]),
    ),
    "vander": (lambda: linalg.vander(t(V[0]), 4), lambda: np.vander(V[0], 4, increasing=True)),
    "vecdot": (lambda: linalg.vecdot(t(C), t(C)), lambda: np.linalg.vecdot(C, C)),
    "vector_norm": (
        lambda: linalg.vector_norm(t(A), 3, (1, 2)), lambda: (np.abs(A) ** 3).sum((1, 2)) ** (1 / 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_are_numpys(name: str) -> None:
    ours, theirs = (f() for f in VALUES[name])
    assert np.allclose(ours.numpy(), theirs, 1e-9, 1e-9)
    assert ours.shape == np.shape(theirs)


def reconstructed() -> dict[str, tuple[Any, Any]]:
    """Products of factors, and the matrices that they must equal."""
    x = t(C)
    Q, R = linalg.qr(x)
    wide = linalg.qr(t(WIDE), "complete")
    U, S, Vh = linalg.svd(t(TALL))
    P, L, up = linalg.lu(t(TALL))
    lu, pivots, info = linalg.lu_factor_ex(t(A))
    values, vectors = linalg.eig(t(A))
    eigenvalues, eigenvectors = linalg.eigh(t(POSITIVE))
    h, tau = st.geqrf(t(TALL))
    low, at = linalg.ldl_factor(t(POSITIVE - 9 * np.eye(3)))
    big = RANDOM.standard_normal((70, 70))
    parts = linalg.lu(t(big))
    assert not info.any()
    return {
        "qr": (Q @ R, C),
        "qr, wide": (wide.Q @ wide.R, WIDE),
        "svd": (U[..., :3] * S.unsqueeze(-2) @ Vh, TALL),
        "lu": (P @ L @ up, TALL),
        "lu, large": (parts.P @ parts.L @ parts.U, big),
        "lu_factor": (linalg.lu_solve(*linalg.lu_factor(t(A)), t(B)), np.linalg.solve(A, B)),
        "lu_solve": (
            linalg.lu_solve(lu, pivots, t(B), adjoint=True),
            np.linalg.solve(A.swapaxes(1, 2), B),
        ),
        "eig": (vectors * values.unsqueeze(-2), A @ vectors.numpy()),
        "eigvals": (linalg.eigvals(t(A)).sum(-1), np.trace(A, 0, 1, 2).astype(complex)),
        "eigh": (eigenvectors * eigenvalues.unsqueeze(-2) @ eigenvectors.mT, POSITIVE),
        "householder_product": (linalg.householder_product(h, tau), np.linalg.qr(TALL)[0]),
        "ormqr": (st.ormqr(h, tau, t(TALL), transpose=True), (h.numpy() * 0 + np.triu(h.numpy()))),
        "ldl_solve": (
            linalg.ldl_solve(low, at, t(B)), np.linalg.solve(POSITIVE - 9 * np.eye(3), B)
        ),
        "ldl_factor_ex": (linalg.ldl_factor_ex(t(POSITIVE)).info, np.zeros(2)),
        "cholesky_solve": (
            st.cholesky_solve(t(B), st.cholesky(t(POSITIVE))), np.linalg.solve(POSITIVE, B)
        ),
        "cholesky_inverse": (
            st.cholesky_inverse(st.cholesky(t(POSITIVE), True), True), np.linalg.inv(POSITIVE)
        ),
        "lu_unpack": (linalg.multi_dot(st.lu_unpack(*st.lu(t(A[0])))), A[0]),
        "orgqr": (st.orgqr(h, tau), np.linalg.qr(TALL)[0]),
        "svd_lowrank": (st.svd_lowrank(t(TALL), 2)[1], np.linalg.svd(TALL)[1][:, :2]),
        "pca_lowrank": (
            st.pca_lowrank(t(TALL))[1], np.linalg.svd(TALL - TALL.mean(1, keepdims=True))[1]
        ),
    }  # fmt: skip


def test_factors_multiply_to_the_matrix() -> None:
    for name, (ours, theirs) in reconstructed().items():
        assert np.allclose(ours.numpy(), theirs, 1e-8, 1e-8), name


# Forms that tests/ops/gradient_cases.py has not: shapes, sides, orders.
SLOPES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "wide qr": (lambda x: tuple(linalg.qr(x)), WIDE),
    "lu of tall": (lambda x: tuple(linalg.lu(x)[1:]), TALL),
    "lu of wide": (lambda x: tuple(linalg.lu(x)[1:]), WIDE),
    "lu_solve": (lambda x: linalg.lu_solve(*linalg.lu_factor(x), x[..., :2], adjoint=True), A),
    "solve right": (lambda x: linalg.solve(x, x[:2] + 1, left=False), A[0]),
    "triangular": (lambda x: linalg.solve_triangular(x, x, upper=True, unitriangular=True), A),
    "cond": (lambda x: linalg.cond(x, "fro"), A),
    "matrix norm": (lambda x: linalg.matrix_norm(x, 2), WIDE),
}


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_of_two_orders(name: str) -> None:
    compute, at = SLOPES[name]
    x = st.tensor(at, requires_grad=True)
    assert gradcheck(compute, (x,))
    if at.ndim > 2:
        x = st.tensor(at[0], requires_grad=True)
    assert gradgradcheck(compute, (x,))


@pytest.mark.parametrize("name", ["cholesky", "qr", "inv", "solve", "eigvalsh", "lu"])
def test_complex_gradients(name: str) -> None:
    computes: dict[str, Callable[[Any], Any]] = {
        "cholesky": lambda x: linalg.cholesky(x @ x.mH + st.eye(3, dtype=st.complex128)),
        "qr": lambda x: tuple(linalg.qr(x)),
        "inv": linalg.inv,
        "solve": lambda x: linalg.solve(x, x.exp()),
        "eigvalsh": lambda x: linalg.eigvalsh(x + x.mH),
        "lu": lambda x: tuple(linalg.lu(x)[1:]),
    }
    x = st.tensor(C[0], requires_grad=True)
    assert gradcheck(computes[name], (x,))


def test_singular_matrices_are_named() -> None:
    bad = st.tensor(np.stack([np.eye(2), np.ones((2, 2))]))
    with pytest.raises(linalg.LinAlgError, match="singular"):
        linalg.inv(bad)
    with pytest.raises(st.errors.LinAlgError, match="order 2 is not positive-definite"):
        linalg.cholesky(bad - 1e-3 * st.eye(2, dtype=st.float64))
    assert linalg.inv_ex(bad).info.tolist() == [0, 2]
    assert linalg.solve_ex(bad, bad).info.tolist() == [0, 2]
    assert linalg.cholesky_ex(bad * -1).info.tolist() == [1, 1]
    assert linalg.cond(bad, "fro")[1].item() == np.inf
    with pytest.raises(RuntimeError, match="floating-point"):
        linalg.inv(st.tensor([[1, 2], [3, 4]]))
    with pytest.raises(RuntimeError, match="square"):
        linalg.det(st.ones(2, 3))
    with pytest.raises(AttributeError, match="no attribute"):
        linalg.nothing  # noqa: B018


def test_factors_tell_where_a_matrix_is_singular() -> None:
    x = st.tensor(np.stack([np.eye(2), np.ones((2, 2)), np.zeros((2, 2))]))
    LU, pivots, info = linalg.lu_factor_ex(x)
    assert info.tolist() == [0, 2, 1]
    assert pivots.tolist() == [[1, 2]] * 3
    assert pivots.dtype == info.dtype == st.int32
    assert LU.stride() == (4, 1, 2)  # column by column, as PyTorch's
    assert linalg.ldl_factor_ex(x).info.tolist() == [0, 2, 1]
    for factor in (linalg.lu_factor_ex, linalg.ldl_factor_ex):
        with pytest.raises(st.errors.LinAlgError, match=r"info \[0, 2, 1\]"):
            factor(x, check_errors=True)
    with pytest.raises(st.errors.LinAlgError, match=r"Batch element 1\): U\[2,2\] is zero"):
        linalg.lu_factor(x)
    with pytest.raises(st.errors.LinAlgError, match=r"lu_factor: U\[1,1\] is zero"):
        linalg.lu_factor(x[2])
    LU, pivots, info = linalg.lu_factor_ex(st.zeros(2, 0, 3))
    assert [v.shape for v in (LU, pivots, info)] == [(2, 0, 3), (2, 0), (2,)]
    for wrong in (linalg.lu_factor, linalg.ldl_factor):
        with pytest.raises(RuntimeError, match="32 bits or more"):
            wrong(st.ones(2, 2, dtype=st.float16))
    with pytest.raises(RuntimeError, match="sizes or dtypes do not fit"):
        linalg.ldl_solve(x, pivots, x)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_lu_solve_broadcasts_batches(left: bool, adjoint: bool) -> None:
    random = np.random.default_rng(4)
    for a_batch, b_batch in (((), ()), ((2,), ()), ((), (2,)), ((3, 1), (2,))):
        a, b = random.normal(size=(*a_batch, 5, 5)), random.normal(size=(*b_batch, 5, 5))
        x = linalg.lu_solve(*linalg.lu_factor(t(a)), t(b), left=left, adjoint=adjoint)
        matrix = a.swapaxes(-1, -2) if adjoint else a
        product = matrix @ x.numpy() if left else x.numpy() @ matrix
        np.testing.assert_allclose(product, np.broadcast_to(b, product.shape), atol=1e-9)


def test_lu_solve_makes_no_permutation_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.ops.linalg import lu_ldl

    factors = linalg.lu_factor(t(A))
    monkeypatch.delattr(lu_ldl, "permutation")
    linalg.lu_solve(*factors, t(B))


@pytest.mark.parametrize("hermitian", [False, True])
def test_gradients_of_ldl_solve(hermitian: bool) -> None:
    LD, pivots = linalg.ldl_factor(t(C), hermitian=hermitian)
    b = st.tensor(B[:1] + 1j, requires_grad=True)
    assert gradcheck(lambda b: linalg.ldl_solve(LD, pivots, b, hermitian=hermitian), (b,))


def test_ranks_and_residuals() -> None:
    flat = st.tensor(np.diag([3.0, 1e-3, 0.0]))
    assert linalg.matrix_rank(flat).item() == 2
    assert linalg.matrix_rank(flat, atol=1e-2).item() == 1
    assert linalg.matrix_rank(flat, hermitian=True).item() == 2
    x = linalg.lstsq(st.tensor(TALL), st.ones(2, 4, 1, dtype=st.float64), driver="gelsd")
    away = TALL @ x.solution.numpy() - 1
    assert np.allclose(x.residuals.numpy(), (away**2).sum(1))
    assert x.rank.tolist() == [3, 3]
    assert x.singular_values.shape == (2, 3)


def test_out_and_other_names() -> None:
    out = st.empty(2, 3, 3, dtype=st.float64)
    assert linalg.inv(t(A), out=out) is out
    assert "inv" in dir(linalg)
    assert t(A).lu()[0].shape == t(A).shape
    assert t(TALL).qr()[0].shape == (2, 4, 3)
    assert np.allclose(st.lu_solve(t(B), *st.lu(t(A))).numpy(), np.linalg.solve(A, B))
    assert t(WIDE).svd(False)[2].shape == (5, 5)
