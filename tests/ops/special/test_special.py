"""shmtensor.special, against SciPy. tests/ops/test_rows.py checks the gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

import shmtensor as st
from shmtensor import special

LINE = np.concatenate(
    [np.linspace(-40, 40, 801), [1e-8, -1e-8, 1e-3, 1.0, 12.0, -12.0, 25.0, 110.0, 300.0, -300.0]]
)
RIGHT = LINE[LINE > 0]
CHANCE = np.concatenate([np.linspace(0, 1, 301), [1e-300, 1e-20, 1 - 1e-12]])
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.uniform(0.05, 30, 500)
OTHERS = RANDOM.uniform(0.0, 60, 500)

Reference = Callable[[Any], Any]
CASES: dict[str, tuple[Reference, Any]] = {
    "airy_ai": (lambda x: sc.airy(x)[0], LINE[LINE > -40]),
    "bessel_j0": (sc.j0, LINE),
    "bessel_j1": (sc.j1, LINE),
    "bessel_y0": (sc.y0, LINE),
    "bessel_y1": (sc.y1, LINE),
    "digamma": (sc.digamma, RIGHT),
    "entr": (sc.entr, LINE),
    "erf": (sc.erf, LINE),
    "erfc": (sc.erfc, LINE),
    "erfcx": (sc.erfcx, LINE[LINE > -20]),
    "erfinv": (sc.erfinv, np.linspace(-0.99, 0.99, 41)),
    "exp2": (sc.exp2, LINE[np.abs(LINE) < 50]),
    "expit": (sc.expit, LINE),
    "expm1": (np.expm1, LINE[LINE < 50]),
    "gammaln": (sc.gammaln, RIGHT),
    "i0": (sc.i0, LINE),
    "i0e": (sc.i0e, LINE),
    "i1": (sc.i1, LINE),
    "i1e": (sc.i1e, LINE),
    "log1p": (np.log1p, RIGHT),
    "log_ndtr": (sc.log_ndtr, LINE),
    "logit": (sc.logit, np.linspace(0.01, 0.99, 41)),
    "modified_bessel_i0": (sc.i0, LINE),
    "modified_bessel_i1": (sc.i1, LINE),
    "modified_bessel_k0": (sc.k0, RIGHT),
    "modified_bessel_k1": (sc.k1, RIGHT),
    "ndtr": (sc.ndtr, LINE),
    "ndtri": (sc.ndtri, CHANCE),
    "psi": (sc.digamma, RIGHT),
    "round": (np.round, LINE),
    "scaled_modified_bessel_k0": (sc.k0e, RIGHT),
    "scaled_modified_bessel_k1": (sc.k1e, RIGHT),
    "sinc": (np.sinc, LINE),
    "spherical_bessel_j0": (lambda x: sc.spherical_jn(0, x), LINE),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_scipys(name: str) -> None:
    reference, x = CASES[name]
    with np.errstate(all="ignore"):
        theirs = reference(x)
    ours = getattr(special, name)(st.tensor(x)).numpy()
    finite = np.isfinite(theirs)
    assert np.array_equal(finite, np.isfinite(ours))
    assert np.array_equal(ours[~finite], theirs[~finite], equal_nan=True)
    assert np.allclose(ours[finite], theirs[finite], 1e-11, 1e-12)
    single = getattr(special, name)(st.tensor(x.astype(np.float32)))
    assert single.dtype == st.float32


def test_functions_of_two() -> None:
    for name in ("gammainc", "gammaincc", "xlogy", "xlog1py"):
        ours = getattr(special, name)(st.tensor(POINTS), st.tensor(OTHERS)).numpy()
        assert np.allclose(ours, getattr(sc, name)(POINTS, OTHERS), 1e-10, 1e-13), name
    s = 1 + RANDOM.uniform(0.01, 20, 500)
    assert np.allclose(special.zeta(st.tensor(s), st.tensor(POINTS)).numpy(), sc.zeta(s, POINTS))
    assert special.zeta(st.tensor(1.0), 2.0).item() == np.inf
    assert special.zeta(2.0, st.tensor(-1.0)).item() == np.inf
    edges = st.tensor([0.0, 0.0, 1.0, -1.0, 2.0, np.inf], dtype=st.float64)
    at = st.tensor([0.0, 1.0, 0.0, 1.0, np.inf, 1.0], dtype=st.float64)
    expected = sc.gammainc(edges.numpy(), at.numpy())
    assert np.array_equal(st.igamma(edges, at).numpy(), expected, equal_nan=True)
    assert np.array_equal(st.igammac(edges, at).numpy(), 1 - expected, equal_nan=True)
    x = st.tensor(POINTS)
    assert x.igamma_(st.tensor(OTHERS)) is x


def turns(wave: Any, n: Any, x: Any) -> Any:
    """Chebyshev's third and fourth kind by their definition."""
    angle = np.arccos(x)
    return wave((n + 0.5) * angle) / wave(angle / 2)


POLYNOMIALS: dict[str, Any] = {
    "chebyshev_polynomial_t": sc.eval_chebyt,
    "chebyshev_polynomial_u": sc.eval_chebyu,
    "chebyshev_polynomial_v": lambda n, x: turns(np.cos, n, x),
    "chebyshev_polynomial_w": lambda n, x: turns(np.sin, n, x),
    "hermite_polynomial_h": sc.eval_hermite,
    "hermite_polynomial_he": sc.eval_hermitenorm,
    "laguerre_polynomial_l": sc.eval_laguerre,
    "legendre_polynomial_p": sc.eval_legendre,
    "shifted_chebyshev_polynomial_t": sc.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": sc.eval_sh_chebyu,
    "shifted_chebyshev_polynomial_v": lambda n, x: turns(np.cos, n, 2 * x - 1),
    "shifted_chebyshev_polynomial_w": lambda n, x: turns(np.sin, n, 2 * x - 1),
}  # fmt: skip


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_scipys(name: str) -> None:
    low = 0.05 if name.startswith("shifted") else -0.95
    x, n = np.linspace(low, 0.95, 21)[:, None], np.arange(12)
    ours = getattr(special, name)(st.tensor(x), st.tensor(n)).numpy()
    assert np.allclose(ours, POLYNOMIALS[name](n, x), 1e-9, 1e-9)


def test_functions_of_the_core_exist() -> None:
    x = st.tensor([[0.5, 1.5], [2.5, 0.1]], dtype=st.float64)
    assert np.allclose(special.softmax(x, 1).numpy(), sc.softmax(x.numpy(), 1))
    assert np.allclose(special.log_softmax(x, 1).numpy(), sc.log_softmax(x.numpy(), 1))
    assert np.allclose(special.logsumexp(x, 1).numpy(), sc.logsumexp(x.numpy(), 1))
    assert np.allclose(special.polygamma(2, x).numpy(), sc.polygamma(2, x.numpy()))
    negative = -x - 0.3  # by the recurrence: psi(3, y) = psi(3, y + 4) + 6 (y ** -4 + ... )
    shifted = sc.polygamma(3, negative.numpy() + 4) + sum(
        6 / (negative.numpy() + k) ** 4 for k in range(4)
    )
    assert np.allclose(special.polygamma(3, negative).numpy(), shifted)
    assert np.allclose(x.polygamma(1).numpy(), sc.polygamma(1, x.numpy()))
    expected = [[sc.multigammaln(v, 3) for v in row] for row in x.numpy() + 2]
    assert np.allclose(special.multigammaln(x + 2, 3).numpy(), expected)
    assert np.allclose(st.mvlgamma(x + 2, 3).numpy(), special.multigammaln(x + 2, 3).numpy())
    assert x.clone().polygamma_(1).equal(x.polygamma(1))
    with pytest.raises(RuntimeError, match="p has to be"):
        special.multigammaln(x, 0)
    with pytest.raises(AttributeError, match="no attribute"):
        special.nothing  # noqa: B018
    assert "zeta" in dir(special)


def test_pairs_of_numbers_are_complex_numbers() -> None:
    z = st.tensor([1 + 2j, 3 - 1j])
    pairs = st.view_as_real(z)
    assert pairs.tolist() == [[1.0, 2.0], [3.0, -1.0]]
    pairs[0, 0] = 7
    assert z[0].item() == 7 + 2j
    assert st.view_as_complex(pairs).equal(z)
    x = st.ones(3, 2, requires_grad=True)
    (st.view_as_complex(x) * 2j).real.sum().backward()
    assert x.grad.tolist() == [[0.0, -2.0]] * 3
    w = st.ones(3, dtype=st.complex64, requires_grad=True)
    st.view_as_real(w)[:, 1].sum().backward()
    assert w.grad.tolist() == [1j] * 3
    with pytest.raises(RuntimeError, match="stride 1"):
        st.view_as_complex(st.ones(2, 3).T)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("zeros", [True, False])
def test_xlogy_with_and_without_zeros(dtype: str, zeros: bool) -> None:
    v = np.array([0, -0.0, 1, 2, -3, np.nan, np.inf, -np.inf, 0.5], dtype)
    x = v[v != 0] if not zeros else v
    with np.errstate(all="ignore"):
        product = x[:, None] * np.log(v)
        want = np.where((x[:, None] == 0) & ~np.isnan(v), 0, product)
    result = st.xlogy(st.tensor(x)[:, None], st.tensor(v)).numpy()
    np.testing.assert_allclose(result, want, rtol=1e-6, strict=True)
