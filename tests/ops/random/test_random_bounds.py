"""Random numbers that a dtype cannot hold are refused."""

from __future__ import annotations

import pytest

import shmtensor as st

INTEGERS = {st.bool: (0, 1), st.uint8: (0, 255), st.int8: (-128, 127), st.int16: (-32768, 32767)}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_beyond_an_integer_dtype(dtype: st.dtype) -> None:
    low, high = INTEGERS[dtype]
    x = st.zeros(300, dtype=dtype)
    assert x.random_(low, high + 1).to(st.int64).min() >= low
    for bounds in ((low - 1, high), (low, high + 2), (high + 1, high + 10)):
        with pytest.raises(RuntimeError, match="is out of bounds for"):
            x.random_(*bounds)
        with pytest.raises(RuntimeError, match="is out of bounds for"):
            st.randint(*bounds, (3,), dtype=dtype)
        with pytest.raises(RuntimeError, match="is out of bounds for"):
            st.randint_like(x, *bounds)


def test_the_upper_bound_left_open() -> None:
    x = st.zeros(3000, dtype=st.int8)
    assert (x.random_(-5, None).min().item(), x.max().item()) == (-5, 127)
    assert (x.random_().min().item(), x.max().item()) == (0, 127)
    assert (x.random_(3).min().item(), x.max().item()) == (0, 2)
    assert st.zeros(3000).random_(2**24 - 3, None).max() == 2**24
    assert st.zeros(300, dtype=st.bool).random_(1, None).all()
    assert st.zeros(9, dtype=st.int64).random_(2**63 - 1, None).tolist() == [2**63 - 1] * 9
    for bounds in ((5, 5), (0,), (-1,)):
        with pytest.raises(RuntimeError, match="'from' to be less than 'to'"):
            x.random_(*bounds)
    with pytest.raises(TypeError, match="float"):
        x.random_(0.5)


def test_integers_that_floats_cannot_represent() -> None:
    x = st.zeros(9, dtype=st.float16)
    x.random_(-(2**11), 2**11 + 1)
    with pytest.warns(UserWarning, match="to - 1 is out of bounds"):
        x.random_(0, 5000)
    with pytest.warns(UserWarning, match="from is out of bounds"):
        x.random_(-5000, 0)
    with pytest.raises(RuntimeError, match="to - 1 is out of bounds for float16"):
        x.random_(0, 100_000)
    with pytest.raises(RuntimeError, match="n is too large for float16"):
        st.randperm(3000, dtype=st.float16)
    with pytest.raises(RuntimeError, match="n is too large for uint8"):
        st.randperm(257, dtype=st.uint8)
    assert sorted(st.randperm(256, dtype=st.uint8).tolist()) == list(range(256))


def test_even_distributions_beyond_a_dtype() -> None:
    for dtype, largest in ((st.float16, 65504), (st.float32, 3.4e38), (st.float64, 1.7e308)):
        x = st.zeros(9, dtype=dtype)
        x.uniform_(-largest / 2, largest / 2)
        assert x.isfinite().all()
        with pytest.raises(RuntimeError, match="to - from to be at most the largest"):
            x.uniform_(-largest, largest / 2)
        for bounds in ((0, float("inf")), (float("nan"), 0)):
            with pytest.raises(RuntimeError, match="is out of bounds for"):
                x.uniform_(*bounds)
    with pytest.raises(RuntimeError, match=r"to is out of bounds for float32: 1e\+39"):
        st.zeros(2).uniform_(0, 1e39)
    with pytest.raises(RuntimeError, match="found from=2 > to=0"):
        st.zeros(2).uniform_(2, 0)


def test_distributions_that_a_dtype_has_not() -> None:
    for name in ("uniform_", "normal_", "log_normal_", "exponential_", "cauchy_"):
        with pytest.raises(RuntimeError, match="not implemented for int64"):
            getattr(st.zeros(2, dtype=st.int64), name)()
    for name, arguments in (("random_", ()), ("geometric_", (0.5,)), ("bernoulli_", ())):
        with pytest.raises(NotImplementedError, match="not implemented for complex64"):
            getattr(st.zeros(2, dtype=st.complex64), name)(*arguments)
    for make in (st.rand, st.randn):
        with pytest.raises(NotImplementedError, match="not implemented for int32"):
            make(3, dtype=st.int32)
