"""PixelShuffle, PixelUnshuffle, ChannelShuffle."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def test_pixels_come_from_channels_and_go_back() -> None:
    x = st.arange(16.0).reshape(1, 4, 2, 2)
    out = nn.PixelShuffle(2)(x)
    expected = x.numpy().reshape(2, 2, 2, 2).transpose(2, 0, 3, 1).reshape(1, 1, 4, 4)
    assert np.array_equal(out.numpy(), expected)
    assert st.equal(nn.PixelUnshuffle(2)(out), x)
    assert repr(nn.PixelShuffle(2)) == "PixelShuffle(upscale_factor=2)"
    assert repr(nn.PixelUnshuffle(2)) == "PixelUnshuffle(downscale_factor=2)"


def test_channels_are_taken_in_turn() -> None:
    x = st.arange(6.0).reshape(1, 6, 1)
    assert nn.ChannelShuffle(2)(x).flatten().tolist() == [0, 3, 1, 4, 2, 5]
    assert repr(nn.ChannelShuffle(2)) == "ChannelShuffle(groups=2)"


@pytest.mark.parametrize("cls", [nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle])
def test_factors_that_do_not_fit(cls: type[nn.Module]) -> None:
    x = st.ones(1, 4, 2, 2)
    with pytest.raises(RuntimeError, match=r"\(1, 4, 2, 2\), 3"):
        cls(3)(x)
    with pytest.raises(RuntimeError, match="positive: 0"):
        cls(0)(x)
    with pytest.raises(TypeError, match=r"int: 2\.0"):
        cls(2.0)(x)
    with pytest.raises(RuntimeError, match=r"at least 3 dimensions: \(4, 2\)"):
        cls(2)(st.ones(4, 2))
