"""Padding layers against numpy.pad."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn


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
