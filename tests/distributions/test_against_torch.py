"""1,000 random parameters of each distribution, and of each pair, against `torch.distributions`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributions
from shmtensor.distributions import kl_divergence
from shmtensor.distributions.kl import registered

from .families import ALL, Family

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

N = 1000
# Where PyTorch's result is wrong: tests of SciPy's and of quadrature have ours.
DIFFERENT = {("Kumaraswamy", "mode"), ("Weibull", "mode")}
PAIRS = sorted(
    (p, q)
    for p, q in itertools.product(ALL, ALL)
    if (getattr(distributions, p), getattr(distributions, q)) in registered
)


def both(family: Family, seed: int) -> tuple[Any, Any]:
    theirs = getattr(torch.distributions, family.name)
    parameters = family.draw(seed, N, family.torch_dtype)
    ours = family.ours(seed, N, family.torch_dtype)
    return ours, theirs(**{n: torch.tensor(p) for n, p in parameters.items()})


def compare(ours: Any, theirs: Any, what: str) -> None:
    theirs = theirs.detach().numpy()
    assert (ours.shape, ours.numpy().dtype) == (theirs.shape, theirs.dtype), what
    tolerance = 1e-6 if theirs.dtype == np.float64 else 2e-3
    np.testing.assert_allclose(
        ours.detach(), theirs, rtol=tolerance, atol=tolerance / 100, err_msg=what
    )


@pytest.mark.parametrize("name", ALL)
def test_values(name: str) -> None:
    st.manual_seed(3)
    p, q = both(ALL[name], 3)
    assert (p.batch_shape, p.event_shape) == (tuple(q.batch_shape), tuple(q.event_shape))
    assert (p.has_rsample, p.has_enumerate_support) == (q.has_rsample, q.has_enumerate_support)
    assert repr(p.support).split("(")[0] == repr(q.support).split("(")[0]
    assert isinstance(p, distributions.ExponentialFamily) == isinstance(
        q, torch.distributions.ExponentialFamily
    )
    x = p.sample()
    u = np.random.default_rng(4).uniform(0.01, 0.99, N).astype(ALL[name].torch_dtype)
    for what, argument in (("log_prob", x), ("cdf", x), ("icdf", u)):
        try:
            expected = getattr(q, what)(torch.tensor(np.array(argument)))
        except NotImplementedError:
            continue
        compare(getattr(p, what)(st.tensor(np.array(argument))), expected, what)
    for what in ("mean", "mode", "variance", "stddev"):
        try:
            expected = getattr(q, what)
        except NotImplementedError:
            continue
        if (name, what) not in DIFFERENT:
            compare(getattr(p, what), expected, what)
    try:
        expected = q.entropy()
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            p.entropy()
    else:
        compare(p.entropy(), expected, "entropy")
    if p.has_enumerate_support:
        for expand in (True, False):
            compare(p.enumerate_support(expand), q.enumerate_support(expand), "enumerate_support")


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_divergences(name: str, other: str) -> None:
    p, their_p = both(ALL[name], 3)
    q, their_q = both(ALL[other], 5)
    expected = torch.distributions.kl_divergence(their_p, their_q)
    compare(kl_divergence(p, q), expected, f"{name}, {other}")


def test_every_pair_of_pytorch_is_there() -> None:
    theirs = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    assert not theirs - {(p.__name__, q.__name__) for p, q in registered}
