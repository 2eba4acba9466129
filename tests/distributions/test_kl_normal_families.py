"""`kl_divergence` of normal distributions of vectors, by formula, by samples and by PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.distributions import LowRankMultivariateNormal, MultivariateNormal, kl_divergence
from tests.distributions.test_lowrank_multivariate_normal import full, parameters

PAIRS = list(itertools.product([LowRankMultivariateNormal, full], repeat=2))


def expected(p: Any, q: Any) -> np.ndarray:
    """The formula, by inverses and determinants."""
    cov_p, cov_q = (np.asarray(x.covariance_matrix) for x in (p, q))
    shift = np.asarray(q.loc - p.loc)
    inverse = np.linalg.inv(cov_q)
    squares = np.einsum("...i,...ij,...j->...", shift, inverse, shift)
    logs = np.linalg.slogdet(cov_q)[1] - np.linalg.slogdet(cov_p)[1]
    trace = np.trace(inverse @ cov_p, axis1=-2, axis2=-1)
    return np.asarray(0.5 * (trace + squares - shift.shape[-1] + logs))


@pytest.mark.parametrize(("make_p", "make_q"), PAIRS)
@pytest.mark.parametrize(("batch_p", "batch_q"), [((), ()), ((2,), ()), ((), (3,)), ((3, 1), (2,))])
def test_all_pairs(make_p: Any, make_q: Any, batch_p: Any, batch_q: Any) -> None:
    p = make_p(*(st.tensor(x) for x in parameters(batch_p, batch_p, batch_p)))
    q = make_q(*(st.tensor(x) for x in parameters(batch_q, (), batch_q, m=3)))
    found = kl_divergence(p, q)
    assert found.shape == np.broadcast_shapes(batch_p, batch_q)
    np.testing.assert_allclose(found, expected(p, q), rtol=1e-9)
    np.testing.assert_allclose(kl_divergence(p, p), np.zeros(batch_p), atol=1e-12)


@pytest.mark.parametrize(("make_p", "make_q"), PAIRS)
def test_gradients(make_p: Any, make_q: Any) -> None:
    tensors = tuple(
        st.tensor(x, requires_grad=True) for _ in range(2) for x in parameters((), (), (), n=3)
    )
    assert gradcheck(lambda *x: kl_divergence(make_p(*x[:3]), make_q(*x[3:])), tensors)


def test_sizes_differ() -> None:
    p = MultivariateNormal(st.zeros(2), st.eye(2))
    q = MultivariateNormal(st.zeros(3), st.eye(3))
    with pytest.raises(ValueError, match=r"different event shapes .*: \(2,\) and \(3,\)"):
        kl_divergence(p, q)
