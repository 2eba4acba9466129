"""Functions of matrices, against SciPy and NumPy, and gradients that no row's sample covers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import shmtensor as st
from shmtensor.autograd import table as ops

RANDOM = np.random.default_rng(4)
A = RANDOM.normal(size=(2, 4, 4)) + 3 * np.eye(4)
TALL = RANDOM.normal(size=(2, 5, 3))
COMPLEX = A + 1j * RANDOM.normal(size=A.shape)


@pytest.mark.parametrize("x", [A, COMPLEX], ids=["real", "complex"])
def test_values(x: Any) -> None:
    t = st.tensor(x)
    assert np.allclose(t.inverse().numpy(), np.linalg.inv(x))
    assert np.allclose(t.det().numpy(), np.linalg.det(x))
    sign, size = t.slogdet()
    assert np.allclose((sign * size.exp()).numpy(), np.linalg.det(x))
    assert size.dtype == st.float64
    assert np.allclose(t.logdet().exp().numpy(), np.linalg.det(x))
    expected = np.stack([scipy.linalg.expm(m) for m in x])
    assert np.allclose(t.matrix_exp().numpy(), expected)
    large = scipy.linalg.expm(20 * x[0])
    assert np.allclose((t[0] * 20).matrix_exp().numpy(), large, rtol=1e-9)
    for n in (-2, 0, 1, 5):
        assert np.allclose(t.matrix_power(n).numpy(), np.linalg.matrix_power(x, n))
    b = st.tensor(RANDOM.normal(size=(4, 2)).astype(x.dtype))
    assert np.allclose(ops._solve(t, b).numpy(), np.linalg.solve(x, np.stack([b.numpy()] * 2)))


def test_singular_values() -> None:
    for x in (TALL, TALL.swapaxes(1, 2), TALL + 1j * TALL[::-1]):
        u, s, v = st.svd(st.tensor(x))
        product = (u.numpy() * s.numpy()[:, None, :]) @ v.numpy().conj().swapaxes(1, 2)
        assert np.allclose(product, x)
        assert np.allclose(st.pinverse(st.tensor(x)).numpy(), np.linalg.pinv(x))
        nuclear = st.norm(st.tensor(x), "nuc", (1, 2))
        assert np.allclose(nuclear.numpy(), np.linalg.svd(x, compute_uv=False).sum(1))
    full = st.svd(st.tensor(TALL), some=False)
    assert full.U.shape == (2, 5, 5)
    assert st.svd(st.tensor(TALL), compute_uv=False).S.shape == (2, 3)
    assert st.norm(st.tensor(TALL), "nuc", (0, 2), keepdim=True).shape == (1, 5, 1)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_solve(upper: bool, transpose: bool, unit: bool) -> None:
    b = RANDOM.normal(size=(2, 4, 3))
    result = st.triangular_solve(st.tensor(b), st.tensor(A), upper, transpose, unit)
    for i in range(2):
        expected = scipy.linalg.solve_triangular(
            A[i], b[i], trans=int(transpose), lower=not upper, unit_diagonal=unit
        )
        assert np.allclose(result.solution[i].numpy(), expected)
    assert np.array_equal(result.cloned_coefficient.numpy(), A)


def test_gradients_of_complex_matrices_are_differences() -> None:
    x = st.tensor(COMPLEX[0], requires_grad=True)
    wide = st.tensor(TALL[0] + 1j * TALL[1], requires_grad=True)
    assert st.autograd.gradcheck(st.inverse, (x,))
    assert st.autograd.gradcheck(st.det, (x,))
    assert st.autograd.gradcheck(st.logdet, (x,))
    assert st.autograd.gradcheck(lambda t: st.slogdet(t)[0], (x,))
    assert st.autograd.gradcheck(st.matrix_exp, (x * 0.1,))
    assert st.autograd.gradcheck(st.pinverse, (wide,))
    assert st.autograd.gradcheck(lambda t: st.norm(t, "nuc"), (wide,))
    # singular vectors are unique up to phases, which |u| ignores
    assert st.autograd.gradcheck(lambda t: st.svd(t)[0].abs(), (wide,))


def test_the_determinant_of_a_singular_matrix_has_its_cofactors_as_gradient() -> None:
    rows = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    x = st.tensor(rows * [[1], [1], [0]], requires_grad=True)
    assert x.det().item() == 0
    x.det().backward()
    expected = np.zeros((3, 3))
    expected[2] = np.cross(rows[0], rows[1])
    assert np.allclose(x.grad.numpy(), expected)


def test_negative_and_zero_determinants() -> None:
    assert math.isnan(st.logdet(st.tensor([[-1.0, 0.0], [0.0, 1.0]])).item())
    assert st.logdet(st.zeros(2, 2)).item() == -math.inf
    assert st.det(st.ones(3, 0, 0)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: st.inverse(st.zeros(2, 2)), "singular"),
        (lambda: st.inverse(st.ones(2, 3)), "square"),
        (lambda: st.det(st.ones(2, 2, dtype=st.int64)), "floating-point"),
        (lambda: st.triangular_solve(st.ones(3, 1), st.ones(2, 2)), "sizes differ"),
        (lambda: st.matrix_power(st.ones(2, 3), 2), "square"),
        (lambda: st.norm(st.ones(3), "nuc"), "two dimensions"),
        (lambda: st.pinverse(st.ones(3)), "at least 2"),
    ],
)
def test_wrong_matrices_are_refused(call: Any, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        call()
