"""Padding layers against numpy.pad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

SIZES = {1: (6,), 2: (4, 6), 3: (3, 4, 6)}
MODES = {"Reflection": "reflect", "Replication": "edge", "Circular": "wrap"}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("padding", [1, "each side"])
def test_layers_pad_as_numpy_does(n: int, padding: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, *SIZES[n]))
    padding_arg = tuple(i % 3 for i in range(2 * n)) if padding == "each side" else padding
    sides = padding_arg if isinstance(padding_arg, tuple) else (padding_arg,) * (2 * n)
    widths = [(0, 0), (0, 0), *list(zip(sides[::2], sides[1::2], strict=True))[::-1]]
    for name, mode in MODES.items():
        m = getattr(nn, f"{name}Pad{n}d")(padding_arg)
        for part, frame in ((x, widths), (x[0], widths[1:])):
            assert np.array_equal(m(st.tensor(part)).numpy(), np.pad(part, frame, mode))
        assert repr(m) == f"{name}Pad{n}d({sides})"
    for m, value in (
        (getattr(nn, f"ConstantPad{n}d")(padding_arg, 2.5), 2.5),
        (getattr(nn, f"ZeroPad{n}d")(padding_arg), 0),
    ):
        expected = np.pad(x, widths, constant_values=value)
        assert np.array_equal(m(st.tensor(x)).numpy(), expected)
        assert m.padding == sides
        assert m.value == value
    assert repr(nn.ZeroPad1d(2)) == "ZeroPad1d((2, 2))"
    assert repr(nn.ConstantPad1d(2, 3.5)) == "ConstantPad1d(padding=(2, 2), value=3.5)"


def test_negative_padding_cuts_off() -> None:
    x = st.arange(6.0).reshape(1, 6)
    assert nn.ZeroPad1d((-1, 1))(x).tolist() == [[1, 2, 3, 4, 5, 0]]
    assert nn.ReplicationPad1d((-2, 1))(x).tolist() == [[2, 3, 4, 5, 5]]
    with pytest.raises(RuntimeError, match=r"negative padding exceeds the size: \(-9, -9\)"):
        nn.ZeroPad1d(-9)(x)


@pytest.mark.parametrize(
    ("layer", "shape", "error", "message"),
    [
        (nn.ReflectionPad1d(6), (1, 6), RuntimeError, r"at most 5 .*\(6, 6\)"),
        (nn.CircularPad1d(7), (1, 6), RuntimeError, r"at most 6 .*\(7, 7\)"),
        (nn.CircularPad1d(1), (6,), ValueError, r"expected 2 or 3 dimensions: \(6,\)"),
        (nn.CircularPad2d(1), (1, 6), ValueError, r"expected 3 or 4 dimensions: \(1, 6\)"),
        (nn.ReflectionPad2d(1), (1, 6), NotImplementedError, r"\(1, 1, 1, 1\), \(1, 6\)"),
        (nn.ReplicationPad1d(1), (1, 2, 3, 6), NotImplementedError, r"\(1, 1\), \(1, 2, 3, 6\)"),
        (nn.ReplicationPad1d((1, 1, 1)), (1, 6), RuntimeError, r"two numbers .*\(1, 1, 1\)"),
        (nn.ZeroPad1d(1.5), (1, 6), TypeError, r"\(1.5, 1.5\)"),
        (nn.ReplicationPad3d((1, 2, 3)), (1, 6), RuntimeError, r"\(1, 2, 3\)"),
    ],
)
def test_padding_that_does_not_fit(
    layer: nn.Module, shape: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        layer(st.ones(*shape))
