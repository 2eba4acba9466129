"""New tensors: `out=`, and which dtypes they can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st

FACTORIES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "zeros": (lambda **kwargs: st.zeros(2, 3, **kwargs), (2, 3)),
    "ones": (lambda **kwargs: st.ones(2, 3, **kwargs), (2, 3)),
    "empty": (lambda **kwargs: st.empty(2, 3, **kwargs), (2, 3)),
    "full": (lambda **kwargs: st.full((2, 3), 4, **kwargs), (2, 3)),
    "rand": (lambda **kwargs: st.rand(2, 3, **kwargs), (2, 3)),
    "randn": (lambda **kwargs: st.randn(2, 3, **kwargs), (2, 3)),
    "randint": (lambda **kwargs: st.randint(7, (2, 3), **kwargs), (2, 3)),
    "normal": (lambda **kwargs: st.normal(0.0, 1.0, (2, 3), **kwargs), (2, 3)),
    "eye": (lambda **kwargs: st.eye(2, 3, **kwargs), (2, 3)),
    "randperm": (lambda **kwargs: st.randperm(6, **kwargs), (6,)),
    "arange": (lambda **kwargs: st.arange(6, **kwargs), (6,)),
    "range": (lambda **kwargs: st.range(0, 5, **kwargs), (6,)),
    "linspace": (lambda **kwargs: st.linspace(0, 5, 6, **kwargs), (6,)),
    "fftfreq": (lambda **kwargs: st.fft.fftfreq(6, **kwargs), (6,)),
    "rfftfreq": (lambda **kwargs: st.fft.rfftfreq(6, **kwargs), (4,)),
    "logspace": (lambda **kwargs: st.logspace(0, 5, 6, **kwargs), (6,)),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_out_takes_the_shape_and_gives_the_dtype(name: str) -> None:
    make, shape = FACTORIES[name]
    out = st.empty(0, dtype=st.float64)
    assert make(out=out) is out
    assert (tuple(out.shape), out.dtype) == (shape, st.float64)
    st.manual_seed(1)
    expected = make(dtype=st.float64)
    base = st.full((10,), -1.0, dtype=st.float64)
    n = expected.numel()
    st.manual_seed(1)
    result = make(out=base[1:1].resize_(0) if name == "empty" else base[2:4].resize_(0))
    if name != "empty":
        assert result.tolist() == expected.tolist()
        assert base.tolist() == [-1, -1, *expected.flatten().tolist(), *[-1] * (8 - n)]
    with pytest.raises(RuntimeError, match="does not match dtype of out parameter"):
        make(out=st.empty(0), dtype=st.float64)
    with pytest.raises(TypeError, match=r"argument 'device' must be .*, not list: \[0\]"):
        st.zeros(2, device=[0])
    with pytest.raises(TypeError, match="argument 'out' must be Tensor, not list"):
        make(out=[1])
    assert make(out=st.empty(0), requires_grad=True).is_leaf
    assert make(out=st.empty(0), requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match=r"requires? grad"):
        make(out=st.empty(shape, requires_grad=True))


def test_counted_numbers_keep_the_shape_of_as_many() -> None:
    for make in (
        lambda out: st.arange(4, out=out),
        lambda out: st.range(0, 3, out=out),
        lambda out: st.linspace(0, 3, 4, out=out),
    ):
        x = st.zeros(2, 3)
        assert make(x[:, 1:]).shape == (2, 2)
        assert x.tolist() == [[0, 0, 1], [0, 2, 3]]
    with pytest.warns(UserWarning, match="does not match the computed number of elements 5"):
        st.arange(5, out=st.zeros(2, 2))
    assert st.range(0, 2, out=st.empty(0, dtype=st.int16)).tolist() == [0, 1, 2]


def test_complex_ends() -> None:
    line = st.linspace(0, 1 + 1j, 3)
    assert (line.dtype, line.tolist()) == (st.complex64, [0, 0.5 + 0.5j, 1 + 1j])
    assert st.linspace(st.tensor(2j), 4.0, 3, dtype=st.complex128).tolist() == [2j, 2 + 1j, 4]
    powers = st.logspace(0, 1j, 4, base=2)
    assert np.allclose(powers.numpy(), 2 ** np.linspace(0, 1j, 4))
    for make in (st.linspace, st.logspace):
        with pytest.raises(RuntimeError, match="inferred dtype complex64 can't be safely cast"):
            make(0, 1j, 3, dtype=st.float32)
        with pytest.raises(RuntimeError, match="inferred dtype complex64 can't be safely cast"):
            make(0, 1j, 3, out=st.empty(0))


def test_dtypes_that_are_not_counted() -> None:
    for make in (st.arange, st.range, st.randperm):
        for dtype in (st.bool, st.complex64):
            with pytest.raises(NotImplementedError, match="not implemented for"):
                make(3, dtype=dtype)
    for make in (st.linspace, st.logspace):
        with pytest.raises(NotImplementedError, match="not implemented for bool"):
            make(0, 1, 3, dtype=st.bool)
