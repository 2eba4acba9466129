"""Pooling layers: state, and what they refuse; values: tests/against_torch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

Array = np.ndarray[Any, Any]
SIZES = {1: (9,), 2: (6, 9), 3: (3, 6, 9)}


def random_input(n: int) -> Array:
    return np.random.default_rng(0).random((2, 4, *SIZES[n]))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_restores_positions(n: int) -> None:
    x = st.tensor(random_input(n))
    values, indices = getattr(nn, f"MaxPool{n}d")(3, return_indices=True)(x)
    unpool = getattr(nn, f"MaxUnpool{n}d")(3)
    for size in (None, SIZES[n], [2, 4, *SIZES[n]]):
        unpooled = unpool(values, indices, size)
        assert bool(((unpooled == x) | (unpooled == 0)).all())
        assert st.equal(unpooled[unpooled != 0].sort()[0], values.flatten().sort()[0])
    assert unpool.stride == unpool.kernel_size == (3,) * n


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pool_takes_windows_where_its_samples_say(n: int) -> None:
    x = st.tensor(random_input(n))
    samples = st.rand(2, 4, n, dtype=st.float64)
    cls = getattr(nn, f"FractionalMaxPool{n}d")
    m = cls(2, output_size=2, return_indices=True, _random_samples=samples)
    values, indices = m(x)
    assert st.equal(x.flatten(2).gather(2, indices.flatten(2)), values.flatten(2))
    assert list(m.state_dict()) == ["_random_samples"]
    assert st.equal(m(x)[0], values)
    out = cls(2, output_ratio=0.5)(x)
    assert out.shape[2:] == tuple(size // 2 for size in SIZES[n])
    assert list(cls(2, 3).state_dict()) == []


def test_pickles_and_older_pickles() -> None:
    m = pickle.loads(pickle.dumps(nn.AvgPool3d(2)))
    assert m(st.ones(1, 2, 2, 2)).shape == (1, 1, 1, 1)
    state = dict(m.__dict__)
    for name in ("padding", "ceil_mode", "count_include_pad"):
        del state[name]
    older = nn.AvgPool3d.__new__(nn.AvgPool3d)
    older.__setstate__(state)
    assert (older.padding, older.ceil_mode, older.count_include_pad) == (0, False, True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.FractionalMaxPool2d(2), "one of output_size and output_ratio"),
        (lambda: nn.FractionalMaxPool3d(2, 3, 0.5), "3, 0.5"),
        (lambda: nn.FractionalMaxPool2d(2, output_ratio=(0.5, 1.5)), r"\(0.5, 1.5\)"),
        (lambda: nn.FractionalMaxPool3d((2, 0, 2), 3), r"positive: \(2, 0, 2\)"),
    ],
)
def test_invalid_arguments_of_layers(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "shape", "error", "message"),
    [
        (nn.MaxPool2d(20), (2, 4, 9, 8), RuntimeError, r"\(20, 20\) in \(2, 4, 9, 8\)"),
        (nn.MaxPool2d(0), (2, 4, 9, 8), RuntimeError, r"kernel_size .*\(0, 0\)"),
        (nn.MaxPool2d(3, 0), (2, 4, 9, 8), RuntimeError, r"stride .*\(0, 0\)"),
        (nn.MaxPool2d(3, padding=2), (2, 4, 9, 8), RuntimeError, r"half .* pad=\(2, 2\)"),
        (nn.MaxPool2d(3, padding=-1), (2, 4, 9, 8), RuntimeError, r"non-negative: \(-1, -1\)"),
        (nn.MaxPool2d(3), (9,), RuntimeError, r"expected 3 or 4 dimensions.*\(9,\)"),
        (nn.AvgPool1d(2.5), (4, 9), TypeError, r"kernel_size .*\(2.5,\)"),
        (nn.AvgPool3d(2, divisor_override=0), (4, 2, 2, 2), RuntimeError, "divisor_override=0"),
        (nn.AdaptiveAvgPool2d(-1), (4, 9, 8), RuntimeError, r"negative: \(-1, -1\)"),
        (nn.AdaptiveAvgPool2d(2), (9, 8), RuntimeError, r"at least 3: \(9, 8\)"),
        (nn.AdaptiveMaxPool2d((2, 2)), (9, 8), ValueError, r"at least 3: \(9, 8\)"),
        (nn.AdaptiveMaxPool2d((2, 2.5)), (4, 9, 8), TypeError, r"2.5"),
        (nn.FractionalMaxPool2d(2, 20), (4, 9, 8), RuntimeError, r"too large .*\(4, 9, 8\)"),
    ],
)
def test_input_that_does_not_fit(
    layer: nn.Module, shape: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        layer(st.ones(*shape))


def test_bools_are_not_pooled() -> None:
    for layer in (nn.MaxPool1d(2), nn.AvgPool1d(2)):
        with pytest.raises(NotImplementedError, match="bool"):
            layer(st.ones(1, 4) > 0)


def test_empty_batch_has_a_gradient() -> None:
    x = st.ones(0, 1, 2, 2, requires_grad=True)
    out = nn.MaxUnpool2d(2)(x, st.zeros(0, 1, 2, 2, dtype=st.int64))
    assert out.shape == (0, 1, 4, 4)
    out.sum().backward()
    assert x.grad.shape == x.shape


def test_places_outside_are_refused() -> None:
    m = nn.MaxUnpool2d(2)
    x, indices = st.ones(1, 2, 2), st.zeros(1, 2, 2, dtype=st.int64)
    with pytest.raises(RuntimeError, match=r"max_unpool2d: output size \(4, 4\): .* 16, "):
        m(x, indices + 16)
    with pytest.raises(RuntimeError, match="int64: int32"):
        m(x, indices.int())
    with pytest.raises(RuntimeError, match=r"input's shape: \(1, 1, 2\), \(1, 2, 2\)"):
        m(x, indices[:, :1])
    with pytest.raises(ValueError, match=r"\(9, 9\), near \(4, 4\)"):
        m(x, indices, [9, 9])
    with pytest.raises(ValueError, match=r"2 or 4 numbers: \[4, 4, 4\]"):
        m(x, indices, [4, 4, 4])
    with pytest.raises(RuntimeError, match=r"greater than zero: \(2, 2\), \(0, 0\)"):
        nn.MaxUnpool2d(2, 0)(x, indices)


def test_pools_pass_their_options_on() -> None:
    x = st.tensor([[1.0, 5.0, 2.0]])
    assert nn.MaxPool1d(2, ceil_mode=True)(x).tolist() == [[5, 2]]
    assert nn.AvgPool1d(2, ceil_mode=True, count_include_pad=False)(x).tolist() == [[3, 2]]
    assert nn.AvgPool1d(2, padding=1, count_include_pad=False)(x).tolist() == [[1, 3.5]]
