"""Flatten and Unflatten."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn


def test_flatten_and_back_share_memory() -> None:
    x = st.ones(2, 3, 4)
    flat = nn.Flatten()(x)
    assert flat.shape == (2, 12)
    assert flat.data_ptr() == x.data_ptr()
    assert nn.Unflatten(1, (3, 4))(flat).shape == (2, 3, 4)
    assert nn.Flatten(0, 1)(x).shape == (6, 4)


def test_sizes_must_be_ints() -> None:
    with pytest.raises(TypeError, match="position 1"):
        nn.Unflatten(1, (3, "x"))
    with pytest.raises(TypeError, match="'name'"):
        nn.Unflatten("name", (3,))
