"""cupy.random on the stand-in: cuRAND's double, and cupy.random.Generator's."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

N = 20_000


def test_the_default_generator(cp: Any) -> None:
    cp.random.seed(5)
    u, z, k = cp.random.rand(N), cp.random.randn(N), cp.random.randint(3, 9, N)
    assert 0 <= float(u.min()) < 0.01
    assert 0.99 < float(u.max()) <= 1
    assert abs(float(u.mean()) - 0.5) < 0.02
    assert abs(float(z.mean())) < 0.05
    assert abs(float(z.std()) - 1) < 0.05
    assert set(k.get().tolist()) == set(range(3, 9))
    cp.random.seed(5)
    assert (cp.random.rand(N) == u).all()
    assert not (cp.random.rand(N) == u).all()


def test_an_odd_number_of_normal_numbers(cp: Any) -> None:
    assert cp.random.standard_normal(7, dtype=np.float32).shape == (7,)
    assert (cp.random.lognormal(size=7) > 0).all()


def test_samples_without_replacement(cp: Any) -> None:
    assert sorted(cp.random.permutation(50).get().tolist()) == list(range(50))
    some = cp.random.choice(50, 20, replace=False).get()
    assert len(set(some.tolist())) == 20
    x = cp.arange(50)
    cp.random.shuffle(x)
    assert sorted(x.get().tolist()) == list(range(50))


def test_the_generator_of_numpys_style(cp: Any) -> None:
    g = cp.random.default_rng(3)
    assert abs(float(g.random(N).mean()) - 0.5) < 0.02
    assert abs(float(g.standard_normal(N, dtype=np.float32).std()) - 1) < 0.05
    k = g.integers(-2, 2, N, endpoint=True)
    assert k.dtype == np.int64
    assert set(k.get().tolist()) == set(range(-2, 3))
    rates = cp.asarray([1.0, 50.0])
    np.testing.assert_allclose(g.poisson(rates, (N, 2)).mean(0).get(), [1, 50], 0.05)
    assert abs(float(g.gamma(3.0, 2.0, N).mean()) - 6) < 0.3
    out = cp.empty(4, np.float32)
    assert g.random(4, np.float32, out) is out
    again = cp.random.default_rng(3)
    assert (again.random(9) == cp.random.default_rng(3).random(9)).all()
    with pytest.raises(ValueError, match="low >= high"):
        g.integers(3, 3)


@pytest.mark.usefixtures("no_background")
def test_numbers_come_late_and_in_the_order_of_the_stream(cp: Any) -> None:
    stream = cp.cuda.Stream(non_blocking=True)
    state = cp.random.RandomState(1)
    cp.cuda.runtime.deviceSynchronize()
    with stream:
        state.rand(4)
        assert not stream.done
    stream.synchronize()


def test_the_generators_methods_take_the_wheels_arguments(cp: Any) -> None:
    from tests.cuda.standin.build import SOURCE
    from tests.cuda.standin.doubles import generator_api

    text = (SOURCE / "cupy" / "random" / "_generator_api.pyx").read_text()
    text = text[text.index("class Generator") : text.index("def init_curand")]
    methods = dict(re.findall(r"\n    def ([a-z]\w+)\((.*?)\):", text, re.DOTALL))
    for name, inside in methods.items():
        names = [re.findall(r"\w+", part)[0] for part in re.split(r",\s", inside)]
        ours = inspect.signature(getattr(generator_api.Generator, name)).parameters
        assert list(ours) == names, name
