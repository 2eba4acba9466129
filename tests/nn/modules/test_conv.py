"""Convolution layers: padding, state, and what they refuse; values: tests/against_torch."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.modules.conv import _ConvNd, _ConvTransposeNd

Array = np.ndarray[Any, Any]
SIZES = {1: (7,), 2: (6, 5), 3: (4, 5, 3)}


def test_output_size_out_of_reach_is_refused() -> None:
    m = nn.ConvTranspose2d(4, 6, 3, stride=2)
    x = st.ones(1, 4, 3, 3)
    for size, message in (
        ([9, 7], r"from \(7, 7\) to \(8, 8\): \(9, 7\)"),
        ([6, 7], r"from \(7, 7\) to \(8, 8\): \(6, 7\)"),
        ([7, 7, 7], "2 or 4 numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            m(x, output_size=size)


def test_weights_start_within_their_bound() -> None:
    st.manual_seed(0)
    for m, fan_in in (
        (nn.Conv2d(8, 40, 3, groups=2), 4 * 9),
        (nn.ConvTranspose2d(40, 8, 3, groups=2), 4 * 9),
    ):
        for p in m.parameters():
            a = np.abs(p.detach().numpy())
            assert a.max() <= 1 / math.sqrt(fan_in)
            assert a.mean() > 0.3 / math.sqrt(fan_in)
    m = nn.Conv1d(2, 3, 2, dtype=st.float64, device="cpu")
    assert m.weight.dtype is m.bias.dtype is st.float64


def test_copies_pickles_and_older_pickles() -> None:
    m = nn.Conv1d(2, 3, 2)
    assert isinstance(m, _ConvNd)
    assert isinstance(nn.ConvTranspose3d(2, 3, 2), _ConvTransposeNd)
    x = st.ones(1, 2, 4)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert st.equal(other(x), m(x))
    state = dict(m.__dict__)
    del state["padding_mode"]
    older = nn.Conv1d.__new__(nn.Conv1d)
    older.__setstate__(state)
    assert older.padding_mode == "zeros"


def test_weight_may_be_a_plain_attribute() -> None:
    m = nn.Conv1d(2, 3, 2)
    x, expected = st.ones(1, 2, 4), m(st.ones(1, 2, 4))
    weight = m.weight.detach()
    del m.weight
    m.weight = weight
    assert st.equal(m(x), expected)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["", "Transpose"])
def test_lazy_conv_learns_its_channels(n: int, kind: str) -> None:
    name = f"Conv{kind}{n}d"
    layer = getattr(nn, name)
    for shape in ((2, 4, *SIZES[n]), (4, *SIZES[n])):
        m = getattr(nn, f"Lazy{name}")(6, 3, groups=2, dtype=st.float64)
        assert repr(m).startswith(f"Lazy{name}(0, 6, kernel_size={(3,) * n}")
        assert "bias" not in repr(m)
        out = m(st.ones(*shape, dtype=st.float64))
        assert type(m) is layer
        assert m.in_channels == 4
        assert m.weight.shape == layer(4, 6, 3, groups=2).weight.shape
        assert out.dtype is st.float64
        assert bool(m.bias.abs().max() > 0)
    assert getattr(nn, f"Lazy{name}")(6, 3, bias=False)(st.ones(4, *SIZES[n])).shape[0] == 6
    with pytest.raises(ValueError, match="in_channels must be divisible by groups: 3, 2"):
        getattr(nn, f"Lazy{name}")(6, 3, groups=2)(st.ones(2, 3, *SIZES[n]))
    with pytest.raises(RuntimeError, match=rf"expected {n + 1} .* dimensions: \(2,\)"):
        getattr(nn, f"Lazy{name}")(6, 3)(st.ones(2))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"groups": 3}, "in_channels must be divisible by groups: 4, 3"),
        ({"groups": 4}, "out_channels must be divisible by groups: 6, 4"),
        ({"groups": 0}, "groups must be a positive integer: 0"),
        ({"padding": "some"}, "'same' or 'valid': 'some'"),
        ({"padding": "same", "stride": 2}, r"needs stride 1: stride=\(2, 2\)"),
        ({"padding_mode": "some"}, "padding_mode must be one of .*: 'some'"),
    ],
)
def test_invalid_arguments_of_layers(kwargs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"Conv2d: .*{message}"):
        nn.Conv2d(4, 6, 3, **kwargs)


def test_transposed_conv_pads_with_zeros_only() -> None:
    with pytest.raises(ValueError, match=r"ConvTranspose2d: .*'reflect'"):
        nn.ConvTranspose2d(4, 6, 3, padding_mode="reflect")


@pytest.mark.parametrize(
    ("arguments", "kwargs", "shape", "error", "message"),
    [
        ((4, 6, 3), {}, (2, 3, 9, 8), RuntimeError, r"expects 4 channels: .*\(2, 3, 9, 8\)"),
        ((4, 6, 3), {}, (4, 9), RuntimeError, r"expected 3 .* dimensions: \(4, 9\)"),
        ((4, 6, 10), {}, (2, 4, 9, 8), RuntimeError, r"can't be greater than .*\(10, 10\)"),
        ((4, 6, 3), {"stride": 0}, (2, 4, 9, 8), RuntimeError, r"stride .*\(0, 0\)"),
        ((4, 6, 3), {"padding": -1}, (2, 4, 9, 8), RuntimeError, r"negative padding .*\(-1, -1\)"),
        ((4, 6, 3), {"dilation": 0}, (2, 4, 9, 8), RuntimeError, r"dilation .*\(0, 0\)"),
        ((4, 6, 3), {"stride": 1.5}, (2, 4, 9, 8), TypeError, r"stride .*\(1.5, 1.5\)"),
        ((4, 6, (3, 3, 3)), {}, (2, 4, 9, 8), RuntimeError, r"\(6, 4, 3, 3, 3\)"),
    ],
)
def test_input_that_does_not_fit(
    arguments: Any, kwargs: Any, shape: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        nn.Conv2d(*arguments, **kwargs)(st.ones(*shape))


def test_kernels_without_elements_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"kernel size .*: \(6, 4, 0, 2\)"):
        nn.functional.conv2d(st.ones(2, 4, 9, 8), st.ones(6, 4, 0, 2))


def test_subclass_may_change_the_weight_in_forward() -> None:
    class Standardized(nn.Conv2d):
        def forward(self, input: st.Tensor) -> Any:
            weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
            return self._conv_forward(input, weight, self.bias)

    m = Standardized(2, 3, 2, padding=1, padding_mode="circular")
    bias = m.bias.reshape(-1, 1, 1).expand(3, 4, 4)
    assert st.allclose(m(st.ones(2, 3, 3)), bias, atol=1e-6)  # constant terms have vanished
    shapes = []
    m.register_forward_hook(lambda module, args, output: shapes.append(tuple(output.shape)))
    m(st.ones(1, 2, 3, 3)).sum().backward()
    assert shapes == [(1, 3, 4, 4)]
    assert m.weight.grad is not None


@pytest.mark.parametrize(
    ("mode", "numpys"),
    [("zeros", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")],
)
def test_padding_modes_are_numpys(mode: str, numpys: Any) -> None:
    layer = nn.Conv1d(1, 1, 3, padding=2, padding_mode=mode, bias=False)
    x = np.arange(1, 6, dtype=np.float32)
    padded = np.pad(x, 2, mode=numpys)
    expected = np.correlate(padded, layer.weight.detach().numpy()[0, 0])
    np.testing.assert_allclose(layer(st.tensor(x[None, None])).detach()[0, 0], expected, rtol=1e-5)
