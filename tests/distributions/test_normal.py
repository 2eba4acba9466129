"""The normal distribution: SciPy's values, PyTorch's semantics."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor.distributions import Normal

stats = pytest.importorskip("scipy.stats")

LOC = np.array([[0.0, -1.5, 30.0]])
SCALE = np.array([[1.0], [0.25]])


def normal() -> Normal:
    return Normal(st.tensor(LOC), st.tensor(SCALE))


def test_tails_are_not_rounded_to_0() -> None:
    p = Normal(st.tensor(0.0, dtype=st.float64), 1.0)
    x = st.tensor(-12.0, dtype=st.float64)
    np.testing.assert_allclose(p.cdf(x), stats.norm.cdf(-12.0), rtol=1e-12)
    np.testing.assert_allclose(p.icdf(p.cdf(x)), -12.0, rtol=1e-12)


def test_shapes() -> None:
    p = normal()
    assert (p.batch_shape, p.event_shape) == ((2, 3), ())
    assert Normal(0.0, 1.0).batch_shape == ()
    assert repr(p) == "Normal(loc: Size([2, 3]), scale: Size([2, 3]))"
    assert Normal(0, 1).loc.dtype == st.get_default_dtype()
    assert p.sample().shape == p.rsample().shape == (2, 3)
    assert p.sample((4, 5)).shape == p.rsample(st.Size((4, 5))).shape == (4, 5, 2, 3)
    assert p.log_prob(st.zeros(7, 1, 3, dtype=st.float64)).shape == (7, 2, 3)
    expanded = p.expand((4, 2, 3))
    assert expanded.batch_shape == expanded.sample().shape == (4, 2, 3)
    assert expanded.loc.data_ptr() == p.loc.data_ptr()
    with pytest.warns(FutureWarning, match="sample_n"):
        assert p.sample_n(6).shape == (6, 2, 3)


def test_samples_have_the_moments() -> None:
    st.manual_seed(5)
    p = normal()
    for draw in (p.sample, p.rsample):
        z = (draw((20000,)) - p.mean) / p.stddev
        assert float(z.mean(0).abs().max()) < 0.04
        assert float((z.var(0) - 1).abs().max()) < 0.06


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"parameter scale .* of distribution Normal\(loc: 0.0, s"):
        Normal(0.0, -1.0)
    assert Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    p = Normal(0.0, 1.0)
    with pytest.raises(ValueError, match="must be a Tensor"):
        p.log_prob(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"within the support \(Real\(\)\)"):
        p.log_prob(st.tensor(float("nan")))
    with pytest.raises(ValueError, match=r"not broadcastable .*\[3\]\) vs Size\(\[2\]\)"):
        Normal(st.zeros(2), st.ones(2)).cdf(st.zeros(3))
    with pytest.raises(NotImplementedError, match=r"Normal\.enumerate_support"):
        p.enumerate_support()
