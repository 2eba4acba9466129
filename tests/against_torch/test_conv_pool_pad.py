"""Layers of convolution, pooling, padding and shape against PyTorch's, with PyTorch's weights.

Each case is a layer, its arguments and the shape of its input: repr, attributes, names and version
of the state, the result and all gradients are those of PyTorch.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import shmtensor as st
from shmtensor import nn

pytestmark = pytest.mark.torch

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")

SIZES = {1: (9,), 2: (7, 8), 3: (5, 6, 7)}
CONV = {1: "Conv1d", 2: "Conv2d", 3: "Conv3d"}
CONV_TRANSPOSE = {1: "ConvTranspose1d", 2: "ConvTranspose2d", 3: "ConvTranspose3d"}
MAX_POOL = {1: "MaxPool1d", 2: "MaxPool2d", 3: "MaxPool3d"}
MAX_UNPOOL = {1: "MaxUnpool1d", 2: "MaxUnpool2d", 3: "MaxUnpool3d"}
AVG_POOL = {1: "AvgPool1d", 2: "AvgPool2d", 3: "AvgPool3d"}
LP_POOL = {1: "LPPool1d", 2: "LPPool2d", 3: "LPPool3d"}
ADAPTIVE_MAX = {1: "AdaptiveMaxPool1d", 2: "AdaptiveMaxPool2d", 3: "AdaptiveMaxPool3d"}
ADAPTIVE_AVG = {1: "AdaptiveAvgPool1d", 2: "AdaptiveAvgPool2d", 3: "AdaptiveAvgPool3d"}
FRACTIONAL = {2: "FractionalMaxPool2d", 3: "FractionalMaxPool3d"}
PADS = [
    {1: "ReflectionPad1d", 2: "ReflectionPad2d", 3: "ReflectionPad3d"},
    {1: "ReplicationPad1d", 2: "ReplicationPad2d", 3: "ReplicationPad3d"},
    {1: "CircularPad1d", 2: "CircularPad2d", 3: "CircularPad3d"},
    {1: "ZeroPad1d", 2: "ZeroPad2d", 3: "ZeroPad3d"},
]
CONSTANT_PAD = {1: "ConstantPad1d", 2: "ConstantPad2d", 3: "ConstantPad3d"}
LAZY = {
    "LazyConv1d": 1,
    "LazyConv2d": 2,
    "LazyConv3d": 3,
    "LazyConvTranspose1d": 1,
    "LazyConvTranspose2d": 2,
    "LazyConvTranspose3d": 3,
}

Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]


def by_layer(cases: list[Case]) -> dict[str, list[Any]]:
    """The cases by the name of the layer: one test per layer is quick."""
    layers: dict[str, list[Any]] = {}
    for name, *case in cases:
        layers.setdefault(name, []).append(case)
    return layers


def convolutions() -> list[Case]:
    cases: list[Case] = []
    for n, size in SIZES.items():
        for kwargs in (
            {},
            {"stride": 2, "padding": 1, "dilation": 2},
            {"kernel_size": list(range(2, 2 + n)), "stride": tuple(range(1, 1 + n))},
            {"groups": 2, "bias": False},
            {"padding": "same", "dilation": 2},
            {"padding": "same", "kernel_size": 2},
            {"padding": "valid", "padding_mode": "reflect"},
            {"padding": 2, "padding_mode": "circular", "stride": 2},
            {"padding": "same", "padding_mode": "replicate"},
            {"padding": "same", "padding_mode": "circular", "kernel_size": 4},
            {"padding": tuple(range(1, 1 + n)), "padding_mode": "circular"},
        ):
            kwargs = {"kernel_size": 3, **kwargs}
            cases += [(CONV[n], (4, 6), kwargs, (*lead, 4, *size)) for lead in ((2,), ())]
        for kwargs in (
            {},
            {"stride": 2, "padding": 1, "output_padding": 1},
            {"groups": 2, "bias": False, "stride": 2},
            {"dilation": 2, "output_padding": (1,) * n},
        ):
            cases += [
                (CONV_TRANSPOSE[n], (4, 6, 3), kwargs, (*lead, 4, *size)) for lead in ((2,), ())
            ]
    return cases


def pools() -> list[Case]:
    cases: list[Case] = []
    for n, size in SIZES.items():
        x = (2, 3, *size)
        for kwargs in ({}, {"stride": 2, "padding": 1}, {"ceil_mode": True, "stride": (2,) * n}):
            cases += [(MAX_POOL[n], (3,), kwargs, x), (AVG_POOL[n], (3,), kwargs, x[1:])]
        cases.append((MAX_POOL[n], (2,), {"dilation": 2, "return_indices": True}, x))
        cases.append((AVG_POOL[n], ([3] * n,), {"padding": 1, "count_include_pad": False}, x))
        cases += [(LP_POOL[n], (p, 3), {"ceil_mode": True, "stride": 2}, x) for p in (1, 2, 3.5)]
        for size_ in (1, 4, (3,) * n):
            cases.append((ADAPTIVE_AVG[n], (size_,), {}, x))
            cases.append((ADAPTIVE_MAX[n], (size_, True), {}, x[1:]))
        if n > 1:
            cases.append((ADAPTIVE_AVG[n], ((None,) * n,), {}, x))
            cases.append((ADAPTIVE_MAX[n], ((None, 2, 3)[:n],), {}, x))
            cases.append((AVG_POOL[n], (3,), {"divisor_override": 2}, x))
    return cases


def pads() -> list[Case]:
    cases: list[Case] = []
    for n, size in SIZES.items():
        for padding, shape in product(
            (2, [1] * (2 * n), (1, -1) * n, (0, 2) * n), ((2, 3, *size), (3, *size))
        ):
            cases += [(names[n], (padding,), {}, shape) for names in PADS]
            cases.append((CONSTANT_PAD[n], (padding, 2.5), {}, shape))
    return cases


OTHERS: list[Case] = [
    *[
        ("Upsample", (), {"mode": mode, **kwargs}, (2, 3, *(5, 6, 4)[:n]))
        for mode, n in (("nearest", 1), ("linear", 1), ("bilinear", 2), ("trilinear", 3))
        for kwargs in ({"size": 7}, {"scale_factor": 1.5}, {"scale_factor": (2,) * n})
    ],
    ("Upsample", ((3, 4),), {"mode": "bicubic", "align_corners": True}, (2, 3, 5, 6)),
    ("Upsample", (), {"scale_factor": 1.7, "recompute_scale_factor": True}, (2, 3, 5, 6)),
    ("UpsamplingNearest2d", (None, 2), {}, (2, 3, 5, 6)),
    ("UpsamplingBilinear2d", ((3, 9),), {}, (2, 3, 5, 6)),
    ("PixelShuffle", (2,), {}, (2, 8, 3, 4)),
    ("PixelUnshuffle", (2,), {}, (8, 4, 6)),
    ("ChannelShuffle", (3,), {}, (2, 6, 3, 4)),
    ("Unfold", (2,), {"padding": 1, "stride": (2, 1), "dilation": 2}, (2, 3, 5, 6)),
    ("Fold", ((4, 5), (2, 3)), {"padding": 1}, (2, 12, 25)),
    ("Flatten", (1, 2), {}, (2, 3, 4, 5)),
    ("Unflatten", (1, (2, 3)), {}, (2, 6, 4)),
]


def public(layer: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(layer).items()
        if not name.startswith("_") or name == "_reversed_padding_repeated_twice"
    }


def same(ours: Any, theirs: Any) -> None:
    assert ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-6, 1e-9)


def pair(name: str, *arguments: Any, **kwargs: Any) -> tuple[Any, Any]:
    """PyTorch's layer, and ours with its weights, both in float64."""
    theirs = getattr(torch.nn, name)(*arguments, **kwargs).double()
    ours = getattr(nn, name)(*arguments, **kwargs).double()
    state = theirs.state_dict()
    ours.load_state_dict({key: st.tensor(value.numpy()) for key, value in state.items()})
    assert ours.state_dict()._metadata == state._metadata
    return ours, theirs


def compare(ours: Any, theirs: Any, *inputs: Any) -> None:
    """Results and gradients; arrays of floats are inputs with gradients."""
    kinds = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in inputs]
    xs = [st.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    ys = [torch.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    for x, y, kind in zip(xs, ys, kinds, strict=True):
        if kind:
            x.requires_grad_(), y.requires_grad_()
    out, expected = ours(*xs), theirs(*ys)
    if isinstance(expected, tuple):
        assert np.array_equal(out[1].numpy(), expected[1].numpy())
        out, expected = out[0], expected[0]
    same(out, expected)
    g = np.random.default_rng(1).standard_normal(tuple(out.shape))
    out.backward(st.tensor(g))
    expected.backward(torch.tensor(g))
    for x, y in zip(
        [*(x for x, kind in zip(xs, kinds, strict=True) if kind), *ours.parameters()],
        [*(y for y, kind in zip(ys, kinds, strict=True) if kind), *theirs.parameters()],
        strict=True,
    ):
        same(x.grad, y.grad)


def random_input(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape)


RIGHT = by_layer([*convolutions(), *pools(), *pads(), *OTHERS])


@pytest.mark.parametrize("name", RIGHT)
def test_layer_is_pytorchs(name: str) -> None:
    for arguments, kwargs, shape in RIGHT[name]:
        ours, theirs = pair(name, *arguments, **kwargs)
        assert repr(ours) == repr(theirs)
        assert public(ours) == public(theirs)
        x = random_input(*shape)
        compare(ours, theirs, abs(x) if name.startswith("LP") else x)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_output_size_of_transposed_conv(n: int) -> None:
    ours, theirs = pair(CONV_TRANSPOSE[n], 4, 6, 3, 2, 1)
    x = random_input(2, 4, *SIZES[n])
    for output_padding in (0, 1):
        size = [2 * m - 1 + output_padding for m in SIZES[n]]
        compare(ours, theirs, x, size)
        compare(ours, theirs, x[0], [6, *size])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling(n: int) -> None:
    x = random_input(2, 4, *SIZES[n])
    pool = getattr(torch.nn.functional, f"max_pool{n}d")
    values, indices = pool(torch.tensor(x), 2, return_indices=True)
    ours, theirs = pair(MAX_UNPOOL[n], 2)
    for size in (SIZES[n], [2, 4, *SIZES[n]]):
        compare(ours, theirs, values.numpy(), indices.numpy(), size)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("kwargs", [{"output_size": 3}, {"output_ratio": 0.5}])
def test_fractional_pool_with_the_same_samples(n: int, kwargs: Any) -> None:
    samples = torch.rand(2, 4, n, dtype=torch.float64)
    name = FRACTIONAL[n]
    theirs = getattr(torch.nn, name)(2, **kwargs, _random_samples=samples, return_indices=True)
    ours = getattr(nn, name)(
        2, **kwargs, _random_samples=st.tensor(samples.numpy()), return_indices=True
    )
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    compare(ours, theirs, random_input(2, 4, *SIZES[n]))


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("PairwiseDistance", {}),
        ("PairwiseDistance", {"p": 1, "keepdim": True}),
        ("PairwiseDistance", {"p": 3.5, "eps": 0.1}),
        ("CosineSimilarity", {}),
        ("CosineSimilarity", {"dim": -1, "eps": 0.1}),
    ],
)
def test_distances(name: str, kwargs: Any) -> None:
    x = random_input(2, 4, 5)
    compare(*pair(name, **kwargs), x[0], x[1])
    compare(*pair(name, **kwargs), x[0], x[1, :1])


@pytest.mark.parametrize("name", LAZY)
def test_lazy_layers(name: str) -> None:
    shape = (2, 4, *SIZES[LAZY[name]])
    theirs = getattr(torch.nn, name)(6, 3, groups=2, stride=2)
    ours = getattr(nn, name)(6, 3, groups=2, stride=2)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    theirs(torch.ones(*shape))
    ours(st.ones(*shape))
    state = {key: st.tensor(value.numpy()) for key, value in theirs.state_dict().items()}
    loaded = getattr(nn, name)(6, 3, groups=2, stride=2)
    loaded.load_state_dict(state)  # into a layer that is still lazy
    assert type(loaded).__name__ == name
    loaded(st.ones(*shape))
    for layer in (ours, loaded):
        assert repr(layer) == repr(theirs)
        assert public(layer) == public(theirs)
    compare(loaded.double(), theirs.double(), random_input(*shape))


def wrong() -> list[Case]:
    """Arguments and inputs that PyTorch refuses."""
    cases: list[Case] = []
    for n, size in SIZES.items():
        x = (2, 4, *size)
        for names in (CONV, CONV_TRANSPOSE):
            arguments = (4, 6, 3)
            cases += [
                (names[n], arguments, kwargs, x)
                for kwargs in (
                    {"groups": 3},
                    {"groups": 0},
                    {"groups": 4},
                    {"padding_mode": "some"},
                    {"padding": "some"},
                    {"stride": 0},
                    {"padding": -1},
                    {"dilation": 0},
                    {"stride": 1.5},
                    {"stride": (1,) * (n + 1)},
                )
            ]
            shapes = ((2, 3, *size), x[2:], (1, *x), (2, 0, *size))
            cases += [(names[n], arguments, {}, shape) for shape in shapes]
        cases.append((CONV[n], (4, 6, 20), {}, x))
        cases.append((CONV[n], (4, 6, 3), {"padding": "same", "stride": 2}, x))
        cases.append((CONV_TRANSPOSE[n], (4, 6, 3), {"output_padding": 1}, x))
        for pool in (MAX_POOL, AVG_POOL):
            for arguments in ((20,), (0,), (3, 0), (3, 1, 2), (3, 1, -1), ((3,) * (n + 1),)):
                cases.append((pool[n], arguments, {}, x))
            cases += [(pool[n], (3,), {}, shape) for shape in ((1, *x), (2, 0, *size))]
        cases.append((MAX_POOL[n], (3,), {"dilation": 0}, x))
        for adaptive in (ADAPTIVE_MAX, ADAPTIVE_AVG):
            for size_ in (-1, (2,) * (n + 1), 2.5):
                cases.append((adaptive[n], (size_,), {}, x))
            cases += [(adaptive[n], (3,), {}, shape) for shape in (size[1:], (1, *x))]
        for pad in PADS:
            cases += [(pad[n], (p,), {}, x) for p in (-20, (1,) * (2 * n + 1), 1.5)]
        for pad in (PADS[0], PADS[2]):
            cases += [(pad[n], (20,), {}, x), (pad[n], (1,), {}, (1, *x))]
    for n in FRACTIONAL:
        for kwargs in (
            {},
            {"output_size": 3, "output_ratio": 0.5},
            {"output_ratio": 1.5},
            {"output_size": 20},
        ):
            cases.append((FRACTIONAL[n], (2,), kwargs, (2, 4, *SIZES[n])))
    x = (2, 3, 5, 6)
    cases += [
        ("Upsample", (), {}, x),
        ("Upsample", (2, 2), {}, x),
        ("Upsample", ((2, 2, 2),), {}, x),
        ("Upsample", (2,), {"mode": "linear"}, x),
        ("Upsample", (2,), {"mode": "some"}, x),
        ("Upsample", (2,), {"align_corners": True}, x),
        ("Upsample", (0,), {}, x),
        ("PixelShuffle", (2,), {}, x),
        ("PixelShuffle", (0,), {}, x),
        ("PixelUnshuffle", (4,), {}, x),
        ("PixelUnshuffle", (2,), {}, (5, 6)),
        ("ChannelShuffle", (2,), {}, x),
        ("Unfold", (9,), {}, x),
        ("Unfold", (2,), {"stride": 0}, x),
        ("Unfold", (2,), {"padding": -1}, x),
        ("Fold", ((4, 5), 2), {}, (2, 13, 12)),
        ("Fold", ((4, 5), 2), {}, (2, 12, 4)),
        ("Unflatten", (1, (2, 2)), {}, (2, 6, 4)),
        ("Unflatten", (1, 6), {}, (2, 6, 4)),
        ("Flatten", (2, 1), {}, (2, 6, 4)),
    ]
    return cases


WRONG = by_layer(wrong())


@pytest.mark.parametrize("name", WRONG)
def test_refused_arguments_are_pytorchs(name: str) -> None:
    for arguments, kwargs, shape in WRONG[name]:
        with pytest.raises(Exception) as expected:
            getattr(torch.nn, name)(*arguments, **kwargs)(torch.ones(shape))
        with pytest.raises(expected.type):
            getattr(nn, name)(*arguments, **kwargs)(st.ones(*shape))


def test_extra_repr_of_a_model() -> None:
    def model(lib: Any) -> Any:
        return lib.Sequential(
            lib.Conv2d(3, 8, 3, padding=1), lib.MaxPool2d(2), lib.Flatten(), lib.LazyLinear(4)
        )

    assert repr(model(nn)) == repr(model(torch.nn))
