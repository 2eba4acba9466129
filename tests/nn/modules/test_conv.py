"""Convolution layers against NumPy's windows, and what they refuse."""

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


def convolved(x: Array, weight: Array, bias: Array, stride: int = 1) -> Array:
    """(N, C, *size) and (K, C, *kernel) to (N, K, *fit)."""
    n = weight.ndim - 2
    axes = tuple(range(2, 2 + n))
    parts = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axes)
    parts = parts[(slice(None), slice(None), *(slice(None, None, stride),) * n)]
    summed = np.tensordot(parts, weight, ((1, *range(2 + n, 2 + 2 * n)), (1, *axes)))
    return np.moveaxis(summed, -1, 1) + bias.reshape(-1, *(1,) * n)


def random_input(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape)


def wide(layer: nn.Module) -> tuple[nn.Module, Array, Array]:
    layer.double()
    return layer, layer.weight.detach().numpy(), layer.bias.detach().numpy()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_conv_is_a_sum_over_windows_of_the_padded_input(n: int, mode: str) -> None:
    names = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    cls = getattr(nn, f"Conv{n}d")
    x = random_input(2, 4, *SIZES[n])
    padded = np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * n], names[mode])
    for padding in (1, "same"):
        m, weight, bias = wide(cls(4, 6, 3, padding=padding, padding_mode=mode))
        expected = convolved(padded, weight, bias)
        assert expected.shape[2:] == SIZES[n]
        np.testing.assert_allclose(m(st.tensor(x)).detach().numpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(m(st.tensor(x[0])).detach().numpy(), expected[0], rtol=1e-6)
    m, weight, bias = wide(cls(4, 6, 3, stride=2, padding="valid", padding_mode=mode))
    np.testing.assert_allclose(
        m(st.tensor(x)).detach().numpy(), convolved(x, weight, bias, 2), rtol=1e-6
    )


@pytest.mark.parametrize(("mode", "numpys"), [("circular", "wrap"), ("zeros", "constant")])
def test_same_with_an_even_kernel_adds_more_behind(mode: str, numpys: Any) -> None:
    m, weight, bias = wide(nn.Conv1d(4, 6, 4, padding="same", padding_mode=mode))
    x = random_input(2, 4, 7)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 2)], numpys)
    expected = convolved(padded, weight, bias)
    np.testing.assert_allclose(m(st.tensor(x)).detach().numpy(), expected, rtol=1e-6)
    assert m._reversed_padding_repeated_twice == [1, 2]
    assert nn.Conv2d(1, 1, 3, padding=(1, 2))._reversed_padding_repeated_twice == (2, 2, 1, 1)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_transposed_conv_is_the_gradient_of_a_conv(n: int) -> None:
    forth = getattr(nn, f"Conv{n}d")(6, 4, 3, stride=2, padding=1, groups=2, bias=False)
    deconv = getattr(nn, f"ConvTranspose{n}d")(4, 6, 3, stride=2, padding=1, groups=2, bias=False)
    deconv.load_state_dict(forth.state_dict())
    x = st.zeros(2, 6, *SIZES[n], requires_grad=True)
    out = forth(x)
    g = st.randn(*out.shape)
    out.backward(g)
    assert st.allclose(deconv(g, output_size=SIZES[n]), x.grad, atol=1e-5)
    assert st.equal(deconv(g, output_size=[2, 6, *SIZES[n]]), deconv(g, output_size=SIZES[n]))
    assert deconv(g[0], output_size=SIZES[n]).shape == (6, *SIZES[n])


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


def test_repr_names_what_is_not_usual() -> None:
    assert repr(nn.Conv2d(3, 4, 3)) == "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))"
    m = nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2, bias=False, dilation=2)
    assert repr(m) == (
        "ConvTranspose1d(4, 6, kernel_size=(3,), stride=(2,), padding=(1,), dilation=(2,), "
        "output_padding=(1,), groups=2, bias=False)"
    )
    m = nn.Conv1d(4, 6, 3, padding="same", padding_mode="circular")
    assert "padding=same, padding_mode=circular" in repr(m)


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
